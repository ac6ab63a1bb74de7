//! `POST /v1/completions` described: its body, its answer, and an object of its stream.

use serde_json::{Map, Value, json};

use crate::http::answer::schema::{answer, answering, request};
use crate::http::limits;

pub(in crate::http) fn create_operation() -> Value {
    answering("Complete one or several prompts", "CompletionRequest", "Completion")
}

/// The objects that the operation names.
pub(in crate::http) fn schemas() -> Map<String, Value> {
    let tokens = json!({ "type": "array", "items": { "type": "integer" } });
    let own = json!({
        "prompt": {
            "description": "A text, token ids, or several of these",
            "anyOf": [
                { "type": "string" },
                tokens,
                { "type": "array", "items": { "anyOf": [{ "type": "string" }, tokens] } },
            ],
        },
        "echo": { "type": ["boolean", "null"], "default": false, "description": "Answers begin with their prompts" },
        "logprobs": { "type": ["integer", "null"], "minimum": 0, "maximum": limits::LOGPROBS_MAX },
    });
    let numbers = |kind: &str| json!({ "type": "array", "items": { "type": kind } });
    let logprobs = json!({
        "type": ["object", "null"],
        "required": ["tokens", "token_logprobs", "top_logprobs", "text_offset"],
        "properties": {
            "tokens": numbers("string"),
            "token_logprobs": numbers("number"),
            "top_logprobs": { "type": "array", "items": { "type": "object", "additionalProperties": { "type": "number" } } },
            "text_offset": numbers("integer"),
        },
        "additionalProperties": false,
    });
    let body = json!({ "text": { "type": "string" }, "logprobs": logprobs });
    let mut schemas = Map::new();
    schemas.insert("CompletionRequest".to_owned(), request(&["prompt"], own));
    schemas.insert("Completion".to_owned(), answer(&["text_completion"], body));
    schemas
}
