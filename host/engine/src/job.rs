//! What a client asks of the engine, and why it may be refused.

use tokenrouter_core::{ModelIndex, TokenId};
use tokenrouter_model::runner::Sampling;
use tokenrouter_policy::Setting;

/// Who answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Target {
    /// The deployment's models, under its default policy.
    #[default]
    Default,
    /// The deployment's models, under this policy.
    Policy(String),
    /// One model alone, without routing.
    Model(ModelIndex),
}

/// One request for one answer.
#[derive(Clone, Debug)]
pub struct Job {
    /// The prompt, as it is fed: with its first token, if the models want one.
    pub prompt: Vec<TokenId>,
    /// Most tokens of the answer, at least 1.
    pub max_tokens: u32,
    /// How candidates are drawn, at every model alike.
    pub sampling: Sampling,
    /// Key of all random draws: the same job with the same seed gives the same answer.
    pub seed: u64,
    /// Strings that end the answer and are not part of it.
    pub stop: Vec<String>,
    /// Who answers.
    pub target: Target,
    /// Options of the policy for this request.
    pub options: Vec<Setting>,
}

/// Why a job was not taken. Only [`SubmitError::Policy`] is not the client's doing or the load's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// Nothing to continue.
    #[error("the prompt is empty; it needs at least one token")]
    EmptyPrompt,
    /// No room for an answer was asked for.
    #[error("max_tokens is 0; an answer needs at least 1")]
    NoTokens,
    /// Prompt and answer do not fit the models' context.
    #[error(
        "the models' context is {context_max} tokens, but {} were asked for: {prompt} of the prompt and {max_tokens} of the answer",
        u64::from(*prompt) + u64::from(*max_tokens)
    )]
    ContextLength {
        /// The smallest context of the deployment's models.
        context_max: u32,
        /// Tokens of the prompt.
        prompt: u32,
        /// The answer's bound.
        max_tokens: u32,
    },
    /// Prompt and answer do not fit the KV pool, so the request could never finish.
    #[error("prompt and answer may take {length_max} tokens together, but the KV pool holds {kv_tokens}")]
    NeverFits {
        /// What was asked for.
        length_max: u64,
        /// What there is.
        kv_tokens: usize,
    },
    /// A text or a token of the job cannot be used.
    #[error("{0}")]
    Text(String),
    /// No policy or model of that name is served.
    #[error("no policy named \"{name}\" is active; active: {}", .active.join(", "))]
    UnknownPolicy {
        /// The name asked for.
        name: String,
        /// The names there are.
        active: Vec<String>,
    },
    /// The policy refuses the request or one of its options.
    #[error("{0}")]
    Refused(String),
    /// As many requests wait as may.
    #[error("{}; try again later", queue_full(*.waiting_max))]
    Overloaded {
        /// The bound of the queue.
        waiting_max: usize,
    },
    /// The policy failed at admission.
    #[error("the routing policy failed: {0}")]
    Policy(String),
    /// The engine is ending.
    #[error("the server is shutting down")]
    ShuttingDown,
}

/// A queue of no places is always full, although nobody waits.
fn queue_full(waiting_max: usize) -> String {
    match waiting_max {
        0 => "as many requests are running as can, and none may wait".to_owned(),
        _ => format!("{waiting_max} requests are waiting already"),
    }
}
