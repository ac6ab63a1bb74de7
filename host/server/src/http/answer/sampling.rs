//! The fields that say how a token is drawn.

use serde_json::Value;
use tokenrouter_core::TokenId;
use tokenrouter_model::text::Tokenizer;
use tokenrouter_model::{Penalties, Sampling};

use super::Fields;
use crate::http::{ApiError, limits};

/// `temperature`, `top_p`, `top_k`, `min_p`.
pub(super) fn sampling(fields: &Fields<'_>) -> Result<Sampling, ApiError> {
    let top_k = fields.integer("top_k", -1..=u32::MAX.into())?.unwrap_or(0);
    Ok(Sampling {
        temperature: fields.number("temperature", limits::TEMPERATURE)?.unwrap_or(1.0) as f32,
        top_p: fields.number("top_p", limits::PROBABILITY)?.unwrap_or(1.0) as f32,
        // -1 is how other servers write "all".
        top_k: u32::try_from(top_k).unwrap_or(0),
        min_p: fields.number("min_p", limits::PROBABILITY)?.unwrap_or(0.0) as f32,
    })
}

/// `presence_penalty`, `frequency_penalty`, `repetition_penalty`.
pub(super) fn penalties(fields: &Fields<'_>) -> Result<Penalties, ApiError> {
    Ok(Penalties {
        presence: fields.number("presence_penalty", limits::PENALTY)?.unwrap_or(0.0) as f32,
        frequency: fields.number("frequency_penalty", limits::PENALTY)?.unwrap_or(0.0) as f32,
        repetition: fields
            .number("repetition_penalty", limits::REPETITION_PENALTY)?
            .unwrap_or(1.0) as f32,
    })
}

/// `logit_bias`: an object of token ids and numbers.
pub(super) fn logit_bias(fields: &Fields<'_>, tokenizer: &Tokenizer) -> Result<Vec<(TokenId, f32)>, ApiError> {
    let biases = match fields.get("logit_bias") {
        None => return Ok(Vec::new()),
        Some(Value::Object(biases)) => biases,
        Some(other) => return Err(fields.wrong("logit_bias", "an object of token ids and numbers", other)),
    };
    let (found, max) = (biases.len(), limits::LOGIT_BIAS_TOKENS_MAX);
    if found > max {
        return Err(fields.refuse("logit_bias", &format!("has {found} tokens; at most {max} are possible")));
    }
    let bias = |(name, value): (&String, &Value)| {
        let token = name
            .parse::<TokenId>()
            .ok()
            .filter(|token| tokenizer.check_ids(&[*token]).is_ok());
        let token = token.ok_or_else(|| {
            let last = tokenizer.vocabulary_size().saturating_sub(1);
            fields.refuse(
                "logit_bias",
                &format!("has the key {name:?}; keys are token ids from 0 to {last}"),
            )
        })?;
        let (min, max) = (limits::LOGIT_BIAS.start(), limits::LOGIT_BIAS.end());
        match value.as_f64() {
            Some(bias) if limits::LOGIT_BIAS.contains(&bias) => Ok((token, bias as f32)),
            _ => Err(fields.refuse(
                "logit_bias",
                &format!("of token {token} is {value}; it must be a number from {min} to {max}"),
            )),
        }
    };
    biases.iter().map(bias).collect()
}
