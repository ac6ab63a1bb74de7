//! The models: their files, and whether they can work together.

use tokenrouter_model::WeightFormat;
use tokenrouter_model::cuda::Tensors;
use tokenrouter_model::decoder::DecoderFiles;
use tokenrouter_model::runner::ModelInfo;
use tokenrouter_model::text::Tokenizer;

use super::size::{bytes, parameters};
use super::{Findings, Level};
use crate::deployment::opened::{Opened, broken};
use crate::deployment::{DeploymentError, DeploymentFile, DeviceName, ModelEntry};

/// What is known of all models.
pub(super) struct Examined<'a> {
    /// In the deployment's order; `None` where there is no usable configuration.
    pub(super) models: Vec<Option<Model<'a>>>,
    /// The tokenizer of the first, if all models have its vocabulary.
    pub(super) tokenizer: Option<Tokenizer>,
}

/// A model whose configuration could be read.
pub(super) struct Model<'a> {
    pub(super) opened: Opened<'a>,
    /// What its runner would say; `None` if its device cannot run it.
    pub(super) info: Option<ModelInfo>,
    /// Bytes that its weights will take on its device; `None` if they are not whole.
    pub(super) weights_bytes: Option<u64>,
    /// The same as 8 and as 4 bits, where `weights` may choose.
    pub(super) quantised_bytes: Option<[u64; 2]>,
}

impl<'a> Examined<'a> {
    pub(super) fn of(file: &'a DeploymentFile, findings: &mut Findings) -> Self {
        let models = (file.models.iter()).map(|entry| model(file, entry, findings)).collect();
        let mut examined = Self {
            models,
            tokenizer: None,
        };
        examined.tokenizer = examined.shared_tokenizer(findings);
        examined
    }

    /// All models, if all could be read.
    pub(super) fn all(&self) -> Option<Vec<(&Model<'a>, &ModelInfo)>> {
        let known = self.models.iter().map(|model| {
            let model = model.as_ref()?;
            Some((model, model.info.as_ref()?))
        });
        known.collect()
    }

    fn shared_tokenizer(&self, findings: &mut Findings) -> Option<Tokenizer> {
        const ABOUT: &str = "vocabulary";
        let mut readable = self.models.iter().flatten().map(|model| &model.opened);
        let Some(first) = readable.next() else {
            if self.models.is_empty() {
                findings.add(
                    Level::Error,
                    "models",
                    "the deployment has none; write at least one [[models]]",
                );
            }
            return None;
        };
        let tokenizer = findings.take(&about(first.entry), first.tokenizer())?;
        let others: Vec<_> = readable.collect();
        let same: Vec<_> = (others.iter())
            .map(|other| findings.take(ABOUT, first.shares_vocabulary(&tokenizer, other)))
            .collect();
        if same.iter().any(Option::is_none) {
            return None;
        }
        let tokens = tokenizer.vocabulary_size();
        let all = 1 + others.len();
        findings.add(
            Level::Ok,
            ABOUT,
            format!("the same {tokens} tokens at {all} of {} models", self.models.len()),
        );
        for opened in std::iter::once(first).chain(others) {
            table(opened, &tokenizer, findings);
        }
        Some(tokenizer)
    }
}

pub(super) fn about(entry: &ModelEntry) -> String {
    format!("model {}", entry.name)
}

fn model<'a>(file: &'a DeploymentFile, entry: &'a ModelEntry, findings: &mut Findings) -> Option<Model<'a>> {
    let about = about(entry);
    let opened = findings.take(&about, Opened::open(entry, &file.base))?;
    let (config, device) = (&opened.config, entry.device);
    let said = format!(
        "{}: {:?}, {} parameters, {} layers, at most {} tokens, on {device}",
        entry.source,
        config.architecture,
        parameters(config.parameters()),
        config.num_hidden_layers,
        config.max_position_embeddings
    );
    findings.add(Level::Ok, &*about, said);
    let info = findings.take(&about, opened.info());
    if entry.source.simulated().is_some() {
        findings.add(Level::Ok, &*about, "simulated: no weights");
        return Some(Model {
            opened,
            info,
            weights_bytes: Some(0),
            quantised_bytes: None,
        });
    }
    let files = findings.take(&about, headers(&opened));
    let options = entry.cpu_options();
    let held = |weights: WeightFormat| {
        let files = files.as_ref()?;
        Some(files.held_bytes(tokenrouter_model::CpuOptions { weights, ..options }))
    };
    let weights_bytes = match device {
        DeviceName::Cpu => held(options.weights),
        // Two bytes a number.
        DeviceName::Cuda(_) => files.as_ref().map(|_| 2 * config.parameters()),
    };
    if let Some(size) = weights_bytes {
        findings.add(
            Level::Ok,
            &*about,
            format!("weights whole; {} on {device}", bytes(size)),
        );
    }
    Some(Model {
        info,
        weights_bytes,
        quantised_bytes: match device {
            DeviceName::Cpu => held(WeightFormat::Q8).zip(held(WeightFormat::Q4)).map(<[u64; 2]>::from),
            DeviceName::Cuda(_) => None,
        },
        opened,
    })
}

/// The headers of all files with weights, as the model's device reads them.
fn headers(opened: &Opened<'_>) -> Result<DecoderFiles, DeploymentError> {
    if opened.entry.device != DeviceName::Cpu {
        Tensors::open(&opened.source).map_err(|source| broken(opened.entry, source))?;
    }
    opened.files()
}

/// The table of a model beside its tokens, and whether an answer has an end.
fn table(opened: &Opened<'_>, tokenizer: &Tokenizer, findings: &mut Findings) {
    let (rows, tokens) = (opened.config.vocab_size, tokenizer.vocabulary_size());
    let about = about(opened.entry);
    if rows > tokens {
        let padded = rows - tokens;
        findings.add(
            Level::Ok,
            &*about,
            format!("table of {rows} rows, the last {padded} without a token"),
        );
    } else if rows < tokens {
        let what = format!(
            "its table has {rows} rows, but the tokenizer has ids up to {}: prompts with ids from {rows} on cannot be answered. Take \
             the tokenizer.json that came with these weights",
            tokens - 1
        );
        findings.add(Level::Error, &*about, what);
    }
    if opened.config.eos_token_id.is_empty() && opened.entry.source.simulated().is_none() {
        let what = "no token ends an answer: answers go on to max_tokens. Set eos_token_id in its config.json";
        findings.add(Level::Warn, &*about, what);
    }
}
