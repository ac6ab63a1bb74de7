//! What a client asks for: the body's fields, checked, and the jobs they make.

use serde_json::Value;
use tokenrouter_core::TokenId;
use tokenrouter_engine::{Job, SubmitError, Target};
use tokenrouter_model::Sampling;
use tokenrouter_model::text::Tokenizer;
use tokenrouter_policy::Setting;

use super::fields::{Fields, kind};
use super::unsupported;
use crate::deployment::OptionValue;
use crate::http::request_id::random_bits;
use crate::http::{ApiError, ModelNames};

/// Most stop strings of a request, as in OpenAI's API.
pub(in crate::http) const STOP_STRINGS_MAX: usize = 4;

/// Tokens of an answer when the request does not say: OpenAI's value.
const MAX_TOKENS_DEFAULT: u32 = 16;

/// Fields of the object `tokenrouter`, this server's own.
const OWN_FIELDS: [&str; 2] = ["options", "attribution"];

/// A prompt as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Prompt {
    /// To be encoded, with what the model begins a sequence with.
    Text(String),
    /// Fed as they are.
    Tokens(Vec<TokenId>),
}

/// A request for completions, one a prompt.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CompletionRequest {
    /// The name under which the client asked, the deployment's if it gave none, and under which it is answered.
    pub(super) model: String,
    pub(super) target: Target,
    pub(super) prompts: Vec<Prompt>,
    pub(super) max_tokens: u32,
    pub(super) sampling: Sampling,
    /// The client's seed, for every prompt. Without one, each prompt draws its own.
    pub(super) seed: Option<u64>,
    pub(super) stop: Vec<String>,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    /// Options of the policy for this request.
    pub(super) options: Vec<Setting>,
    /// Whether each choice says which model wrote which token.
    pub(super) attribution: bool,
}

impl CompletionRequest {
    /// Reads a body.
    pub(super) fn parse(body: &[u8], names: &ModelNames, prompts_max: usize) -> Result<Self, ApiError> {
        let text = std::str::from_utf8(body).map_err(|error| ApiError::NotUtf8 {
            index: error.valid_up_to(),
        })?;
        let body: Value = serde_json::from_str(text).map_err(|error| ApiError::Json(error.to_string()))?;
        let fields = Fields::of_body(&body)?;
        unsupported::check(&fields)?;
        let model = fields.text("model")?.unwrap_or(&names.deployment);
        let target = names.target(model)?;
        let (options, attribution) = own_fields(&fields)?;
        if !options.is_empty() && !names.is_routed(&target) {
            let sentence = format!("are for a routing policy, but \"{model}\" is served without one");
            return Err(fields.refuse("tokenrouter.options", &sentence));
        }
        let stream_options = fields.object("stream_options")?;
        let include_usage = stream_options
            .map(|options| options.boolean("include_usage"))
            .transpose()?
            .flatten();
        Ok(Self {
            model: model.to_owned(),
            target,
            prompts: prompts(&fields, prompts_max)?,
            max_tokens: fields
                .integer("max_tokens", 1..=u32::MAX.into())?
                .map_or(MAX_TOKENS_DEFAULT, |tokens| tokens as u32),
            sampling: sampling(&fields)?,
            // A negative seed keeps its bits: different seeds stay different.
            seed: fields
                .integer("seed", i64::MIN.into()..=u64::MAX.into())?
                .map(|seed| seed as u64),
            stop: stop(&fields)?,
            stream: fields.boolean("stream")?.unwrap_or(false),
            include_usage: include_usage.unwrap_or(false),
            options,
            attribution,
        })
    }

    /// One job a prompt, in their order.
    pub(super) fn jobs(&self, tokenizer: &Tokenizer) -> Result<Vec<Job>, ApiError> {
        let job = |(index, prompt): (usize, &Prompt)| {
            Ok(Job {
                prompt: match prompt {
                    Prompt::Tokens(tokens) => tokens.clone(),
                    Prompt::Text(text) => tokenizer.encode_prompt(text).map_err(|error| ApiError::Submit {
                        prompt: (self.prompts.len() > 1).then_some(index),
                        error: SubmitError::Text(error.to_string()),
                    })?,
                },
                max_tokens: self.max_tokens,
                sampling: self.sampling,
                seed: self.seed.unwrap_or_else(drawn_seed),
                stop: self.stop.clone(),
                target: self.target.clone(),
                options: self.options.clone(),
            })
        };
        self.prompts.iter().enumerate().map(job).collect()
    }
}

/// A seed that JSON readers with floating-point numbers can hold: it is reported, so that the answer can be repeated.
fn drawn_seed() -> u64 {
    random_bits() >> 11
}

