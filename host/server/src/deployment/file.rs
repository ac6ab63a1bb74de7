//! A deployment as its TOML file has it. `config/tiny.toml` explains every key.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tokenrouter_core::ModelIndex;
use tokenrouter_core::limits::HEADS_MAX;
use tokenrouter_model::{CpuOptions, Source, WeightFormat};

use super::{
    AdminEntry, CudaEntry, DeploymentError, DeviceName, Launch, ModelSource, OptimisticSetting, OptionValue,
    PolicyLimitsEntry, RequestOptions, Whole,
};

/// The deployment that is served when none is named: `config/tiny.toml`.
pub const BUILT_IN: &str = include_str!("../../../../config/tiny.toml");

/// A deployment file. Keys that are not known are errors.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DeploymentFile {
    /// What clients write in `model`: 1 to 64 ASCII letters, digits, `.`, `_` or `-`.
    pub name: String,
    /// File of a chat template (Jinja) instead of the models' own, relative to this file.
    #[serde(default)]
    pub chat_template: Option<PathBuf>,
    /// Whether requests of the same key take over KV of prompts and answers that begin like theirs; the answers are the same.
    #[serde(default = "yes")]
    pub prefix_cache: bool,
    /// The models, 1 to 8, by custom from the smallest to the largest. All must have the same vocabulary.
    pub models: Vec<ModelEntry>,
    /// Heads whose scores the policy may ask for.
    #[serde(default)]
    pub heads: Vec<HeadEntry>,
    /// The routing policy.
    #[serde(default)]
    pub policy: PolicyEntry,
    /// The launch rule.
    #[serde(default)]
    pub launch: LaunchEntry,
    /// Bounds of the engine and of a request.
    #[serde(default)]
    pub limits: LimitsEntry,
    /// How models run on GPUs.
    #[serde(default)]
    pub cuda: CudaEntry,
    /// The HTTP server.
    #[serde(default)]
    pub server: ServerEntry,
    /// The admin API and what it may do.
    #[serde(default)]
    pub admin: AdminEntry,
    /// What the file is called in messages.
    #[serde(skip)]
    pub file: String,
    /// The folder that relative paths of models and heads count from.
    #[serde(skip)]
    pub base: PathBuf,
}

/// One model.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ModelEntry {
    /// Its name in the deployment: 1 to 64 ASCII letters, digits, `.`, `_` or `-`.
    pub name: String,
    /// Where it comes from: `embedded:tiny/NAME`, or, relative to this file, a folder in Hugging Face's layout or a GGUF file;
    /// `simulated:MS` is a clock in place of a model, whose steps take MS milliseconds.
    pub source: ModelSource,
    /// What it runs on: `cpu`, or `cuda:N` for an NVIDIA GPU, from 0 on.
    #[serde(default)]
    pub device: DeviceName,
    /// Threads of a step on the CPU.
    #[serde(default = "one_thread")]
    pub threads: NonZeroU16,
    /// How weights are held on the CPU: `auto` (as the file has them), `f32`, `bf16`, `q8_0` (8.5 bits a number) or `q4` (5 bits).
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "String", extend("default" = "auto")))]
    pub weights: WeightFormat,
}

fn yes() -> bool {
    true
}

fn one_thread() -> NonZeroU16 {
    NonZeroU16::MIN
}

impl ModelEntry {
    /// Where the model's files are; paths count from `base`.
    ///
    /// # Errors
    /// [`DeploymentError::Hub`] when it is not in the hub's cache.
    pub fn resolve(&self, base: &Path) -> Result<Source, DeploymentError> {
        self.source.resolve(base).map_err(|source| DeploymentError::Hub {
            model: self.name.clone(),
            source: Box::new(source),
        })
    }

    /// How the model runs on the CPU.
    pub(super) fn cpu_options(&self) -> CpuOptions {
        CpuOptions {
            threads: usize::from(self.threads.get()),
            weights: self.weights,
        }
    }
}

/// One head.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HeadEntry {
    /// Its name in the deployment, by which a policy asks for its score.
    pub name: String,
    /// The model at whose steps it is evaluated.
    pub model: String,
    /// Its file, relative to this file, or `embedded:tiny/NAME`.
    pub file: PathBuf,
}

/// The routing policy.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct PolicyEntry {
    /// The name of a policy of the binary, a .wasm file relative to this file, or `none`: the first model answers alone.
    pub plugin: String,
    /// What happens to a request whose policy fails: it ends with an error, the model at hand goes on, or it moves to a model.
    pub on_failure: OnFailure,
    /// Options of the policy, by name; `tokenrouter-host policy inspect NAME` shows what there is.
    pub options: BTreeMap<String, OptionValue>,
    /// What requests may set of them, by name: nothing, all that the policy takes (the default), or numbers within bounds.
    pub request_options: RequestOptions,
    /// Bounds of this policy and of every one that is uploaded.
    pub limits: PolicyLimitsEntry,
    /// The folder that a relative path counts from; the deployment's own if `None`.
    #[serde(skip)]
    pub base: Option<PathBuf>,
}

