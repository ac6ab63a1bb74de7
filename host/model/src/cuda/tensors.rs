//! Tensors of a model by name, read one at a time: a large model's weights pass through the host, but never lie there whole.

use std::collections::HashMap;
use std::ops::Range;

use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors};

use crate::cpu;
use crate::error::ModelError;
use crate::source::{Source, WeightFile};
use crate::weights::Bytes;

struct Entry {
    file: usize,
    dtype: Dtype,
    shape: Vec<usize>,
    range: Range<usize>,
}

/// The tensors of all files of a model.
pub struct Tensors {
    origin: String,
    files: Vec<(String, Bytes)>,
    by_name: HashMap<String, Entry>,
}

impl std::fmt::Debug for Tensors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} tensors of {}", self.by_name.len(), self.origin)
    }
}

impl Tensors {
    /// Opens the weights of a source and reads what is in them.
    ///
    /// # Errors
    /// When a file is missing or damaged.
    pub fn open(source: &Source) -> Result<Self, ModelError> {
        let mut tensors = Self::empty(&source.to_string());
        for file in source.weight_files()? {
            match file {
                WeightFile::Embedded(bytes, name) => tensors.add(name, Bytes::Static(bytes))?,
                WeightFile::Path(path) => tensors.add(path.display().to_string(), Bytes::Mapped(cpu::map(&path)?))?,
            }
        }
        Ok(tensors)
    }

    /// The tensors of one safetensors file at hand; `file` names it in errors.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn from_bytes(bytes: Vec<u8>, file: &str) -> Result<Self, ModelError> {
        let mut tensors = Self::empty(file);
        tensors.add(file.to_owned(), Bytes::Owned(bytes))?;
        Ok(tensors)
    }

    fn empty(origin: &str) -> Self {
        Self {
            origin: origin.to_owned(),
            files: Vec::new(),
            by_name: HashMap::new(),
        }
    }

    fn add(&mut self, name: String, bytes: Bytes) -> Result<(), ModelError> {
        let all = bytes.as_slice();
        let damaged = |what: String| ModelError::Weights {
            file: name.clone(),
            what,
        };
        let parsed = SafeTensors::deserialize(all).map_err(|error| damaged(error.to_string()))?;
        for (tensor, view) in parsed.iter() {
            let start = view.data().as_ptr().addr() - all.as_ptr().addr();
            let entry = Entry {
                file: self.files.len(),
                dtype: view.dtype(),
                shape: view.shape().to_vec(),
                range: start..start + view.data().len(),
            };
            self.by_name.insert(tensor.to_owned(), entry);
        }
        self.files.push((name, bytes));
        Ok(())
    }

    /// The elements of a tensor, row-major, rounded to bf16 where they are wider.
    ///
    /// # Errors
    /// When it is missing, of another shape, or of a type that cannot be read.
    pub(super) fn bf16(&self, name: &str, shape: &[usize]) -> Result<Vec<bf16>, ModelError> {
        self.read(name, shape, bf16::from_f32, |value| value)
    }

    /// The same in f32, which is exact.
    ///
    /// # Errors
    /// As [`Tensors::bf16`].
    pub(super) fn f32(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, ModelError> {
        self.read(name, shape, |value| value, bf16::to_f32)
    }

    fn read<T>(
        &self,
        name: &str,
        shape: &[usize],
        from_f32: impl Fn(f32) -> T,
        from_bf16: impl Fn(bf16) -> T,
    ) -> Result<Vec<T>, ModelError> {
        let Some(entry) = self.by_name.get(name) else {
            let (origin, name) = (self.origin.clone(), name.to_owned());
            return Err(ModelError::TensorMissing { origin, name });
        };
        let (file, bytes) = &self.files[entry.file];
        if entry.shape != shape {
            return Err(ModelError::TensorShape {
                file: file.clone(),
                name: name.to_owned(),
                found: entry.shape.clone(),
                expected: shape.to_vec(),
            });
        }
        let bytes = &bytes.as_slice()[entry.range.clone()];
        match entry.dtype {
            Dtype::F32 => Ok(elements(bytes, |four| from_f32(f32::from_le_bytes(four)))),
            Dtype::BF16 => Ok(elements(bytes, |two| from_bf16(bf16::from_le_bytes(two)))),
            Dtype::F16 => Ok(elements(bytes, |two| from_f32(f16::from_le_bytes(two).to_f32()))),
            other => Err(ModelError::TensorType {
                file: file.clone(),
                name: name.to_owned(),
                found: format!("{other:?}"),
            }),
        }
    }
}

fn elements<const N: usize, T>(bytes: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|chunk| read(*chunk)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Embedded;

    /// What is read here is what the CPU's decoder reads, rounded.
    #[test]
    fn both_readers_of_a_model_agree() {
        let source = Source::Embedded(Embedded::Small);
        let (config, mut weights) = (source.config().unwrap(), source.weights().unwrap());
        let tensors = Tensors::open(&source).unwrap();
        for (name, shape) in [
            ("model.embed_tokens.weight", vec![config.vocab_size, config.hidden_size]),
            ("model.norm.weight", vec![config.hidden_size]),
            (
                "model.layers.1.mlp.down_proj.weight",
                vec![config.hidden_size, config.intermediate_size],
            ),
        ] {
            let exact = tensors.f32(name, &shape).unwrap();
            let rounded: Vec<bf16> = exact.iter().copied().map(bf16::from_f32).collect();
            assert_eq!(tensors.bf16(name, &shape).unwrap(), rounded, "{name}");
            assert_eq!(weights.take(name, &shape).unwrap(), exact, "{name}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_tensor_is_said() {
        let tensors = Tensors::open(&Source::Embedded(Embedded::Small)).unwrap();
        let missing = tensors.f32("lm_head.weight", &[1]).unwrap_err().to_string();
        assert_eq!(missing, "embedded:tiny/small: tensor \"lm_head.weight\" is missing");
        let shape = tensors.f32("model.norm.weight", &[1]).unwrap_err().to_string();
        assert!(
            shape.contains("has shape [128], but the configuration calls for [1]"),
            "{shape}"
        );
        let damaged = Tensors::from_bytes(vec![1; 9], "w.safetensors")
            .unwrap_err()
            .to_string();
        assert!(damaged.starts_with("w.safetensors is damaged"), "{damaged}");
    }
}