fn sampling(fields: &Fields<'_>) -> Result<Sampling, ApiError> {
    let top_k = fields.integer("top_k", -1..=u32::MAX.into())?.unwrap_or(0);
    Ok(Sampling {
        temperature: fields.number("temperature", 0.0..=2.0)?.unwrap_or(1.0) as f32,
        top_p: fields.number("top_p", 0.0..=1.0)?.unwrap_or(1.0) as f32,
        // -1 is how other servers write "all".
        top_k: u32::try_from(top_k).unwrap_or(0),
        min_p: fields.number("min_p", 0.0..=1.0)?.unwrap_or(0.0) as f32,
    })
}

fn stop(fields: &Fields<'_>) -> Result<Vec<String>, ApiError> {
    let expected = "a string or an array of strings";
    let stop = match fields.get("stop") {
        None => return Ok(Vec::new()),
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(items)) => items
            .iter()
            .map(|item| {
                item.as_str()
                    .map(str::to_owned)
                    .ok_or_else(|| fields.wrong("stop", expected, item))
            })
            .collect::<Result<_, _>>()?,
        Some(other) => return Err(fields.wrong("stop", expected, other)),
    };
    if stop.len() > STOP_STRINGS_MAX {
        return Err(fields.refuse(
            "stop",
            &format!("has {} strings; at most {STOP_STRINGS_MAX} are possible", stop.len()),
        ));
    }
    if stop.iter().any(String::is_empty) {
        return Err(fields.refuse("stop", "has an empty string, which would end every answer at once"));
    }
    Ok(stop)
}

/// All four forms: a string, token ids, a list of strings, a list of lists of token ids.
fn prompts(fields: &Fields<'_>, prompts_max: usize) -> Result<Vec<Prompt>, ApiError> {
    let prompts = match fields.get("prompt") {
        None => {
            return Err(fields.refuse(
                "prompt",
                "is missing; it is a string, an array of token ids, or an array of these",
            ));
        }
        Some(Value::Array(items)) if items.first().is_some_and(Value::is_number) => vec![tokens(fields, items)?],
        Some(Value::Array(items)) => items
            .iter()
            .map(|item| prompt(fields, item))
            .collect::<Result<_, _>>()?,
        Some(single) => vec![prompt(fields, single)?],
    };
    if prompts.is_empty() {
        return Err(fields.refuse("prompt", "is empty; it needs at least one token"));
    }
    if prompts.len() > prompts_max {
        return Err(fields.refuse(
            "prompt",
            &format!("has {} prompts; at most {prompts_max} are possible", prompts.len()),
        ));
    }
    Ok(prompts)
}

fn prompt(fields: &Fields<'_>, value: &Value) -> Result<Prompt, ApiError> {
    match value {
        Value::String(text) if text.is_empty() => Err(fields.refuse("prompt", "is empty; it needs at least one token")),
        Value::String(text) => Ok(Prompt::Text(text.clone())),
        Value::Array(items) => tokens(fields, items),
        other => Err(fields.wrong("prompt", "a string, an array of token ids, or an array of these", other)),
    }
}

fn tokens(fields: &Fields<'_>, items: &[Value]) -> Result<Prompt, ApiError> {
    if items.is_empty() {
        return Err(fields.refuse("prompt", "is empty; it needs at least one token"));
    }
    let token = |item: &Value| {
        item.as_u64()
            .and_then(|id| TokenId::try_from(id).ok())
            .ok_or_else(|| fields.wrong("prompt", &format!("token ids from 0 to {}", TokenId::MAX), item))
    };
    Ok(Prompt::Tokens(items.iter().map(token).collect::<Result<_, _>>()?))
}

/// The options for the policy, and whether attribution is wanted.
fn own_fields(fields: &Fields<'_>) -> Result<(Vec<Setting>, bool), ApiError> {
    let Some(own) = fields.object("tokenrouter")? else {
        return Ok((Vec::new(), false));
    };
    if let Some(name) = own.names().find(|name| !OWN_FIELDS.contains(name)) {
        return Err(own.refuse(name, &format!("is not known; there are {}", OWN_FIELDS.join(", "))));
    }
    let mut settings = Vec::new();
    if let Some(options) = own.object("options")? {
        for name in options.names() {
            let Some(json) = options.get(name) else { continue };
            let value = OptionValue::from_json(json).map_err(|found| {
                let expected = "must be a boolean, a number, a string, or an array of numbers or of strings";
                let found = if json.is_array() { found.to_owned() } else { kind(json) };
                options.refuse(name, &format!("{expected}, found {found}"))
            })?;
            settings.push(Setting {
                name: name.to_owned(),
                value: value.into(),
            });
        }
    }
    Ok((settings, own.boolean("attribution")?.unwrap_or(false)))
}
