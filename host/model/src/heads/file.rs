//! The file of a head: a safetensors file whose metadata has the header. `docs/heads.md` describes it.

use std::collections::HashMap;

use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};

use super::error::HeadError;
use super::head::HeadTarget;
use super::header::HeadHeader;
use super::layout::{self, TensorSpec};
use super::network::Shaped;
use crate::error::ModelError;
use crate::weights::Weights;

/// The key of the header in the file's metadata.
pub const HEADER_KEY: &str = "tokenrouter-head";

/// A head that has been read and checked for itself: every tensor that the header calls for is there, of the right shape,
/// and finite. Whether it fits a model is seen when it is loaded for one.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadFile {
    file: String,
    header: HeadHeader,
    /// In the order of the layout.
    tensors: Vec<(TensorSpec, Vec<f32>)>,
}

impl HeadFile {
    /// Reads the bytes of a file; `file` names it in errors. Memory is bounded by the size of `bytes`.
    ///
    /// # Errors
    /// [`HeadError`]: not a head's file, a header that contradicts itself or is beyond the bounds, or a tensor that is
    /// missing, too many, of another shape, of a type that cannot be read, or not finite.
    pub fn parse(bytes: &[u8], file: &str) -> Result<Self, HeadError> {
        let damaged = |error: safetensors::SafeTensorError| ModelError::Weights {
            file: file.to_owned(),
            what: error.to_string(),
        };
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(damaged)?;
        let wrong = |what: String| HeadError::Header {
            file: file.to_owned(),
            what,
        };
        let json = metadata.metadata().as_ref().and_then(|map| map.get(HEADER_KEY));
        let json = json.ok_or_else(|| {
            wrong(format!(
                "its metadata has no \"{HEADER_KEY}\": not a head's file; `heads convert` makes one"
            ))
        })?;
        let header = serde_json::from_str(json)
            .map_err(|error| wrong(format!("the header \"{HEADER_KEY}\" is not what is expected: {error}")))?;
        let mut weights = Weights::new(file);
        weights.add(bytes, file)?;
        Self::build(file, header, |spec| Ok(weights.take(&spec.name, &spec.shape)?)).and_then(|head| {
            match weights.names().min() {
                Some(name) => Err(head.unexpected(name)),
                None => Ok(head),
            }
        })
    }

    /// Puts a head together from its header and its tensors, of which `tensor` is asked for each that the header calls for.
    ///
    /// # Errors
    /// As [`HeadFile::parse`], and those of `tensor`.
    pub(super) fn build(
        file: &str,
        header: HeadHeader,
        mut tensor: impl FnMut(&TensorSpec) -> Result<Vec<f32>, HeadError>,
    ) -> Result<Self, HeadError> {
        header.check().map_err(|what| HeadError::Header {
            file: file.to_owned(),
            what: format!("head: {what}"),
        })?;
        let mut tensors = Vec::new();
        for spec in layout::tensors(&header) {
            let data = tensor(&spec)?;
            if let Some(index) = data.iter().position(|value| !value.is_finite()) {
                return Err(HeadError::NotFinite {
                    file: file.to_owned(),
                    name: spec.name,
                    index,
                    value: data[index],
                });
            }
            tensors.push((spec, data));
        }
        Ok(Self {
            file: file.to_owned(),
            header,
            tensors,
        })
    }

    /// Whether the sizes that the head knows of its model are those of `target`.
    ///
    /// # Errors
    /// [`HeadError::Model`] when they are not.
    pub fn fits(&self, target: HeadTarget) -> Result<(), HeadError> {
        let header = self.header();
        let differs = |what: String| HeadError::Model {
            file: self.file().to_owned(),
            what: match &header.model.name {
                Some(name) => format!("{what} (the head was made for \"{name}\")"),
                None => what,
            },
        };
        let HeadTarget {
            hidden_size,
            vocabulary,
        } = target;
        match header.model.hidden_size {
            Some(found) if found != hidden_size => {
                return Err(differs(format!(
                    "the head reads hidden states of {found} numbers, those of the model have {hidden_size}"
                )));
            }
            _ => {}
        }
        match header.model.vocabulary {
            Some(found) if found != vocabulary => {
                return Err(differs(format!(
                    "the head is for a vocabulary of {found} tokens, that of the model has {vocabulary}"
                )));
            }
            _ => {}
        }
        match header.top_logits {
            Some(top) if top > vocabulary => Err(differs(format!(
                "the head reads the {top} largest logits, the model has {vocabulary}"
            ))),
            _ => Ok(()),
        }
    }

    /// The bytes of the file, the same for the same head.
    ///
    /// # Errors
    /// When the header does not become JSON, or a tensor is too large for the format.
    pub fn to_bytes(&self) -> Result<Vec<u8>, HeadError> {
        let wrong = |what: String| HeadError::Header {
            file: self.file.clone(),
            what,
        };
        let json = serde_json::to_string(&self.header).map_err(|error| wrong(error.to_string()))?;
        let bytes: Vec<Vec<u8>> = self
            .tensors
            .iter()
            .map(|(_, data)| data.iter().flat_map(|value| value.to_le_bytes()).collect())
            .collect();
        let views = self.tensors.iter().zip(&bytes).map(|((spec, _), bytes)| {
            let view = TensorView::new(Dtype::F32, spec.shape.clone(), bytes);
            view.map(|view| (spec.name.as_str(), view))
        });
        let views = views
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| wrong(error.to_string()))?;
        let metadata = HashMap::from([(HEADER_KEY.to_owned(), json)]);
        serialize(views, Some(metadata)).map_err(|error| wrong(error.to_string()))
    }

    /// The same with another threshold noted in the header.
    pub fn with_threshold(mut self, threshold: Option<f64>) -> Self {
        self.header.threshold = threshold;
        self
    }

    /// The header.
    pub fn header(&self) -> &HeadHeader {
        &self.header
    }

    /// What the file is called in errors.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Number of weights.
    pub fn parameters(&self) -> u64 {
        self.tensors.iter().map(|(_, data)| data.len() as u64).sum()
    }

    /// Names and shapes of the tensors.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &[usize])> {
        self.tensors
            .iter()
            .map(|(spec, _)| (spec.name.as_str(), spec.shape.as_slice()))
    }

    /// The tensors' values, in the order of the layout.
    pub(super) fn into_values(self) -> Vec<Vec<f32>> {
        self.tensors.into_iter().map(|(_, data)| data).collect()
    }

    /// Header and tensors by name.
    pub(crate) fn into_parts(self) -> (HeadHeader, HashMap<String, Shaped>) {
        let tensors = self.tensors.into_iter();
        (
            self.header,
            tensors.map(|(spec, data)| (spec.name, (spec.shape, data))).collect(),
        )
    }

    fn unexpected(&self, name: &str) -> HeadError {
        let expected: Vec<&str> = self.tensors().map(|(name, _)| name).collect();
        HeadError::Unexpected {
            file: self.file.clone(),
            name: name.to_owned(),
            expected: expected.join(", "),
        }
    }
}
