//! Fields of the OpenAI API, and of its common extensions, that this server knows but does not serve. A value that changes
//! nothing is accepted; any other would give another answer than the client asked for, so it is refused.

use serde_json::Value;

use super::Fields;
use crate::http::ApiError;

/// A field, the value that changes nothing in words, and whether a value is that one.
pub(in crate::http) type Known = (&'static str, &'static str, fn(&Value) -> bool);

/// What no endpoint serves.
const NOWHERE: [Known; 11] = [
    ("prompt_logprobs", "null", is_false),
    ("length_penalty", "1", is_one),
    ("skip_special_tokens", "true", is_true),
    ("spaces_between_special_tokens", "true", is_true),
    ("allowed_token_ids", "null", is_empty),
    ("bad_words", "[]", is_empty),
    ("typical_p", "1", is_one),
    ("use_beam_search", "false", is_false),
    ("truncate_prompt_tokens", "null", |_| false),
    ("guided_grammar", "null", is_empty),
    ("structured_outputs", "null", is_empty),
];

/// Refuses the first field that would matter. `also` are the endpoint's own.
pub(super) fn check(fields: &Fields<'_>, also: &[Known]) -> Result<(), ApiError> {
    for (name, neutral, is_neutral) in NOWHERE.iter().chain(also) {
        if fields.get(name).is_some_and(|value| !is_neutral(value)) {
            return Err(ApiError::Unsupported {
                param: (*name).to_owned(),
                neutral,
            });
        }
    }
    Ok(())
}

fn is_one(value: &Value) -> bool {
    value.as_f64() == Some(1.0)
}

fn is_false(value: &Value) -> bool {
    value.as_bool() == Some(false)
}

/// Whether a value is true.
pub(in crate::http) fn is_true(value: &Value) -> bool {
    value.as_bool() == Some(true)
}

/// Whether a value has nothing in it.
pub(in crate::http) fn is_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}