impl Default for PolicyEntry {
    fn default() -> Self {
        let plugin = super::NO_PLUGIN.to_owned();
        Self {
            plugin,
            on_failure: OnFailure::default(),
            options: BTreeMap::new(),
            request_options: RequestOptions::default(),
            limits: PolicyLimitsEntry::default(),
            base: None,
        }
    }
}

/// What happens to a request whose policy fails.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema, serde::Serialize))]
#[serde(untagged, expecting = "\"fail\", \"stay\" or { fallback = \"MODEL\" }")]
pub enum OnFailure {
    /// A mode without a parameter.
    Mode(OnFailureMode),
    /// It moves to a model.
    Fallback(Fallback),
}

/// A failure mode without a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "lowercase")]
pub enum OnFailureMode {
    /// The request ends with an error.
    Fail,
    /// The model at hand goes on.
    Stay,
}

/// The model that takes requests over whose policy fails.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct Fallback {
    /// Its name.
    pub fallback: String,
}

impl Default for OnFailure {
    fn default() -> Self {
        Self::Mode(OnFailureMode::Fail)
    }
}

impl std::fmt::Display for OnFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Mode(OnFailureMode::Fail) => f.write_str("fail"),
            Self::Mode(OnFailureMode::Stay) => f.write_str("stay"),
            Self::Fallback(Fallback { fallback }) => write!(f, "fallback to {fallback}"),
        }
    }
}

/// When idle models launch.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct LaunchEntry {
    /// When an idle model starts its next step: `lookahead`, `eager`, `threshold` (planned while serving), `threshold:B0,B1,…` (requests
    /// for each model), `step-sync` or `model-sync`.
    pub rule: Launch,
    /// Whether a model writes on while another decides about its last candidate: `off`, `auto`, or `window:K`, at most K tokens ahead
    /// (1 to 64).
    pub optimistic: OptimisticSetting,
}

/// Bounds of the engine and of a request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct LimitsEntry {
    /// Requests that run at once.
    pub requests_running_max: Whole<1, 65_536>,
    /// Requests that wait to start; one more is answered with 429.
    pub requests_waiting_max: Whole<0, 1_048_576>,
    /// Tokens in the KV pool of each model; without it 16384 on the CPU, and as many as all devices have room for on GPUs.
    pub kv_tokens: Option<Whole<16, 1_073_741_824>>,
    /// How much of the KV pool may be promised to running requests, per cent.
    pub kv_promised_percent: Whole<100, 10_000>,
    /// Requests in one step.
    pub rows_max: Whole<1, 65_536>,
    /// Tokens of prompts that may join one step, so that long prompts do not stall the others.
    pub long_tokens_max: Whole<1, 1_048_576>,
    /// How long a model may take for one step before it counts as stalled, seconds.
    pub stall_s_max: Whole<1, 3_600>,
    /// Longest wait for company at a model, milliseconds.
    pub wait_ms_max: Whole<0, 600_000>,
    /// Largest body of a request, bytes.
    pub body_bytes_max: Whole<1_024, 1_073_741_824>,
    /// Answers in one request: prompts times `n`.
    pub prompts_max: Whole<1, 4_096>,
}

impl Default for LimitsEntry {
    fn default() -> Self {
        Self {
            requests_running_max: Whole::new(64),
            requests_waiting_max: Whole::new(256),
            kv_tokens: None,
            kv_promised_percent: Whole::new(100),
            rows_max: Whole::new(64),
            long_tokens_max: Whole::new(256),
            stall_s_max: Whole::new(60),
            wait_ms_max: Whole::new(200),
            body_bytes_max: Whole::new(1 << 20),
            prompts_max: Whole::new(32),
        }
    }
}

/// The HTTP server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ServerEntry {
    /// Address and port, `HOST:PORT`; port 0 takes a free one.
    pub listen: String,
    /// How long running requests may take to finish after Ctrl-C or SIGTERM, seconds.
    pub drain_s_max: Whole<0, 86_400>,
    /// How long a request's headers may take, seconds.
    pub header_s_max: Whole<1, 3_600>,
    /// How long a request's body may take, seconds.
    pub body_s_max: Whole<1, 3_600>,
    /// How large a request's headers may be, bytes.
    pub header_bytes_max: Whole<8_192, 1_048_576>,
    /// How long bytes may wait for a client to read them, seconds; then its connection ends and its request is cancelled.
    pub write_s_max: Whole<1, 3_600>,
    /// How long a stream may be silent before a comment is sent, seconds.
    pub event_silence_s_max: Whole<1, 3_600>,
    /// Connections at once; further ones wait to be accepted.
    pub connections_max: Whole<1, 1_048_576>,
    /// File of the keys that clients need, one a line as KEY or as NAME KEY, relative to this file; without it nobody needs one.
    pub api_key_file: Option<PathBuf>,
    /// Origins whose web pages may read answers; `*` for all.
    pub cors_origins: Vec<String>,
    /// Certificate and key, for HTTPS.
    pub tls: Option<TlsEntry>,
}

