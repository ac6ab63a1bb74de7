//! Checkpoints as training left them: PyTorch's zip files and safetensors files, read without executing anything.

mod elements;
mod names;
mod opcodes;
pub mod pickle;
mod value;
mod zip_file;

use std::collections::BTreeMap;
use std::path::Path;

use safetensors::SafeTensors;

use self::pickle::{Id, Pickle, TensorInfo, Value};
use self::zip_file::ZipFile;
use super::error::HeadError;
use crate::error::ModelError;

/// A checkpoint: named tensors, and for PyTorch's own format the plain values beside them.
pub struct Checkpoint {
    file: String,
    tensors: BTreeMap<String, Place>,
    bytes: Bytes,
    values: Option<(Pickle, Id)>,
}

/// Where a tensor's elements are, and its shape.
enum Place {
    Torch(TensorInfo),
    Safetensors(Vec<usize>),
}

enum Bytes {
    Torch(ZipFile),
    Safetensors(Vec<u8>),
}

impl Checkpoint {
    /// Opens a file. Of a PyTorch file the pickle is read, which is small; tensors are read when they are asked for.
    ///
    /// The tensors are those of the dictionary under the key `state_dict` if there is one, else of the outermost one.
    ///
    /// # Errors
    /// When it cannot be read, is neither of the two formats, is damaged, or would have to be executed.
    pub fn open(path: &Path) -> Result<Self, HeadError> {
        let file = path.display().to_string();
        let read = |source| ModelError::Read {
            path: path.to_owned(),
            source,
        };
        let mut start = [0; 4];
        let mut opened = std::fs::File::open(path).map_err(read)?;
        // A shorter file is neither format, and its start stays zero.
        let _ = std::io::Read::read_exact(&mut opened, &mut start);
        match start {
            [b'P', b'K', ..] => Self::torch(path, file),
            [0x80, 2..=5, ..] => Err(HeadError::Checkpoint {
                file,
                what: "saved in PyTorch's format from before 1.6; load it there and save it again".to_owned(),
            }),
            _ => Self::safetensors(std::fs::read(path).map_err(read)?, file),
        }
    }

    fn torch(path: &Path, file: String) -> Result<Self, HeadError> {
        let wrong = |what| HeadError::Checkpoint {
            file: file.clone(),
            what,
        };
        let mut zip = ZipFile::open(path).map_err(wrong)?;
        let (pickle, root) = Pickle::read(&zip.pickle().map_err(wrong)?).map_err(wrong)?;
        let nested = pickle.get(root, "state_dict");
        let nested = nested.filter(|id| matches!(pickle.value(*id), Value::Dict(_)));
        let mut tensors = BTreeMap::new();
        for (name, value) in pickle.entries(nested.unwrap_or(root)) {
            if let Value::Tensor(info) = value {
                tensors.insert(name.to_owned(), Place::Torch(info.clone()));
            }
        }
        Ok(Self {
            tensors,
            bytes: Bytes::Torch(zip),
            values: Some((pickle, root)),
            file,
        })
    }

    fn safetensors(bytes: Vec<u8>, file: String) -> Result<Self, HeadError> {
        let parsed = SafeTensors::deserialize(&bytes).map_err(|error| HeadError::Checkpoint {
            file: file.clone(),
            what: format!("neither a zip file as `torch.save` writes it nor a safetensors file: {error}"),
        })?;
        let tensors = parsed
            .iter()
            .map(|(name, view)| (name.to_owned(), Place::Safetensors(view.shape().to_vec())));
        Ok(Self {
            tensors: tensors.collect(),
            bytes: Bytes::Safetensors(bytes),
            values: None,
            file,
        })
    }

    /// What the checkpoint is called in messages.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The plain values: the reader and its outermost value. A safetensors file has none.
    pub fn values(&self) -> Option<(&Pickle, Id)> {
        self.values.as_ref().map(|(pickle, root)| (pickle, *root))
    }

    /// Names of the tensors, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// The shape of a tensor, if there is one of that name.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(|place| match place {
            Place::Torch(info) => info.shape.as_slice(),
            Place::Safetensors(shape) => shape,
        })
    }

    /// The elements of a tensor, row-major, as f32. Memory is bounded by the size of the file.
    ///
    /// # Errors
    /// When it is missing, of another shape, of a type that cannot be read, or its elements are not all in the file.
    pub fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, HeadError> {
        let file = self.file.clone();
        let Some(found) = self.shape(name) else {
            return Err(self.missing(name));
        };
        if found != shape {
            return Err(HeadError::File(ModelError::TensorShape {
                file,
                name: name.to_owned(),
                found: found.to_vec(),
                expected: shape.to_vec(),
            }));
        }
        self.rows(name, None)
    }

    /// One row of a matrix.
    ///
    /// # Errors
    /// As [`Checkpoint::tensor`], and when it has no such row.
    pub fn row(&mut self, name: &str, row: usize) -> Result<Vec<f32>, HeadError> {
        self.rows(name, Some(row))
    }

    /// That a tensor is not there.
    pub fn missing(&self, name: &str) -> HeadError {
        HeadError::File(ModelError::TensorMissing {
            origin: self.file.clone(),
            name: name.to_owned(),
        })
    }

    fn rows(&mut self, name: &str, row: Option<usize>) -> Result<Vec<f32>, HeadError> {
        let Some(place) = self.tensors.get(name) else {
            return Err(self.missing(name));
        };
        let read = match (place, &mut self.bytes) {
            (Place::Torch(info), Bytes::Torch(zip)) => elements::torch(zip, info, row),
            (Place::Safetensors(_), Bytes::Safetensors(bytes)) => elements::safetensors(bytes, name, row),
            // Places and bytes are made together.
            _ => Err("it is in another file".to_owned()),
        };
        read.map_err(|what| HeadError::Checkpoint {
            file: self.file.clone(),
            what: format!("tensor \"{name}\": {what}"),
        })
    }
}
