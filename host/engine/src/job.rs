//! What a client asks of the engine, and why it may be refused.

use tokenrouter_core::prefix::PrefixSalt;
use tokenrouter_core::{ModelIndex, TokenId};
use tokenrouter_model::Penalties;
use tokenrouter_model::grammar::Grammar;
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

/// One request for one answer. The default is a greedy answer of one token, without a prompt, which no engine takes.
#[derive(Clone, Debug)]
pub struct Job {
    /// The prompt, as it is fed: with its first token, if the models want one.
    pub prompt: Vec<TokenId>,
    /// Most tokens of the answer. With 0 no model is asked, and the answer ends at once.
    pub max_tokens: u32,
    /// Fewest tokens of the answer: before that, no token that ends it is drawn and no stop string looked for.
    pub min_tokens: u32,
    /// How candidates are drawn, at every model alike.
    pub sampling: Sampling,
    /// Penalties for what is written already, whoever wrote it.
    pub penalties: Penalties,
    /// Added to the logits of these tokens. Ids beyond the vocabulary are passed over.
    pub logit_bias: Vec<(TokenId, f32)>,
    /// Key of all random draws: the same job with the same seed gives the same answer.
    pub seed: u64,
    /// Strings that end the answer.
    pub stop: Vec<String>,
    /// Tokens that end the answer, beside those of the models.
    pub stop_tokens: Vec<TokenId>,
    /// Whether the text of what ends the answer is part of it.
    pub include_stop: bool,
    /// Whether the answer goes on after the models' own end tokens.
    pub ignore_eos: bool,
    /// What the answer may look like; it ends where this does. It must be made for the engine's tokenizer and
    /// [`Engine::end_tokens`](crate::Engine::end_tokens).
    pub grammar: Option<Grammar>,
    /// Log-probabilities with every token: its own, and so many of the most probable ones.
    pub logprobs: Option<u32>,
    /// Whether every handoff is to be told at the end.
    pub attribution: bool,
    /// Whether every token comes with the steps that led to it.
    pub steps: bool,
    /// Whether pieces come with the tokens that are assumed behind them ([`Assumed`](crate::stream::Assumed)), where models write
    /// ahead.
    pub assumed: bool,
    /// Who answers.
    pub target: Target,
    /// Options of the policy for this request.
    pub options: Vec<Setting>,
    /// Whose prefixes it shares: it takes over KV of jobs with the same salt, and leaves its own to them. `None`: nobody's.
    pub prefix_salt: Option<PrefixSalt>,
}

impl Default for Job {
    fn default() -> Self {
        Self {
            prompt: Vec::new(),
            max_tokens: 1,
            min_tokens: 0,
            sampling: Sampling::GREEDY,
            penalties: Penalties::NONE,
            logit_bias: Vec::new(),
            seed: 0,
            stop: Vec::new(),
            stop_tokens: Vec::new(),
            include_stop: false,
            ignore_eos: false,
            grammar: None,
            logprobs: None,
            attribution: false,
            steps: false,
            assumed: false,
            target: Target::Default,
            options: Vec::new(),
            prefix_salt: None,
        }
    }
}

/// Why a job was not taken. Only [`SubmitError::Policy`] is not the client's doing or the load's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// Nothing to continue.
    #[error("the prompt is empty; it needs at least one token")]
    EmptyPrompt,
    /// All tokens would end the answer, and none of them may be drawn.
    #[error(
        "min_tokens is {min_tokens}, but every token of the vocabulary ends the answer; take some out of the stop tokens"
    )]
    NothingToDraw {
        /// The answer's lower bound.
        min_tokens: u32,
    },
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
    /// A model that the request may need is down for now.
    #[error("model \"{model}\" does not work at the moment; try again later")]
    ModelDown {
        /// The model.
        model: String,
    },
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
