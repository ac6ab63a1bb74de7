//! Weights of a model by name, in f32.

use std::collections::HashMap;

use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors};

use crate::error::ModelError;

/// All tensors of a model, each taken out once by the decoder that is built from them.
#[derive(Debug)]
pub struct Weights {
    origin: String,
    tensors: HashMap<String, Entry>,
}

#[derive(Debug)]
struct Entry {
    file: String,
    shape: Vec<usize>,
    /// The elements, or the type that cannot be read: an error only if the decoder needs the tensor.
    data: Result<Vec<f32>, Dtype>,
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
        let parsed = SafeTensors::deserialize(bytes).map_err(|error| ModelError::Weights {
            file: file.to_owned(),
            what: error.to_string(),
        })?;
        for (name, view) in parsed.iter() {
            let data = match view.dtype() {
                Dtype::F32 => Ok(elements(view.data(), f32::from_le_bytes)),
                Dtype::BF16 => Ok(elements(view.data(), |pair| bf16::from_le_bytes(pair).to_f32())),
                Dtype::F16 => Ok(elements(view.data(), |pair| f16::from_le_bytes(pair).to_f32())),
                other => Err(other),
            };
            let entry = Entry {
                file: file.to_owned(),
                shape: view.shape().to_vec(),
                data,
            };
            self.tensors.insert(name.to_owned(), entry);
        }
        Ok(())
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
        let Some(entry) = self.tensors.remove(name) else {
            return Err(ModelError::TensorMissing {
                origin: self.origin.clone(),
                name: name.to_owned(),
            });
        };
        let Entry {
            file,
            shape: found,
            data,
        } = entry;
        if found != shape {
            return Err(ModelError::TensorShape {
                file,
                name: name.to_owned(),
                found,
                expected: shape.to_vec(),
            });
        }
        data.map_err(|found| ModelError::TensorType {
            file,
            name: name.to_owned(),
            found: format!("{found:?}"),
        })
    }
}

fn elements<const N: usize>(bytes: &[u8], read: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    bytes.as_chunks::<N>().0.iter().map(|chunk| read(*chunk)).collect()
}

#[cfg(test)]
mod tests {
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
