//! Loading a deployment's models and the tokenizer they share.

use std::borrow::Cow;
use std::path::Path;

use serde::Deserialize;
use tokenrouter_core::{ModelIndex, TokenId};
use tokenrouter_model::config::DecoderConfig;
use tokenrouter_model::runner::{ModelInfo, Runner};
use tokenrouter_model::text::Tokenizer;
use tokenrouter_model::{DecoderRunner, ModelError, NullRunner, Source};

use super::device::Devices;
use super::{DeploymentError, DeploymentFile, DeviceName, ModelEntry};

/// Hugging Face's settings of a tokenizer, beside `tokenizer.json`.
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";

/// Runners in the deployment's order, and the tokenizer of the first.
pub(super) struct Models {
    pub(super) runners: Vec<Box<dyn Runner>>,
    pub(super) tokenizer: Tokenizer,
    devices: Devices,
}

impl Models {
    /// Tokenizers first: they are small, and a pair of models that cannot work together is refused before its weights
    /// are read.
    pub(super) fn load(file: &DeploymentFile) -> Result<Self, DeploymentError> {
        let mut first: Option<(&str, Cow<'static, [u8]>, Tokenizer)> = None;
        for entry in &file.models {
            let source = entry.source.resolve(&file.base);
            if let Source::Folder(path) = &source
                && !path.is_dir()
            {
                return Err(DeploymentError::ModelFolder {
                    model: entry.name.clone(),
                    path: path.clone(),
                });
            }
            let broken = |source| DeploymentError::Model {
                model: entry.name.clone(),
                source: Box::new(source),
            };
            let config = source.config().map_err(broken)?;
            let json = source.tokenizer().map_err(broken)?;
            if first.as_ref().is_some_and(|(_, known, _)| *known == json) {
                continue;
            }
            let bos = begin_token(&source, &config).map_err(broken)?;
            let tokenizer = Tokenizer::from_bytes(&json, bos, &config.eos_token_id).map_err(|source| {
                DeploymentError::Tokenizer {
                    model: entry.name.clone(),
                    source: Box::new(source),
                }
            })?;
            match &first {
                None => first = Some((&entry.name, json, tokenizer)),
                Some((name, _, known)) => {
                    known
                        .same_vocabulary(&tokenizer)
                        .map_err(|source| DeploymentError::Vocabulary {
                            first: (*name).to_owned(),
                            second: entry.name.clone(),
                            source: Box::new(source),
                        })?;
                }
            }
        }
        let Some((_, _, tokenizer)) = first else {
            return Err(DeploymentError::Contradiction {
                file: file.file.clone(),
                what: "the deployment has no models; write at least one [[models]]".to_owned(),
            });
        };
        let mut devices = Devices::default();
        let runners = (0..).map(ModelIndex).zip(&file.models).map(|(index, entry)| {
            let loaded = match entry.device {
                DeviceName::Cpu => runner(entry, &file.base, index),
                DeviceName::Cuda(ordinal) => {
                    let source = entry.source.resolve(&file.base);
                    devices.runner(ordinal, &source, index, file.cuda.options())
                }
            };
            loaded.map_err(|source| DeploymentError::Model {
                model: entry.name.clone(),
                source: Box::new(source),
            })
        });
        let runners = runners.collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            runners,
            tokenizer,
            devices,
        })
    }

    /// Tokens in every model's KV pool. Asked for once everything else is on the devices, heads too.
    pub(super) fn kv_tokens(&self, file: &DeploymentFile) -> Result<usize, DeploymentError> {
        self.devices.kv_tokens(file, &self.runners)
    }
}

fn runner(entry: &ModelEntry, base: &Path, index: ModelIndex) -> Result<Box<dyn Runner>, ModelError> {
    let decoder = DecoderRunner::load_with(&entry.source.resolve(base), index, entry.cpu_options())?;
    let Some(step_time) = entry.source.simulated() else {
        let (bytes, held) = decoder.decoder().held();
        tracing::info!(
            model = entry.name,
            weights = held,
            bytes,
            threads = entry.threads,
            "model loaded on the CPU"
        );
        return Ok(Box::new(decoder));
    };
    let info = ModelInfo {
        // No weights, and no KV but a book of what was fed.
        parameters: 0,
        kv_bytes_per_token: 0,
        // Drawn tokens would end answers at random; these are as long as they may be.
        eos: Vec::new(),
        ..decoder.info().clone()
    };
    Ok(Box::new(NullRunner::new(info, index).with_step_time(step_time)))
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
