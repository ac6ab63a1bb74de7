//! The fields that say when an answer ends.

use serde_json::Value;
use tokenrouter_core::TokenId;
use tokenrouter_model::text::Tokenizer;

use super::Fields;
use crate::http::{ApiError, limits};

/// What ends an answer short of its length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::http) struct Stopping {
    pub(super) strings: Vec<String>,
    pub(super) tokens: Vec<TokenId>,
    /// Whether the text of what ends the answer is part of it.
    pub(super) include_stop: bool,
    pub(super) ignore_eos: bool,
}

impl Stopping {
    pub(super) fn read(fields: &Fields<'_>, tokenizer: &Tokenizer) -> Result<Self, ApiError> {
        Ok(Self {
            strings: strings(fields)?,
            tokens: tokens(fields, tokenizer)?,
            include_stop: fields.boolean("include_stop_str_in_output")?.unwrap_or(false),
            ignore_eos: fields.boolean("ignore_eos")?.unwrap_or(false),
        })
    }
}

/// `stop`: a string or several.
fn strings(fields: &Fields<'_>) -> Result<Vec<String>, ApiError> {
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
    let (found, max) = (stop.len(), limits::STOP_STRINGS_MAX);
    if found > max {
        return Err(fields.refuse("stop", &format!("has {found} strings; at most {max} are possible")));
    }
    if stop.iter().any(String::is_empty) {
        return Err(fields.refuse("stop", "has an empty string, which would end every answer at once"));
    }
    let (longest, max) = (
        stop.iter().map(String::len).max().unwrap_or(0),
        limits::STOP_STRING_BYTES_MAX,
    );
    if longest > max {
        return Err(fields.refuse(
            "stop",
            &format!("has a string of {longest} bytes; at most {max} are possible"),
        ));
    }
    Ok(stop)
}

/// `stop_token_ids`: token ids of the vocabulary.
fn tokens(fields: &Fields<'_>, tokenizer: &Tokenizer) -> Result<Vec<TokenId>, ApiError> {
    let name = "stop_token_ids";
    let items = match fields.get(name) {
        None => return Ok(Vec::new()),
        Some(Value::Array(items)) => items,
        Some(other) => return Err(fields.wrong(name, "an array of token ids", other)),
    };
    let (found, max) = (items.len(), limits::STOP_TOKENS_MAX);
    if found > max {
        return Err(fields.refuse(name, &format!("has {found} tokens; at most {max} are possible")));
    }
    let last = tokenizer.vocabulary_size().saturating_sub(1);
    let token = |item: &Value| {
        item.as_u64()
            .and_then(|id| TokenId::try_from(id).ok())
            .filter(|id| tokenizer.check_ids(&[*id]).is_ok())
            .ok_or_else(|| fields.wrong(name, &format!("token ids from 0 to {last}"), item))
    };
    items.iter().map(token).collect()
}
