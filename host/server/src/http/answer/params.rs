//! The fields that say how an answer is written, whatever it answers: read, checked, and made into jobs.

use tokenrouter_core::TokenId;
use tokenrouter_core::draw::{Purpose, bits};
use tokenrouter_engine::{Job, Target};
use tokenrouter_model::{Penalties, Sampling};

use super::format::Wanted;
use super::own::Own;
use super::prefix::Sharing;
use super::sampling;
use super::stopping::Stopping;
use super::{Fields, Served, unsupported};
use crate::http::ApiError;
use crate::http::request_id::random_bits;

/// How the answers of a request are to be written and told.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::http) struct Params {
    /// The name under which the client asked, the deployment's if it gave none, and under which it is answered.
    pub(in crate::http) model: String,
    pub(super) target: Target,
    /// Without one, an answer may fill the models' context.
    pub(in crate::http) max_tokens: Option<u32>,
    pub(super) min_tokens: u32,
    pub(super) sampling: Sampling,
    pub(super) penalties: Penalties,
    pub(super) logit_bias: Vec<(TokenId, f32)>,
    /// The client's seed, for every prompt. Without one, each prompt draws its own.
    pub(super) seed: Option<u64>,
    /// Answers to each prompt.
    pub(in crate::http) n: usize,
    pub(super) stopping: Stopping,
    /// What the answers may look like.
    pub(super) format: Option<Wanted>,
    /// Alternatives to tell with each token; set by the endpoint, whose API has its own fields for them.
    pub(in crate::http) logprobs: Option<u32>,
    pub(in crate::http) stream: bool,
    pub(super) include_usage: bool,
    pub(super) continuous_usage: bool,
    pub(super) return_token_ids: bool,
    /// Whose prefixes it shares.
    pub(super) sharing: Sharing,
    pub(super) own: Own,
}

impl Params {
    /// Reads the fields. `known` are those that the endpoint knows and does not serve, besides those that none does.
    pub(in crate::http) fn read(
        served: Served<'_>,
        fields: &Fields<'_>,
        max_tokens_min: u32,
        known: &[unsupported::Known],
    ) -> Result<Self, ApiError> {
        unsupported::check(fields, known)?;
        let model = fields.text("model")?.unwrap_or(&served.names.deployment);
        let target = served.names.target(model)?;
        let stream = fields.boolean("stream")?.unwrap_or(false);
        let own = Own::read(fields, served.request_options, stream)?;
        if !own.options.is_empty() && !served.names.is_routed(&target) {
            let sentence = format!("are for a routing policy, but \"{model}\" is served without one");
            return Err(fields.refuse("tokenrouter.options", &sentence));
        }
        fields.text("user")?;
        let sharing = Sharing::read(fields, own.prefix_cache)?;
        let (include_usage, continuous_usage) = stream_options(fields, stream)?;
        let max_tokens = max_tokens(fields, max_tokens_min)?;
        let min_tokens = fields
            .integer("min_tokens", 0..=u32::MAX.into())?
            .map_or(0, |tokens| tokens as u32);
        let stopping = Stopping::read(fields, served.tokenizer)?;
        let format = Wanted::read(fields)?;
        if let Some(format) = &format {
            format.check(fields, min_tokens, stopping.ignore_eos)?;
        }
        Ok(Self {
            model: model.to_owned(),
            target,
            max_tokens,
            min_tokens,
            sampling: sampling::sampling(fields)?,
            penalties: sampling::penalties(fields)?,
            logit_bias: sampling::logit_bias(fields, served.tokenizer)?,
            // A negative seed keeps its bits: different seeds stay different.
            seed: fields
                .integer("seed", i64::MIN.into()..=u64::MAX.into())?
                .map(|seed| seed as u64),
            n: answers_a_prompt(fields, served)?,
            stopping,
            format,
            logprobs: None,
            stream,
            include_usage,
            continuous_usage,
            return_token_ids: fields.boolean("return_token_ids")?.unwrap_or(false),
            sharing,
            own,
        })
    }

    /// Whether tokens are told, and not only their text.
    pub(super) fn tells_tokens(&self) -> bool {
        self.own.attribution || self.own.assumed || self.return_token_ids || self.logprobs.is_some()
    }

