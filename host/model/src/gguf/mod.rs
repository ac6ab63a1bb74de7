//! GGUF files: configuration, tokenizer, chat template and weights of a model in one file, as llama.cpp writes them.

mod config;
mod metadata;
mod names;
mod sentencepiece;
mod tokenizer;

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::quantized::gguf_file::Content;

use crate::config::DecoderConfig;
use crate::cpu;
use crate::error::ModelError;
use crate::weights::{Bytes, Element, Entry, Weights};
use metadata::Metadata;

/// A file's chat template, if it has one, and the special tokens that a template may name: name and token.
#[derive(Debug)]
pub(crate) struct GgufTemplate {
    pub(crate) text: Option<String>,
    pub(crate) tokens: Vec<(String, String)>,
}

/// A file whose header has been read. Its tensors stay on disk until they are used.
#[derive(Debug)]
pub(crate) struct GgufFile {
    path: PathBuf,
    bytes: Arc<Bytes>,
    content: Content,
}

impl GgufFile {
    /// Maps a file and reads its header.
    ///
    /// # Errors
    /// When it cannot be read, or is damaged or no GGUF file.
    pub(crate) fn open(path: &Path) -> Result<Self, ModelError> {
        let bytes = Bytes::Mapped(cpu::map(path)?);
        let content = Content::read(&mut Cursor::new(bytes.as_slice())).map_err(|error| ModelError::Gguf {
            file: path.display().to_string(),
            what: error.to_string(),
        })?;
        Ok(Self {
            path: path.to_owned(),
            bytes: Arc::new(bytes),
            content,
        })
    }

    fn metadata(&self) -> Metadata<'_> {
        Metadata::new(&self.content.metadata, self.path.display().to_string())
    }

    /// The model's configuration.
    ///
    /// # Errors
    /// When a field is missing or of the wrong kind, or the architecture has no decoder here.
    pub(crate) fn config(&self) -> Result<DecoderConfig, ModelError> {
        config::read(self)
    }

    /// The tokenizer as a `tokenizer.json`.
    ///
    /// # Errors
    /// When the file's tokenizer is of a kind that is not supported, or damaged.
    pub(crate) fn tokenizer(&self) -> Result<Vec<u8>, ModelError> {
        tokenizer::json(&self.metadata())
    }

    /// The chat template.
    ///
    /// # Errors
    /// When a field is of the wrong kind.
    pub(crate) fn chat_template(&self) -> Result<GgufTemplate, ModelError> {
        let metadata = self.metadata();
        let text = metadata.string("tokenizer.chat_template")?.map(str::to_owned);
        let tokens = metadata.strings("tokenizer.ggml.tokens")?;
        let mut named = Vec::new();
        for (name, key) in [
            ("bos_token", "bos_token_id"),
            ("eos_token", "eos_token_id"),
            ("unk_token", "unknown_token_id"),
            ("sep_token", "seperator_token_id"), // llama.cpp's spelling
            ("pad_token", "padding_token_id"),
        ] {
            let id = metadata.number(&format!("tokenizer.ggml.{key}"))?;
            if let Some(token) = id.and_then(|id| tokens.get(usize::try_from(id).ok()?)) {
                named.push((name.to_owned(), (*token).to_owned()));
            }
        }
        Ok(GgufTemplate { text, tokens: named })
    }

    /// All weights, under Hugging Face's names.
    ///
    /// # Errors
    /// When a tensor lies outside of the file.
    pub(crate) fn weights(&self) -> Result<Weights, ModelError> {
        let config = self.config()?;
        let origin = self.path.display().to_string();
        let mut weights = Weights::new(&origin);
        let file: Arc<str> = origin.as_str().into();
        for (name, info) in &self.content.tensor_infos {
            let Some(known) = names::known(name, &config) else {
                continue;
            };
            let element = Element::of_gguf(info.ggml_dtype);
            let shape = info.shape.dims().to_vec();
            let damaged = |what: &str| ModelError::Gguf {
                file: origin.clone(),
                what: format!("tensor \"{name}\" {what}"),
            };
            let (k, rows) = match shape.as_slice() {
                [n] => (*n, 1),
                [rows, k] => (*k, *rows),
                _ => return Err(damaged(&format!("has {} dimensions, expected 1 or 2", shape.len()))),
            };
            let row_bytes = element.row_bytes(k);
            let row_bytes = row_bytes.ok_or_else(|| {
                damaged(&format!(
                    "has rows of {k} elements, no whole blocks of type {element:?}"
                ))
            })?;
            let start = self
                .content
                .tensor_data_offset
                .checked_add(info.offset)
                .and_then(|at| usize::try_from(at).ok());
            let end = start.and_then(|start| start.checked_add(rows.checked_mul(row_bytes)?));
            let range = match (start, end) {
                (Some(start), Some(end)) if end <= self.bytes.as_slice().len() => start..end,
                _ => {
                    let size = self.bytes.as_slice().len();
                    return Err(damaged(&format!(
                        "ends beyond the file's {size} bytes; is the file complete?"
                    )));
                }
            };
            let entry = Entry {
                file: Arc::clone(&file),
                bytes: Arc::clone(&self.bytes),
                range,
                shape,
                element: Ok(element),
                interleaved: known.interleaved.then_some(config.head_dim),
            };
            weights.insert(known.name, entry);
        }
        Ok(weights)
    }

    fn content(&self) -> &Content {
        &self.content
    }

    /// A tensor of f32, if the file has it.
    fn floats(&self, name: &str, len: usize) -> Option<Vec<f32>> {
        let info = self.content.tensor_infos.get(name)?;
        if Element::of_gguf(info.ggml_dtype) != Element::F32 || info.shape.elem_count() != len {
            return None;
        }
        let start = usize::try_from(self.content.tensor_data_offset.checked_add(info.offset)?).ok()?;
        let bytes = self.bytes.as_slice().get(start..start.checked_add(4 * len)?)?;
        Some(
            bytes
                .as_chunks::<4>()
                .0
                .iter()
                .map(|four| f32::from_le_bytes(*four))
                .collect(),
        )
    }
}
