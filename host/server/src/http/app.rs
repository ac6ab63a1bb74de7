//! What all handlers share.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokenrouter_engine::{Engine, EngineError};
use tokenrouter_model::text::ChatTemplate;

use super::ModelNames;
use super::answer::{Grammars, UnknownFields};
use super::count::RequestCounts;
use crate::deployment::{DeploymentFile, Loaded, LoadedHead, LoadedModel, LoadedPolicy, RequestOptions, ServerEntry};

/// An engine that runs, and what clients may know of it.
pub struct App {
    /// The engine.
    pub engine: Engine,
    /// What `model` may name.
    pub names: ModelNames,
    /// The models, in the deployment's order.
    pub models: Vec<LoadedModel>,
    /// The heads.
    pub heads: Vec<LoadedHead>,
    /// The policies, the default first.
    pub policies: Vec<LoadedPolicy>,
    /// When the engine was started, in seconds since 1970.
    pub started_s: u64,
    pub(super) launch: String,
    pub(super) on_failure: String,
    pub(super) body_bytes_max: usize,
    pub(super) body_time_max: Duration,
    pub(super) prompts_max: usize,
    /// What requests may set of the policy's options.
    pub(super) request_options: RequestOptions,
    pub(super) grammars: Grammars,
    /// What makes prompts of conversations, if the deployment has it.
    pub(super) template: Option<ChatTemplate>,
    /// Fields of requests that nobody knew.
    pub(super) unknown_fields: UnknownFields,
    /// The listener's bounds.
    pub(super) server: ServerEntry,
    /// What has been responded.
    pub(super) requests: RequestCounts,
}

impl App {
    /// Starts the engine of a deployment that was loaded from `file`.
    ///
    /// # Errors
    /// As `Engine::start`.
    pub fn start(file: &DeploymentFile, loaded: Loaded) -> Result<Self, Box<EngineError>> {
        let names = ModelNames {
            deployment: file.name.clone(),
            policies: loaded.policies.iter().map(|policy| policy.name.clone()).collect(),
            members: loaded.models.iter().map(|model| model.name.clone()).collect(),
        };
        let engine = Engine::start(loaded.parts).map_err(Box::new)?;
        Ok(Self {
            grammars: Grammars::new(engine.tokenizer(), engine.end_tokens()),
            template: loaded.template,
            engine,
            names,
            models: loaded.models,
            heads: loaded.heads,
            policies: loaded.policies,
            started_s: now_s(),
            launch: file.launch.rule.to_string(),
            on_failure: file.policy.on_failure.to_string(),
            body_bytes_max: file.limits.body_bytes_max.size(),
            body_time_max: Duration::from_secs(file.server.body_s_max.get().into()),
            prompts_max: file.limits.prompts_max.size(),
            request_options: file.policy.request_options.clone(),
            unknown_fields: UnknownFields::default(),
            server: file.server.clone(),
            requests: RequestCounts::default(),
        })
    }
}

impl App {
    /// How long a stream may be silent before a comment is sent.
    pub(super) fn event_silence_max(&self) -> Duration {
        Duration::from_secs(self.server.event_silence_s_max.get().into())
    }
}

/// Seconds since 1970, as the API's `created`.
pub(super) fn now_s() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