    /// `n` jobs a prompt, in the prompts' order.
    pub(in crate::http) fn jobs(&self, served: Served<'_>, prompts: &[Vec<TokenId>]) -> Result<Vec<Job>, ApiError> {
        let answers = prompts.len() * self.n;
        if answers > served.answers_max {
            let field = if prompts.len() > served.answers_max {
                "prompt"
            } else {
                "n"
            };
            let message = format!(
                "{field}: {answers} answers were asked for, {} prompts times n {}; at most {} are possible",
                prompts.len(),
                self.n,
                served.answers_max
            );
            return Err(ApiError::field(field, message));
        }
        let grammar = (self.format.as_ref())
            .map(|format| format.grammar(served.grammars))
            .transpose()?;
        let mut jobs = Vec::with_capacity(answers);
        for prompt in prompts {
            let seed = self.seed.unwrap_or_else(drawn_seed);
            let room = served.length_max.saturating_sub(prompt.len() as u32).max(1);
            let (min_tokens, max_tokens) = (self.min_tokens, self.max_tokens.unwrap_or(room));
            if min_tokens > max_tokens {
                let message = format!("min_tokens is {min_tokens}; it must be at most max_tokens, {max_tokens}");
                return Err(ApiError::field("min_tokens", message));
            }
            jobs.extend((0..self.n as u64).map(|choice| Job {
                prompt: prompt.clone(),
                max_tokens,
                min_tokens,
                sampling: self.sampling,
                penalties: self.penalties,
                logit_bias: self.logit_bias.clone(),
                seed: choice_seed(seed, choice),
                stop: self.stopping.strings.clone(),
                stop_tokens: self.stopping.tokens.clone(),
                include_stop: self.stopping.include_stop,
                ignore_eos: self.stopping.ignore_eos,
                grammar: grammar.clone(),
                logprobs: self.logprobs,
                attribution: self.own.attribution,
                steps: self.own.steps,
                assumed: self.own.assumed,
                target: self.target.clone(),
                options: self.own.options.clone(),
                prefix_salt: None,
            }));
        }
        Ok(jobs)
    }
}

/// A seed that JSON readers with floating-point numbers can hold: it is reported, so that the answer can be repeated.
fn drawn_seed() -> u64 {
    random_bits() >> 11
}

/// The seed of the n-th answer to a prompt: the first has the prompt's, the others a drawn one, as reportable.
fn choice_seed(seed: u64, choice: u64) -> u64 {
    match choice {
        0 => seed,
        _ => bits(seed, choice, Purpose::Choice) >> 11,
    }
}

/// `max_tokens`, under either of its names.
fn max_tokens(fields: &Fields<'_>, min: u32) -> Result<Option<u32>, ApiError> {
    let range = i128::from(min)..=u32::MAX.into();
    let old = fields.integer("max_tokens", range.clone())?;
    let new = fields.integer("max_completion_tokens", range)?;
    match (old, new) {
        (Some(old), Some(new)) if old != new => Err(fields.refuse(
            "max_completion_tokens",
            &format!("is {new}, but max_tokens is {old}; they mean the same, so give one of them"),
        )),
        _ => Ok(new.or(old).map(|tokens| tokens as u32)),
    }
}

/// `include_usage` and `continuous_usage_stats`.
fn stream_options(fields: &Fields<'_>, stream: bool) -> Result<(bool, bool), ApiError> {
    let Some(options) = fields.object("stream_options")? else {
        return Ok((false, false));
    };
    let include_usage = options.boolean("include_usage")?.unwrap_or(false);
    let continuous = options.boolean("continuous_usage_stats")?.unwrap_or(false);
    if !stream {
        return Err(fields.refuse("stream_options", "is for streams; set stream to true or leave it out"));
    }
    Ok((include_usage, include_usage && continuous))
}

/// `n`. `best_of` answers of which the best are shown would be thrown away, so it must be `n`.
fn answers_a_prompt(fields: &Fields<'_>, served: Served<'_>) -> Result<usize, ApiError> {
    let n = fields.integer("n", 1..=served.answers_max as i128)?.unwrap_or(1);
    match fields.integer("best_of", 1..=i128::from(u32::MAX))? {
        Some(best_of) if best_of != n => Err(fields.refuse(
            "best_of",
            &format!("is {best_of}; it must be n, {n}: answers are not ranked here, so all are shown"),
        )),
        _ => Ok(n as usize),
    }
}
