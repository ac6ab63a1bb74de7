//! A reader for the pickles inside PyTorch checkpoints: plain values and descriptions of tensors, nothing else.
//!
//! A pickle is a program for a stack machine that may call any function of Python. This machine knows the instructions that
//! `torch.save` writes (protocol 2) and a closed list of names; it runs nothing, and what is not on the lists is an error
//! that names it. Values live in an arena and are referred to by index, as Python shares its objects, so neither copies nor
//! cycles of a hostile file cost more than its bytes.

use std::collections::HashMap;

use super::names::{Name, known};
use super::opcodes;
pub use super::value::{Id, StorageInfo, TensorInfo, Value};

/// Most values in a pickle. Published checkpoints have a few thousand.
const VALUES_MAX: usize = 1 << 20;

/// Most dimensions of a tensor.
const DIMENSIONS_MAX: usize = 8;

/// A pickle that has been read.
#[derive(Debug, Default)]
pub struct Pickle {
    values: Vec<Value>,
}

impl Pickle {
    /// Reads a pickle and returns it with the value it stands for.
    ///
    /// # Errors
    /// What is wrong, and at which byte: a truncated pickle, an instruction or a name that is not on the lists, or an
    /// instruction that does not fit what is on the stack.
    pub fn read(bytes: &[u8]) -> Result<(Self, Id), String> {
        let mut machine = Machine {
            bytes,
            at: 0,
            pickle: Self::default(),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: HashMap::new(),
        };
        loop {
            let start = machine.at;
            let ended = machine
                .instruction()
                .map_err(|what| format!("pickle, byte {start}: {what}"))?;
            if let Some(root) = ended {
                return Ok((machine.pickle, root));
            }
        }
    }

    /// A value.
    pub fn value(&self, id: Id) -> &Value {
        &self.values[id]
    }

    /// The value of a text key in a dictionary; of several, the last, as Python would have it.
    pub fn get(&self, dict: Id, key: &str) -> Option<Id> {
        let Value::Dict(pairs) = self.value(dict) else {
            return None;
        };
        let found = pairs
            .iter()
            .rev()
            .find(|(k, _)| matches!(self.value(*k), Value::Text(text) if text == key));
        found.map(|(_, value)| *value)
    }

    /// Pairs of a dictionary whose keys are texts.
    pub fn entries(&self, dict: Id) -> impl Iterator<Item = (&str, &Value)> {
        let pairs = match self.value(dict) {
            Value::Dict(pairs) => pairs.as_slice(),
            _ => &[],
        };
        pairs.iter().filter_map(|(key, value)| match self.value(*key) {
            Value::Text(text) => Some((text.as_str(), self.value(*value))),
            _ => None,
        })
    }
}

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    pickle: Pickle,
    stack: Vec<Id>,
    marks: Vec<usize>,
    memo: HashMap<u32, Id>,
}

