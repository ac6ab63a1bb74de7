//! What all handlers share.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokenrouter_engine::{Engine, EngineError};
use tokenrouter_model::text::ChatTemplate;

use super::ModelNames;
use super::answer::{Grammars, PrefixSalts, UnknownFields};
use super::count::RequestCounts;
use crate::deployment::{DeploymentFile, Loaded, LoadedHead, LoadedModel, LoadedPolicy, RequestOptions, ServerEntry};
use crate::policies::{Manager, ManagerParts, Store, SwapError};

/// An engine that runs, and what clients may know of it.
pub struct App {
    /// The engine.
    pub engine: Arc<Engine>,
    /// Its policies.
    pub manager: Arc<Manager>,
    deployment: String,
    /// The models, in the deployment's order.
    pub models: Vec<LoadedModel>,
    /// The heads.
    pub heads: Vec<LoadedHead>,
    /// When the engine was started, in seconds since 1970.
    pub started_s: u64,
    pub(super) launch: String,
    /// Whether models write ahead.
    pub(super) optimistic: String,
    pub(super) on_failure: String,
    pub(super) body_bytes_max: usize,
    pub(super) body_time_max: Duration,
    pub(super) prompts_max: usize,
    /// What requests may set of the policy's options.
    pub(super) request_options: RequestOptions,
    pub(super) grammars: Grammars,
    /// What makes prompts of conversations, if the deployment has it.
    pub(super) template: Option<ChatTemplate>,
    /// Whether requests share prefixes, and which.
    pub(super) prefix_salts: PrefixSalts,
    /// Fields of requests that nobody knew.
    pub(super) unknown_fields: UnknownFields,
    /// The listener's bounds.
    pub(super) server: ServerEntry,
    /// What has been responded.
    pub(super) requests: RequestCounts,
}

/// Why a deployment does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The policies or their state directory.
    #[error(transparent)]
    Policies(#[from] SwapError),
}

impl App {
    /// Starts the engine of a deployment that was loaded from `file`, and gives it the policies of the state directory or the
    /// deployment's own.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(file: &DeploymentFile, mut loaded: Loaded) -> Result<Self, StartError> {
        // The manager numbers generations, also those of earlier runs.
        loaded.parts.policies = Vec::new();
        let engine = Arc::new(Engine::start(loaded.parts)?);
        let store = match &file.admin.state_dir {
            Some(folder) => Some(Store::open(&file.base.join(folder)).map_err(SwapError::from)?),
            None => {
                tracing::info!("no state directory: uploads and activations do not survive a restart");
                None
            }
        };
        let manager = Manager::start(ManagerParts {
            engine: engine.clone(),
            host: loaded.host,
            deployment: loaded.deployment,
            settings: loaded.settings,
            store,
            first: loaded.first,
        })?;
        Ok(Self {
            grammars: Grammars::new(engine.tokenizer(), engine.end_tokens()),
            template: loaded.template,
            engine,
            manager: Arc::new(manager),
            deployment: file.name.clone(),
            models: loaded.models,
            heads: loaded.heads,
            started_s: now_s(),
            launch: file.launch.rule.to_string(),
            optimistic: file.launch.optimistic.0.to_string(),
            on_failure: file.policy.on_failure.to_string(),
            body_bytes_max: file.limits.body_bytes_max.size(),
            body_time_max: Duration::from_secs(file.server.body_s_max.get().into()),
            prompts_max: file.limits.prompts_max.size(),
            request_options: file.policy.request_options.clone(),
            prefix_salts: PrefixSalts::new(file.prefix_cache),
            unknown_fields: UnknownFields::default(),
            server: file.server.clone(),
            requests: RequestCounts::default(),
        })
    }

    /// What `model` may name now.
    pub fn names(&self) -> ModelNames {
        let traffic = self.engine.traffic();
        ModelNames {
            deployment: self.deployment.clone(),
            policies: traffic.policies.iter().map(|served| served.name().to_owned()).collect(),
            members: self.models.iter().map(|model| model.name.clone()).collect(),
        }
    }

    /// The policies that clients can name now, the default first.
    pub fn policies(&self) -> Vec<LoadedPolicy> {
        let traffic = self.engine.traffic();
        let loaded = traffic.policies.iter();
        loaded
            .map(|served| LoadedPolicy::of(served.name(), served.generation()))
            .collect()
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
