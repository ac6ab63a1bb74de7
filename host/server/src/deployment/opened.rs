//! A deployment's models as far as the headers of their files. Loading checks all of them so before it reads the weights of
//! one; `doctor` does nothing else.

use std::borrow::Cow;
use std::path::Path;

use serde::Deserialize;
use tokenrouter_core::TokenId;
use tokenrouter_model::config::DecoderConfig;
use tokenrouter_model::decoder::{DecoderFiles, KvPool};
use tokenrouter_model::runner::ModelInfo;
use tokenrouter_model::text::Tokenizer;
use tokenrouter_model::{ModelError, Source, cuda};

use super::{DeploymentError, DeviceName, ModelEntry};

/// Hugging Face's settings of a tokenizer, beside `tokenizer.json`.
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";

/// A model whose configuration has been read.
pub(super) struct Opened<'a> {
    pub(super) entry: &'a ModelEntry,
    pub(super) source: Source,
    pub(super) config: DecoderConfig,
    tokenizer_json: Cow<'static, [u8]>,
}

impl<'a> Opened<'a> {
    /// Finds a model's files and reads its configuration; paths count from `base`.
    ///
    /// # Errors
    /// A folder or file that is not there, or is of an architecture without a decoder.
    pub(super) fn open(entry: &'a ModelEntry, base: &Path) -> Result<Self, DeploymentError> {
        let source = entry.resolve(base)?;
        if let Source::Folder(path) = &source
            && !path.is_dir()
        {
            return Err(DeploymentError::ModelFolder {
                model: entry.name.clone(),
                path: path.clone(),
            });
        }
        let broken = |source| broken(entry, source);
        Ok(Self {
            entry,
            config: source.config().map_err(broken)?,
            tokenizer_json: source.tokenizer().map_err(broken)?,
            source,
        })
    }

    /// The model's tokenizer.
    ///
    /// # Errors
    /// One that cannot be used, or that lacks the tokens that the configuration names.
    pub(super) fn tokenizer(&self) -> Result<Tokenizer, DeploymentError> {
        let bos = begin_token(&self.source, &self.config).map_err(|source| broken(self.entry, source))?;
        Tokenizer::from_bytes(&self.tokenizer_json, bos, &self.config.eos_token_id).map_err(|source| {
            DeploymentError::Tokenizer {
                model: self.entry.name.clone(),
                source: Box::new(source),
            }
        })
    }

    /// Checks that `other` has the vocabulary of this model, whose tokenizer is `known`.
    ///
    /// # Errors
    /// Its tokenizer cannot be used, or an id means another token there.
    pub(super) fn shares_vocabulary(&self, known: &Tokenizer, other: &Opened<'_>) -> Result<(), DeploymentError> {
        if self.tokenizer_json == other.tokenizer_json {
            return Ok(());
        }
        known
            .same_vocabulary(&other.tokenizer()?)
            .map_err(|source| DeploymentError::Vocabulary {
                first: self.entry.name.clone(),
                second: other.entry.name.clone(),
                source: Box::new(source),
            })
    }

    /// What the model's runner will say of itself.
    ///
    /// # Errors
    /// A model that cannot run on its device.
    pub(super) fn info(&self) -> Result<ModelInfo, DeploymentError> {
        let kv_bytes_per_token = match self.entry.device {
            DeviceName::Cpu => KvPool::bytes_per_token(&self.config),
            DeviceName::Cuda(_) => {
                let bytes = cuda::kv_bytes_per_token(&self.config);
                bytes.map_err(|source| broken(self.entry, source.into()))?
            }
        };
        let info = ModelInfo::of(&self.config, kv_bytes_per_token);
        Ok(match self.entry.source.simulated() {
            None => info,
            Some(_) => ModelInfo {
                // No weights, and no KV but a book of what was fed.
                parameters: 0,
                kv_bytes_per_token: 0,
                // Drawn tokens would end answers at random; these are as long as they may be.
                eos: Vec::new(),
                ..info
            },
        })
    }

    /// The model's weights, found and checked but not read.
    ///
    /// # Errors
    /// A file that is missing or damaged, a tensor that is missing or of another shape or type.
    pub(super) fn files(&self) -> Result<DecoderFiles, DeploymentError> {
        let weights = self.source.weights();
        let files = weights.and_then(|mut weights| DecoderFiles::take(&self.config, &mut weights));
        files.map_err(|source| broken(self.entry, source))
    }
}

/// An error of a model, with its name.
pub(super) fn broken(entry: &ModelEntry, source: ModelError) -> DeploymentError {
    DeploymentError::Model {
        model: entry.name.clone(),
        source: Box::new(source),
    }
}

/// The token that begins every prompt. Some families name one in `config.json` and train without it; those say so beside
/// their tokenizer.
fn begin_token(source: &Source, config: &DecoderConfig) -> Result<Option<TokenId>, ModelError> {
    #[derive(Deserialize)]
    struct TokenizerConfig {
        add_bos_token: Option<bool>,
    }
    let Source::Folder(folder) = source else {
        return Ok(config.bos_token_id);
    };
    let path = folder.join(TOKENIZER_CONFIG);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(config.bos_token_id),
        Err(source) => return Err(ModelError::Read { path, source }),
    };
    let settings: TokenizerConfig = serde_json::from_slice(&bytes).map_err(|source| ModelError::Json {
        file: path.display().to_string(),
        source,
    })?;
    Ok(config.bos_token_id.filter(|_| settings.add_bos_token != Some(false)))
}
