//! Weights of a model by name. They stay in their files until a decoder takes them.

mod bytes;
mod element;
mod tensor;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use safetensors::SafeTensors;

pub(crate) use bytes::Bytes;
pub(crate) use element::Element;
pub(crate) use tensor::FileMatrix;

use crate::error::ModelError;

/// All tensors of a model under Hugging Face's names, each taken out once by the decoder that is built from them.
#[derive(Debug)]
pub struct Weights {
    origin: String,
    tensors: HashMap<String, Entry>,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) file: Arc<str>,
    pub(crate) bytes: Arc<Bytes>,
    pub(crate) range: Range<usize>,
    pub(crate) shape: Vec<usize>,
    /// How the elements are written, or the name of a type that cannot be read: an error only if the decoder needs the
    /// tensor.
    pub(crate) element: Result<Element, String>,
    /// As in [`FileMatrix`].
    pub(crate) interleaved: Option<usize>,
}

impl Weights {
    /// No tensors yet; `origin` names the whole in errors.
    pub fn new(origin: &str) -> Self {
        Self {
            origin: origin.to_owned(),
            tensors: HashMap::new(),
        }
    }

    /// Adds all tensors of one safetensors file; `file` names it in errors. Elements of type BF16 and F16 become f32,
    /// which is exact.
    ///
    /// # Errors
    /// When the file is truncated or not a safetensors file.
    pub fn add(&mut self, bytes: &[u8], file: &str) -> Result<(), ModelError> {
        self.add_bytes(Bytes::Owned(bytes.to_vec()), file)
    }

    /// The same without a copy.
    pub(crate) fn add_bytes(&mut self, bytes: Bytes, file: &str) -> Result<(), ModelError> {
        let all = bytes.as_slice();
        let parsed = SafeTensors::deserialize(all).map_err(|error| ModelError::Weights {
            file: file.to_owned(),
            what: error.to_string(),
        })?;
        let place = |data: &[u8]| {
            let start = data.as_ptr().addr() - all.as_ptr().addr();
            start..start + data.len()
        };
        let found: Vec<_> = parsed
            .iter()
            .map(|(name, view)| {
                let element = Element::of_safetensors(view.dtype()).ok_or_else(|| format!("{:?}", view.dtype()));
                (name.to_owned(), view.shape().to_vec(), place(view.data()), element)
            })
            .collect();
        let (file, bytes): (Arc<str>, _) = (file.into(), Arc::new(bytes));
        for (name, shape, range, element) in found {
            let entry = Entry {
                file: Arc::clone(&file),
                bytes: Arc::clone(&bytes),
                range,
                shape,
                element,
                interleaved: None,
            };
            self.tensors.insert(name, entry);
        }
        Ok(())
    }

    pub(crate) fn insert(&mut self, name: String, entry: Entry) {
        self.tensors.insert(name, entry);
    }

    /// Names of the tensors that have not been taken out.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Takes out the elements of a tensor, row-major.
    ///
    /// # Errors
    /// When it is missing, of another shape, or of a type that cannot be read.
    pub fn take(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, ModelError> {
        let k = match shape {
            [_, k] => *k,
            _ => 1,
        };
        let matrix = self.take_as(name, shape, k)?;
        let mut all = Vec::with_capacity(shape.iter().product());
        match matrix.interleaved {
            None => matrix
                .element
                .read(&matrix.bytes.as_slice()[matrix.range.clone()], &mut all)?,
            Some(_) => {
                let mut row = Vec::with_capacity(k);
                for index in 0..matrix.rows() {
                    matrix.read_row(index, &mut row)?;
                    all.extend_from_slice(&row);
                }
            }
        }
        Ok(all)
    }

    /// Takes out a matrix to be read row by row: [rows, k].
    pub(crate) fn take_matrix(&mut self, name: &str, rows: usize, k: usize) -> Result<FileMatrix, ModelError> {
        self.take_as(name, &[rows, k], k)
    }

    fn take_as(&mut self, name: &str, shape: &[usize], k: usize) -> Result<FileMatrix, ModelError> {
        let Some(entry) = self.tensors.remove(name) else {
            return Err(ModelError::TensorMissing {
                origin: self.origin.clone(),
                name: name.to_owned(),
            });
        };
        if entry.shape != shape {
            return Err(ModelError::TensorShape {
                file: entry.file.to_string(),
                name: name.to_owned(),
                found: entry.shape,
                expected: shape.to_vec(),
            });
        }
        let element = entry.element.map_err(|found| ModelError::TensorType {
            file: entry.file.to_string(),
            name: name.to_owned(),
            found,
        })?;
        let rows = shape.iter().product::<usize>() / k;
        match element.row_bytes(k) {
            Some(row_bytes) if row_bytes * rows == entry.range.len() => Ok(FileMatrix {
                bytes: entry.bytes,
                range: entry.range,
                element,
                rows,
                k,
                row_bytes,
                interleaved: entry.interleaved,
            }),
            _ => Err(ModelError::Weights {
                file: entry.file.to_string(),
                what: format!(
                    "tensor \"{name}\" has {} bytes, which is not {rows} rows of {k} elements of type {element:?}",
                    entry.range.len()
                ),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use safetensors::Dtype;
    use safetensors::tensor::{TensorView, serialize};

    use super::*;

    fn file(dtype: Dtype, shape: Vec<usize>, bytes: &[u8]) -> Vec<u8> {
        serialize([("w", TensorView::new(dtype, shape, bytes).unwrap())], None).unwrap()
    }

    /// 1.5 and -2 in the three types, by their bit patterns.
    #[test]
    fn elements_of_every_supported_type_are_read_exactly() {
        for (dtype, bytes) in [
            (Dtype::F32, vec![0, 0, 0xc0, 0x3f, 0, 0, 0, 0xc0]),
            (Dtype::BF16, vec![0xc0, 0x3f, 0, 0xc0]),
            (Dtype::F16, vec![0, 0x3e, 0, 0xc0]),
        ] {
            let mut weights = Weights::new("test");
            weights.add(&file(dtype, vec![2, 1], &bytes), "w.safetensors").unwrap();
            assert_eq!(weights.take("w", &[2, 1]).unwrap(), [1.5, -2.0], "{dtype:?}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_tensor_is_said() {
        let taken = |dtype, bytes: &[u8], name: &str, shape: &[usize]| {
            let mut weights = Weights::new("folder");
            weights.add(&file(dtype, vec![2], bytes), "w.safetensors").unwrap();
            weights.take(name, shape).unwrap_err().to_string()
        };
        assert_eq!(taken(Dtype::F32, &[0; 8], "v", &[2]), "folder: tensor \"v\" is missing");
        assert_eq!(
            taken(Dtype::F32, &[0; 8], "w", &[1, 2]),
            "w.safetensors: tensor \"w\" has shape [2], but the configuration calls for [1, 2]"
        );
        assert_eq!(
            taken(Dtype::I64, &[0; 16], "w", &[2]),
            "w.safetensors: tensor \"w\" has elements of type I64; supported: F32, BF16, F16"
        );
    }

    #[test]
    fn a_truncated_file_is_refused() {
        let whole = file(Dtype::F32, vec![4], &[0; 16]);
        for len in [0, 5, 20, whole.len() - 1] {
            let error = Weights::new("folder")
                .add(&whole[..len], "w.safetensors")
                .unwrap_err()
                .to_string();
            assert!(
                error.starts_with("w.safetensors is damaged or not a safetensors file: "),
                "{len}: {error}"
            );
        }
    }
}
