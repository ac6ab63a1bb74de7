//! The field `prompt` in its four forms.

use serde_json::Value;
use tokenrouter_core::TokenId;
use tokenrouter_engine::SubmitError;
use tokenrouter_model::text::Tokenizer;

use super::Fields;
use crate::http::ApiError;

/// A prompt as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Prompt {
    /// To be encoded, with what the model begins a sequence with.
    Text(String),
    /// Fed as they are.
    Tokens(Vec<TokenId>),
}

impl Prompt {
    /// The prompts as they are fed.
    pub(super) fn encode_all(prompts: &[Self], tokenizer: &Tokenizer) -> Result<Vec<Vec<TokenId>>, ApiError> {
        let encode = |(index, prompt): (usize, &Self)| match prompt {
            Self::Tokens(tokens) => Ok(tokens.clone()),
            Self::Text(text) => tokenizer.encode_prompt(text).map_err(|error| ApiError::Submit {
                prompt: (prompts.len() > 1).then_some(index),
                error: SubmitError::Text(error.to_string()),
            }),
        };
        prompts.iter().enumerate().map(encode).collect()
    }

    /// The prompt as text.
    pub(super) fn text(&self, tokenizer: &Tokenizer) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Tokens(tokens) => tokenizer.decode(tokens),
        }
    }
}

/// Reads a string, token ids, a list of strings, or a list of lists of token ids.
pub(super) fn read(fields: &Fields<'_>, prompts_max: usize) -> Result<Vec<Prompt>, ApiError> {
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
