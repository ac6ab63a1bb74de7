//! `POST /v1/chat/completions` described: its body, its answer, and an object of its stream.

use serde_json::{Map, Value, json};

use crate::http::answer::schema::{answer, answering, request};
use crate::http::limits;

pub(in crate::http) fn create_operation() -> Value {
    answering("Continue a conversation", "ChatRequest", "ChatCompletion")
}

/// The objects that the operation names.
pub(in crate::http) fn schemas() -> Map<String, Value> {
    let mut own = conversation();
    own["logprobs"] = json!({ "type": ["boolean", "null"], "default": false });
    own["top_logprobs"] = json!({ "type": ["integer", "null"], "minimum": 0, "maximum": limits::LOGPROBS_MAX });
    let text = || json!({ "type": "string" });
    let alternative = |more: Value| {
        let bytes = json!({ "type": "array", "items": { "type": "integer" } });
        let mut properties = json!({ "token": text(), "logprob": { "type": "number" }, "bytes": bytes });
        if let (Value::Object(properties), Value::Object(more)) = (&mut properties, more) {
            properties.extend(more);
        }
        json!({ "type": "object", "required": ["token", "logprob", "bytes"], "properties": properties })
    };
    let top = json!({ "type": "array", "items": alternative(json!({})) });
    let body = json!({
        "message": {
            "type": "object",
            "description": "The whole answer",
            "properties": { "role": text(), "content": text(), "refusal": { "type": "null" } },
        },
        "delta": {
            "type": "object",
            "description": "In a stream: more of the answer",
            "properties": { "role": text(), "content": text() },
        },
        "logprobs": {
            "type": ["object", "null"],
            "properties": { "content": { "type": "array", "items": alternative(json!({ "top_logprobs": top })) } },
        },
    });
    let mut schemas = Map::new();
    schemas.insert("ChatRequest".to_owned(), request(&["messages"], own));
    schemas.insert(
        "ChatCompletion".to_owned(),
        answer(&["chat.completion", "chat.completion.chunk"], body),
    );
    schemas
}

/// The fields that a conversation is read from.
pub(in crate::http) fn conversation() -> Value {
    let flag = |description: &str| json!({ "type": ["boolean", "null"], "description": description });
    json!({
        "messages": {
            "type": "array",
            "minItems": 1,
            "maxItems": limits::MESSAGES_MAX,
            "items": { "type": "object", "required": ["role"], "properties": {
                "role": { "enum": ["system", "developer", "user", "assistant", "tool"] },
                "content": { "description": "A text, or parts of type `text`; null only from an assistant" },
            } },
        },
        "add_generation_prompt": flag("The prompt ends with the beginning of the assistant's message"),
        "continue_final_message": flag("The prompt ends within the last message"),
        "add_special_tokens": flag("The model's first token is put in front if it is not there"),
        "chat_template_kwargs": { "type": ["object", "null"], "description": "Variables for the chat template" },
        "reasoning_effort": { "type": ["string", "null"], "description": "The template's variable of that name" },
    })
}
