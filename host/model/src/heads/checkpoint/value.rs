//! What a pickle can hold: plain values, and where tensors lie.

use super::names::Name;

/// A value of a pickle, by its place in it.
pub type Id = usize;

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `None`.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// An integer within 64 bits.
    Int(i64),
    /// A float.
    Float(f64),
    /// A string.
    Text(String),
    /// A list.
    List(Vec<Id>),
    /// A tuple, a `torch.Size` among them.
    Tuple(Vec<Id>),
    /// A dictionary, ordered or not.
    Dict(Vec<(Id, Id)>),
    /// A tensor.
    Tensor(TensorInfo),
    /// A name of the closed list.
    Name(Name),
    /// The bytes that tensors lie in: a storage's type, key and number of elements.
    Storage(StorageInfo),
    /// Something harmless of which no field is read, such as a scalar of NumPy or a type of elements.
    Opaque,
}

impl Value {
    /// What it is, for messages.
    pub fn what(&self) -> &'static str {
        match self {
            Value::None => "None",
            Value::Bool(_) => "a bool",
            Value::Int(_) => "an int",
            Value::Float(_) => "a float",
            Value::Text(_) => "a string",
            Value::List(_) => "a list",
            Value::Tuple(_) => "a tuple",
            Value::Dict(_) => "a dict",
            Value::Tensor(_) => "a tensor",
            Value::Name(_) => "a class or function",
            Value::Storage(_) => "a storage",
            Value::Opaque => "an object",
        }
    }
}

/// Where a tensor's elements lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// The storage.
    pub storage: StorageInfo,
    /// First element in the storage.
    pub offset: usize,
    /// Sizes.
    pub shape: Vec<usize>,
    /// Elements from one index to the next, a number for each of `shape`.
    pub strides: Vec<usize>,
}

/// A storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageInfo {
    /// Type of its elements, as PyTorch calls it: `Float`, `Half`, …
    pub dtype: &'static str,
    /// Its file's name below `data/`.
    pub key: String,
    /// Elements in it.
    pub elements: usize,
}
