//! Where a deployment says that a model comes from.

use std::fmt;
use std::path::Path;

use serde::Deserialize;
use tokenrouter_model::{Embedded, Source};

const EMBEDDED: &str = "embedded:";
const EMBEDDED_FAMILY: &str = "tiny/";

/// `embedded:tiny/NAME` or the path of a folder, as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct ModelSource {
    text: String,
    embedded: Option<Embedded>,
}

/// A text that names no source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// No model of that name in the binary.
    #[error("\"{text}\" is not a model of this binary; they are {}", names())]
    Embedded {
        /// The text.
        text: String,
    },
    /// Nothing written.
    #[error("the source is empty; write a folder or one of {}", names())]
    Empty,
}

fn names() -> String {
    let names = Embedded::ALL.map(|model| format!("\"{EMBEDDED}{EMBEDDED_FAMILY}{}\"", model.name()));
    names.join(", ")
}

impl ModelSource {
    /// Whether the model is part of the binary.
    pub fn is_embedded(&self) -> bool {
        self.embedded.is_some()
    }

    /// The source, with a folder's path taken relative to `base`.
    pub fn resolve(&self, base: &Path) -> Source {
        match self.embedded {
            Some(model) => Source::Embedded(model),
            None => Source::Folder(base.join(&self.text)),
        }
    }
}

impl TryFrom<String> for ModelSource {
    type Error = SourceError;

    fn try_from(text: String) -> Result<Self, SourceError> {
        let Some(name) = text.strip_prefix(EMBEDDED) else {
            return if text.is_empty() {
                Err(SourceError::Empty)
            } else {
                Ok(Self { text, embedded: None })
            };
        };
        match name.strip_prefix(EMBEDDED_FAMILY).and_then(Embedded::from_name) {
            Some(model) => Ok(Self {
                text,
                embedded: Some(model),
            }),
            None => Err(SourceError::Embedded { text }),
        }
    }
}

impl fmt::Display for ModelSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}