impl Machine<'_> {
    /// Carries out one instruction. Returns the result at the end.
    fn instruction(&mut self) -> Result<Option<Id>, String> {
        let [code] = self.take_array()?;
        match code {
            opcodes::PROTO => {
                let [version] = self.take_array()?;
                if version > 2 {
                    return Err(format!("protocol {version}; `torch.save` writes protocol 2"));
                }
            }
            opcodes::STOP => return self.pop().map(Some),
            opcodes::MARK => self.marks.push(self.stack.len()),
            opcodes::GLOBAL => self.global()?,
            opcodes::REDUCE => self.reduce()?,
            opcodes::BUILD => self.build()?,
            opcodes::BINPERSID => self.persistent()?,
            opcodes::BINPUT => {
                let [place] = self.take_array()?;
                self.put(place.into())?;
            }
            opcodes::LONG_BINPUT => {
                let place = u32::from_le_bytes(self.take_array()?);
                self.put(place)?;
            }
            opcodes::BINGET => {
                let [place] = self.take_array()?;
                self.get(place.into())?;
            }
            opcodes::LONG_BINGET => {
                let place = u32::from_le_bytes(self.take_array()?);
                self.get(place)?;
            }
            opcodes::APPEND => {
                let item = self.pop()?;
                self.extend_list(vec![item])?;
            }
            opcodes::APPENDS => {
                let items = self.pop_to_mark()?;
                self.extend_list(items)?;
            }
            opcodes::SETITEM => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.extend_dict(&[key, value])?;
            }
            opcodes::SETITEMS => {
                let items = self.pop_to_mark()?;
                self.extend_dict(&items)?;
            }
            opcodes::TUPLE => {
                let items = self.pop_to_mark()?;
                self.push(Value::Tuple(items))?;
            }
            opcodes::TUPLE1 | opcodes::TUPLE2 | opcodes::TUPLE3 => {
                let len = usize::from(code - opcodes::TUPLE1) + 1;
                let mut items = Vec::with_capacity(len);
                for _ in 0..len {
                    items.push(self.pop()?);
                }
                items.reverse();
                self.push(Value::Tuple(items))?;
            }
            _ => {
                let value = self.plain(code)?;
                self.push(value)?;
            }
        }
        Ok(None)
    }

    /// The value that an instruction pushes without looking at the stack.
    fn plain(&mut self, code: u8) -> Result<Value, String> {
        Ok(match code {
            opcodes::NONE => Value::None,
            opcodes::NEWTRUE => Value::Bool(true),
            opcodes::NEWFALSE => Value::Bool(false),
            opcodes::EMPTY_TUPLE => Value::Tuple(Vec::new()),
            opcodes::EMPTY_LIST => Value::List(Vec::new()),
            opcodes::EMPTY_DICT => Value::Dict(Vec::new()),
            opcodes::BININT1 => Value::Int(u8::from_le_bytes(self.take_array()?).into()),
            opcodes::BININT2 => Value::Int(u16::from_le_bytes(self.take_array()?).into()),
            opcodes::BININT => Value::Int(i32::from_le_bytes(self.take_array()?).into()),
            opcodes::BINFLOAT => Value::Float(f64::from_be_bytes(self.take_array()?)),
            opcodes::LONG1 => {
                let [len] = self.take_array()?;
                Value::Int(integer(self.take(len.into())?)?)
            }
            opcodes::BINUNICODE => {
                let len = u32::from_le_bytes(self.take_array()?) as usize;
                let text = std::str::from_utf8(self.take(len)?).map_err(|_| "a string is not UTF-8")?;
                Value::Text(text.to_owned())
            }
            other => return Err(opcodes::refusal(other)),
        })
    }

    fn global(&mut self) -> Result<(), String> {
        let (module, name) = (self.line()?, self.line()?);
        let known = known(&module, &name).ok_or_else(|| {
            format!("it names `{module}.{name}`, which would be executed; only tensors and plain values are read")
        })?;
        self.push(Value::Name(known))
    }

    /// Calls a name of the list, which is to say: builds what it would have built.
    fn reduce(&mut self) -> Result<(), String> {
        let (args, callable) = (self.pop()?, self.pop()?);
        let Value::Tuple(args) = self.pickle.value(args) else {
            return Err("REDUCE without a tuple of arguments".to_owned());
        };
        let first = args.first().map(|id| self.pickle.value(*id));
        let value = match (self.pickle.value(callable), first) {
            (Value::Name(Name::OrderedDict), None) => Value::Dict(Vec::new()),
            (Value::Name(Name::RebuildTensor), _) => Value::Tensor(self.tensor(args)?),
            (Value::Name(Name::RebuildParameter), Some(Value::Tensor(tensor))) => Value::Tensor(tensor.clone()),
            (Value::Name(Name::Size), Some(Value::Tuple(sizes))) if sizes.len() <= DIMENSIONS_MAX => {
                Value::Tuple(sizes.clone())
            }
            (Value::Name(Name::Opaque), _) => Value::Opaque,
            (other, _) => return Err(format!("REDUCE of {} with {} arguments", other.what(), args.len())),
        };
        self.push(value)
    }

    /// Sets attributes of an object. A state dict has a description of modules there, which nobody needs.
    fn build(&mut self) -> Result<(), String> {
        self.pop()?;
        let object = *self.stack.last().ok_or("the stack is empty")?;
        match self.pickle.value(object) {
            Value::Dict(_) | Value::Opaque => Ok(()),
            other => Err(format!("BUILD of {}", other.what())),
        }
    }

    /// Refers to a storage: ("storage", type, key, device, elements).
    fn persistent(&mut self) -> Result<(), String> {
        let id = self.pop()?;
        let items = match self.pickle.value(id) {
            Value::Tuple(items) if items.len() == 5 => items.clone(),
            other => return Err(format!("BINPERSID of {}, expected a storage", other.what())),
        };
        let values: Vec<&Value> = items.iter().map(|id| self.pickle.value(*id)).collect();
        let storage = match values.as_slice() {
            [
                Value::Text(tag),
                Value::Name(Name::Storage(dtype)),
                Value::Text(key),
                _,
                Value::Int(elements),
            ] if tag == "storage" => StorageInfo {
                dtype,
                key: key.clone(),
                elements: usize::try_from(*elements).map_err(|_| format!("a storage of {elements} elements"))?,
            },
            _ => return Err("BINPERSID of a tuple that describes no storage".to_owned()),
        };
        self.push(Value::Storage(storage))
    }

    /// (storage, offset, shape, strides, …).
    fn tensor(&self, args: &[Id]) -> Result<TensorInfo, String> {
        let [storage, offset, shape, strides, ..] = args else {
            return Err(format!("a tensor from {} arguments", args.len()));
        };
        let Value::Storage(storage) = self.pickle.value(*storage) else {
            return Err("a tensor without a storage".to_owned());
        };
        let size = |id: &Id| match self.pickle.value(*id) {
            Value::Int(number) => usize::try_from(*number).map_err(|_| format!("a tensor with a size of {number}")),
            other => Err(format!("a tensor with a size that is {}", other.what())),
        };
        let sizes = |id: &Id| match self.pickle.value(*id) {
            Value::Tuple(items) if items.len() <= DIMENSIONS_MAX => {
                items.iter().map(size).collect::<Result<Vec<_>, _>>()
            }
            other => Err(format!("a tensor with sizes that are {}", other.what())),
        };
        Ok(TensorInfo {
            storage: storage.clone(),
            offset: size(offset)?,
            shape: sizes(shape)?,
            strides: sizes(strides)?,
        })
    }

    fn extend_list(&mut self, items: Vec<Id>) -> Result<(), String> {
        let list = *self.stack.last().ok_or("the stack is empty")?;
        match &mut self.pickle.values[list] {
            Value::List(list) => list.extend(items),
            other => return Err(format!("APPENDS to {}", other.what())),
        }
        Ok(())
    }

    fn extend_dict(&mut self, items: &[Id]) -> Result<(), String> {
        let dict = *self.stack.last().ok_or("the stack is empty")?;
        let (pairs, []) = items.as_chunks::<2>() else {
            return Err("SETITEMS with a key without a value".to_owned());
        };
        match &mut self.pickle.values[dict] {
            Value::Dict(dict) => dict.extend(pairs.iter().map(|[key, value]| (*key, *value))),
            // An attribute of something of which no field is read.
            Value::Opaque => {}
            other => return Err(format!("SETITEMS of {}", other.what())),
        }
        Ok(())
    }

    fn push(&mut self, value: Value) -> Result<(), String> {
        if self.pickle.values.len() == VALUES_MAX {
            return Err(format!("more than {VALUES_MAX} values"));
        }
        self.stack.push(self.pickle.values.len());
        self.pickle.values.push(value);
        Ok(())
    }

    fn pop(&mut self) -> Result<Id, String> {
        // What lies below a mark belongs to the instruction that set it.
        if self.stack.len() <= self.marks.last().copied().unwrap_or(0) {
            return Err("the stack is empty".to_owned());
        }
        self.stack.pop().ok_or_else(|| "the stack is empty".to_owned())
    }

    fn pop_to_mark(&mut self) -> Result<Vec<Id>, String> {
        let mark = self.marks.pop().ok_or("there is no mark on the stack")?;
        Ok(self.stack.split_off(mark))
    }

    fn put(&mut self, place: u32) -> Result<(), String> {
        let top = *self.stack.last().ok_or("the stack is empty")?;
        self.memo.insert(place, top);
        Ok(())
    }

    fn get(&mut self, place: u32) -> Result<(), String> {
        let id = *self
            .memo
            .get(&place)
            .ok_or_else(|| format!("nothing was stored at {place}"))?;
        self.stack.push(id);
        Ok(())
    }

    fn take(&mut self, len: usize) -> Result<&[u8], String> {
        let rest = &self.bytes[self.at..];
        let taken = rest
            .get(..len)
            .ok_or_else(|| format!("it ends after {} of {len} bytes", rest.len()))?;
        self.at += len;
        Ok(taken)
    }

    fn take_array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn line(&mut self) -> Result<String, String> {
        let rest = &self.bytes[self.at..];
        let len = rest
            .iter()
            .position(|byte| *byte == b'\n')
            .ok_or("it ends within a name")?;
        let line = String::from_utf8_lossy(&rest[..len]).into_owned();
        self.at += len + 1;
        Ok(line)
    }
}

/// A little-endian two's complement of up to eight bytes.
fn integer(bytes: &[u8]) -> Result<i64, String> {
    let sign = if bytes.last().is_some_and(|last| last & 0x80 != 0) {
        0xff
    } else {
        0
    };
    let mut whole = [sign; 8];
    let len = bytes.len();
    whole
        .get_mut(..len)
        .ok_or_else(|| format!("an integer of {len} bytes"))?
        .copy_from_slice(bytes);
    Ok(i64::from_le_bytes(whole))
}
