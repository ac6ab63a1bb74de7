//! Where a deployment says that a model comes from.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use tokenrouter_model::{Embedded, Source};

use crate::hub::{HubError, Repo, RepoError, SCHEME, Settings};

const EMBEDDED: &str = "embedded:";
const EMBEDDED_FAMILY: &str = "tiny/";
const SIMULATED: &str = "simulated:";
const GGUF: &str = ".gguf";

/// Longest step of a simulated model, in milliseconds.
const STEP_MS_MAX: f64 = 60_000.0;

/// `embedded:tiny/NAME`, `simulated:STEP_MS`, `hf://ORG/NAME[@REVISION][/FILE.gguf]`, or the path of a folder or of a `.gguf` file, as
/// it was written.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct ModelSource {
    text: String,
    embedded: Option<Embedded>,
    step_time: Option<Duration>,
    repo: Option<Repo>,
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
    /// No time.
    #[error(
        "\"{text}\" has no step time; write {SIMULATED}MILLISECONDS, from 0 to {STEP_MS_MAX}, as in {SIMULATED}4.8"
    )]
    Simulated {
        /// The text.
        text: String,
    },
    /// No repository.
    #[error(transparent)]
    Repo(#[from] RepoError),
    /// Nothing written.
    #[error(
        "the source is empty; write a folder, a .gguf file, {SCHEME}ORG/NAME or one of {}",
        names()
    )]
    Empty,
}

fn names() -> String {
    let names = Embedded::ALL.map(|model| format!("\"{EMBEDDED}{EMBEDDED_FAMILY}{}\"", model.name()));
    names.join(", ")
}

impl ModelSource {
    /// Whether the model is part of the binary.
    pub fn is_embedded(&self) -> bool {
        self.embedded.is_some() && self.step_time.is_none()
    }

    /// How long every step of a model takes that is only simulated: it has no weights, draws its tokens, and is as wide as
    /// the models of the binary.
    pub fn simulated(&self) -> Option<Duration> {
        self.step_time
    }

    /// The source, with a path taken relative to `base`. A simulated model shares tokenizer and sizes with one of
    /// the binary; a repository is looked for in the hub's cache on this machine.
    ///
    /// # Errors
    /// [`HubError`] when a repository is not in the cache, or not whole; the hub is never asked.
    pub fn resolve(&self, base: &Path) -> Result<Source, HubError> {
        Ok(match (self.embedded, &self.repo) {
            (Some(model), _) => Source::Embedded(model),
            (None, Some(repo)) => Settings::of_environment()?.cache.source(repo)?,
            (None, None) if self.text.ends_with(GGUF) => Source::Gguf(base.join(&self.text)),
            (None, None) => Source::Folder(base.join(&self.text)),
        })
    }
}

impl TryFrom<String> for ModelSource {
    type Error = SourceError;

    fn try_from(text: String) -> Result<Self, SourceError> {
        let (mut embedded, mut step_time, mut repo) = (None, None, None);
        if let Some(step_ms) = text.strip_prefix(SIMULATED) {
            let step_ms = step_ms.parse().ok().filter(|ms| (0.0..=STEP_MS_MAX).contains(ms));
            let Some(step_ms) = step_ms else {
                return Err(SourceError::Simulated { text });
            };
            step_time = Some(Duration::from_secs_f64(step_ms / 1e3));
            embedded = Some(Embedded::ALL[0]);
        } else if let Some(name) = text.strip_prefix(EMBEDDED) {
            embedded = name.strip_prefix(EMBEDDED_FAMILY).and_then(Embedded::from_name);
            if embedded.is_none() {
                return Err(SourceError::Embedded { text });
            }
        } else if text.starts_with(SCHEME) {
            repo = Some(text.parse()?);
        } else if text.is_empty() {
            return Err(SourceError::Empty);
        }
        Ok(Self {
            text,
            embedded,
            step_time,
            repo,
        })
    }
}

impl fmt::Display for ModelSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}