/// HTTPS. Both are PEM files, relative to this file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TlsEntry {
    /// The server's certificate, followed by those between it and a root.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl Default for ServerEntry {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:30000".to_owned(),
            drain_s_max: Whole::new(30),
            header_s_max: Whole::new(30),
            body_s_max: Whole::new(30),
            header_bytes_max: Whole::new(65_536),
            write_s_max: Whole::new(60),
            event_silence_s_max: Whole::new(15),
            connections_max: Whole::new(1_024),
            api_key_file: None,
            cors_origins: Vec::new(),
            tls: None,
        }
    }
}

impl DeploymentFile {
    /// The deployment that is part of the binary.
    ///
    /// # Errors
    /// None, unless `config/tiny.toml` was broken when the binary was built; a test reads it.
    pub fn built_in() -> Result<Self, DeploymentError> {
        Self::parse(BUILT_IN, "config/tiny.toml (built in)", Path::new(""))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`DeploymentError`] with file, line and column.
    pub fn read(path: &Path) -> Result<Self, DeploymentError> {
        let text = std::fs::read_to_string(path).map_err(|source| DeploymentError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(
            &text,
            &path.display().to_string(),
            path.parent().unwrap_or(Path::new("")),
        )
    }

    /// Reads a text. `file` names it in messages, `base` is the folder that relative paths count from.
    ///
    /// # Errors
    /// As [`DeploymentFile::read`].
    pub fn parse(text: &str, file: &str, base: &Path) -> Result<Self, DeploymentError> {
        let mut parsed: Self = toml::from_str(text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            let (line, column) = position(text, offset);
            DeploymentError::Toml {
                file: file.to_owned(),
                line,
                column,
                what: error.message().trim().to_owned(),
            }
        })?;
        file.clone_into(&mut parsed.file);
        base.clone_into(&mut parsed.base);
        parsed.check()?;
        Ok(parsed)
    }

    /// What no single key shows: names that are used twice or lead nowhere.
    fn check(&self) -> Result<(), DeploymentError> {
        let refuse = |what: String| {
            Err(DeploymentError::Contradiction {
                file: self.file.clone(),
                what,
            })
        };
        check_name("name", &self.name).or_else(refuse)?;
        for (index, model) in self.models.iter().enumerate() {
            check_name("a model's name", &model.name).or_else(refuse)?;
            if self.models[..index].iter().any(|earlier| earlier.name == model.name) {
                return refuse(format!(
                    "two models are named \"{}\"; names of models must differ",
                    model.name
                ));
            }
            if model.device != DeviceName::Cpu && model.cpu_options() != CpuOptions::default() {
                return refuse(format!(
                    "model \"{}\" runs on {}; `threads` and `weights` are for device = \"cpu\"",
                    model.name, model.device
                ));
            }
        }
        self.check_heads()?;
        self.failure_mode().map(drop)
    }

    fn check_heads(&self) -> Result<(), DeploymentError> {
        if self.heads.len() > HEADS_MAX {
            let found = self.heads.len();
            return Err(self.contradiction(format!("{found} heads; at most {HEADS_MAX} are possible")));
        }
        for (index, head) in self.heads.iter().enumerate() {
            check_name("a head's name", &head.name).map_err(|what| self.contradiction(what))?;
            if self.heads[..index].iter().any(|earlier| earlier.name == head.name) {
                let what = format!("two heads are named \"{}\"; names of heads must differ", head.name);
                return Err(self.contradiction(what));
            }
            self.head_model(&head.name, &head.model)?;
        }
        Ok(())
    }

    /// The model that a head belongs to, which is named `model`.
    ///
    /// # Errors
    /// [`DeploymentError::Contradiction`] if there is no such model.
    pub fn head_model(&self, head: &str, model: &str) -> Result<ModelIndex, DeploymentError> {
        let names: Vec<&str> = self.models.iter().map(|model| model.name.as_str()).collect();
        let index = names.iter().position(|name| *name == model);
        index.map(|index| ModelIndex(index as u32)).ok_or_else(|| {
            self.contradiction(format!(
                "head \"{head}\" is for model \"{model}\"; the models are {}",
                names.join(", ")
            ))
        })
    }

    fn contradiction(&self, what: String) -> DeploymentError {
        DeploymentError::Contradiction {
            file: self.file.clone(),
            what,
        }
    }
}

/// Names become parts of what clients write in `model`, so `@` and `/` are taken.
fn check_name(what: &str, name: &str) -> Result<(), String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if !name.is_empty() && name.len() <= 64 && name.bytes().all(plain) {
        return Ok(());
    }
    Err(format!(
        "{what} is {name:?}; it must be 1 to 64 ASCII letters, digits, `.`, `_` or `-`"
    ))
}

/// Line and column, from 1, of a byte.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(offset)];
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|&character| character != '\n').count() + 1;
    (line, column)
}
