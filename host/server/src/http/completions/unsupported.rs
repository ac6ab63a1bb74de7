//! Fields of the OpenAI API, and of its common extensions, that this server knows but does not serve. A value that changes
//! nothing is accepted; any other would give another answer than the client asked for, so it is refused.

use serde_json::Value;

use super::fields::Fields;
use crate::http::ApiError;

/// A field, the value that changes nothing in words, and whether a value is that one.
type Known = (&'static str, &'static str, fn(&Value) -> bool);

const KNOWN: [Known; 31] = [
    ("n", "1", is_one),
    ("best_of", "1", is_one),
    ("echo", "false", is_false),
    ("logprobs", "null", is_false),
    ("top_logprobs", "null", is_false),
    ("prompt_logprobs", "null", is_false),
    ("suffix", "null", is_empty),
    ("logit_bias", "{}", is_empty),
    ("presence_penalty", "0", is_zero),
    ("frequency_penalty", "0", is_zero),
    ("repetition_penalty", "1", is_one),
    ("length_penalty", "1", is_one),
    ("min_tokens", "0", is_zero),
    ("ignore_eos", "false", is_false),
    ("stop_token_ids", "[]", is_empty),
    ("include_stop_str_in_output", "false", is_false),
    ("skip_special_tokens", "true", is_true),
    ("add_special_tokens", "true", is_true),
    ("allowed_token_ids", "null", is_empty),
    ("bad_words", "[]", is_empty),
    ("typical_p", "1", is_one),
    ("use_beam_search", "false", is_false),
    ("response_format", "{\"type\": \"text\"}", is_text_format),
    ("guided_json", "null", is_empty),
    ("guided_regex", "null", is_empty),
    ("guided_choice", "null", is_empty),
    ("guided_grammar", "null", is_empty),
    ("tools", "[]", is_empty),
    ("tool_choice", "\"none\"", is_none),
    ("functions", "[]", is_empty),
    ("messages", "null: this is the path for a prompt", is_empty),
];

/// Refuses the first field that would matter.
pub(super) fn check(fields: &Fields<'_>) -> Result<(), ApiError> {
    for (name, neutral, is_neutral) in KNOWN {
        if fields.get(name).is_some_and(|value| !is_neutral(value)) {
            return Err(ApiError::Unsupported {
                param: name.to_owned(),
                neutral,
            });
        }
    }
    Ok(())
}

fn is_one(value: &Value) -> bool {
    value.as_f64() == Some(1.0)
}

fn is_zero(value: &Value) -> bool {
    value.as_f64() == Some(0.0)
}

fn is_false(value: &Value) -> bool {
    value.as_bool() == Some(false)
}

fn is_true(value: &Value) -> bool {
    value.as_bool() == Some(true)
}

fn is_none(value: &Value) -> bool {
    value == "none"
}

fn is_text_format(value: &Value) -> bool {
    value.get("type").is_some_and(|kind| kind == "text")
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}
