//! What all endpoints that give answers have in common, described for `/openapi.json`.

use std::ops::RangeInclusive;

use serde_json::{Map, Value, json};

use crate::http::limits;
use crate::http::openapi::{json_response, operation};

/// The operation of an endpoint whose request and answer are these schemas.
pub(in crate::http) fn answering(summary: &str, request: &str, answer: &str) -> Value {
    let schema = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let mut ok = json_response(
        "The answers; with `stream` events whose data is an object each, then `[DONE]`",
        &schema(answer),
    );
    ok["content"]["text/event-stream"] = json!({ "schema": schema(answer) });
    let mut operation = operation(
        summary,
        "A field that is null counts as left out. Fields of OpenAI's API that this server knows and does not serve are refused \
         by name when their value matters; fields that it does not know are counted.",
        ok,
    );
    let content = json!({ "application/json": { "schema": schema(request) } });
    operation["requestBody"] = json!({ "required": true, "content": content });
    operation
}

/// A request of the shared fields and the endpoint's own.
pub(in crate::http) fn request(required: &[&str], own: Value) -> Value {
    let mut properties = shared_fields();
    if let Value::Object(own) = own {
        properties.extend(own);
    }
    json!({ "type": "object", "required": required, "properties": properties })
}

/// The fields that `Params` reads.
fn shared_fields() -> Map<String, Value> {
    let number = |range: RangeInclusive<f64>, default: f64| json!({ "type": ["number", "null"], "minimum": range.start(), "maximum": range.end(), "default": default });
    let count = |min: u32| json!({ "type": ["integer", "null"], "minimum": min });
    let flag = || json!({ "type": ["boolean", "null"], "default": false });
    let fields = json!({
        "model": { "type": ["string", "null"], "description": "A name of /v1/models; the deployment if left out" },
        "max_tokens": count(0),
        "max_completion_tokens": count(0),
        "min_tokens": count(0),
        "temperature": number(limits::TEMPERATURE, 1.0),
        "top_p": number(limits::PROBABILITY, 1.0),
        "min_p": number(limits::PROBABILITY, 0.0),
        "top_k": { "type": ["integer", "null"], "minimum": -1, "default": 0, "description": "0 and -1: all" },
        "presence_penalty": number(limits::PENALTY, 0.0),
        "frequency_penalty": number(limits::PENALTY, 0.0),
        "repetition_penalty": number(limits::REPETITION_PENALTY, 1.0),
        "logit_bias": {
            "type": ["object", "null"],
            "description": "By token id",
            "additionalProperties": {
                "type": "number", "minimum": limits::LOGIT_BIAS.start(), "maximum": limits::LOGIT_BIAS.end(),
            },
        },
        "seed": { "type": ["integer", "null"], "description": "The same seed gives the same answer" },
        "n": { "type": ["integer", "null"], "minimum": 1, "default": 1, "description": "Answers to each prompt" },
        "best_of": { "type": ["integer", "null"], "description": "Must be n" },
        "stop": {
            "anyOf": [
                { "type": ["string", "null"] },
                { "type": "array", "items": { "type": "string" }, "maxItems": limits::STOP_STRINGS_MAX },
            ],
        },
        "stop_token_ids": {
            "type": ["array", "null"], "items": { "type": "integer" }, "maxItems": limits::STOP_TOKENS_MAX,
        },
        "include_stop_str_in_output": flag(),
        "ignore_eos": flag(),
        "return_token_ids": flag(),
        "user": { "type": ["string", "null"] },
        "cache_salt": {
            "type": ["string", "null"], "minLength": 1, "maxLength": limits::CACHE_SALT_BYTES_MAX,
            "description": "Shares prefixes only with requests of the same key and the same salt",
        },
        "stream": flag(),
        "stream_options": {
            "type": ["object", "null"],
            "properties": { "include_usage": flag(), "continuous_usage_stats": flag() },
        },
        "tokenrouter": {
            "type": ["object", "null"],
            "properties": {
                "options": { "type": ["object", "null"], "description": "Of the policy, for this request; /info lists them" },
                "attribution": flag(),
                "steps": flag(),
                "prefix_cache": {
                    "type": ["boolean", "null"], "default": true,
                    "description": "false: computes the whole prompt, and leaves nothing for other requests",
                },
                "assumed": {
                    "type": ["boolean", "null"],
                    "default": false,
                    "description": "Of a stream: show what is written ahead before it is settled (`choices[].assumed`)",
                },
            },
            "additionalProperties": false,
        },
    });
    let both = [fields, format_fields()].into_iter();
    both.filter_map(|fields| match fields {
        Value::Object(fields) => Some(fields),
        _ => None,
    })
    .flatten()
    .collect()
}

/// Those that say what an answer may look like.
fn format_fields() -> Value {
    json!({
        "response_format": {
            "type": ["object", "null"],
            "required": ["type"],
            "properties": {
                "type": { "enum": ["text", "json_object", "json_schema"] },
                "json_schema": {
                    "type": ["object", "null"],
                    "required": ["name", "schema"],
                    "properties": { "name": { "type": "string" }, "schema": { "type": "object" }, "strict": { "type": ["boolean", "null"] } },
                },
            },
        },
        "guided_json": { "description": "A JSON Schema, or its text" },
        "guided_regex": { "type": ["string", "null"] },
        "guided_choice": { "type": ["array", "null"], "items": { "type": "string" } },
    })
}

/// A whole answer or an object of a stream. `body` are the fields that a choice has of its endpoint.
pub(in crate::http) fn answer(object: &[&str], body: Value) -> Value {
    let ids = json!({ "type": "array", "items": { "type": "integer" } });
    let step = json!({
        "type": "object",
        "required": ["model", "id", "token", "signals", "to", "committed"],
        "properties": {
            "model": { "type": "string", "description": "Who wrote the candidate" },
            "id": { "type": "integer" },
            "token": { "type": "string" },
            "signals": { "type": "object", "description": "What the policy saw: a number by name, a list for top-k ones, null for what is no number" },
            "to": { "type": "string", "description": "Who was to go on" },
            "committed": { "type": "boolean" },
        },
        "additionalProperties": false,
    });
    let attributed = json!({
        "type": "object",
        "required": ["id", "token", "bytes", "model", "after_handoff"],
        "properties": {
            "id": { "type": "integer" },
            "token": { "type": "string" },
            "bytes": ids,
            "model": { "type": "string", "description": "Who wrote it" },
            "after_handoff": { "type": "boolean" },
            "steps": { "type": "array", "items": step, "description": "With `steps`: those since the token before it; the last wrote it" },
        },
        "additionalProperties": false,
    });
    let assumed = json!({
        "type": "object",
        "description": "With `assumed`, what is written ahead behind this chunk and not settled, for display only; it replaces what the \
                        chunk before said, and without it nothing is assumed",
        "required": ["text", "tokens"],
        "properties": {
            "text": { "type": "string", "description": "What would follow the text sent so far, if all of it came true" },
            "tokens": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["id", "token", "bytes", "model", "asked"],
                    "properties": {
                        "id": { "type": "integer" },
                        "token": { "type": "string" },
                        "bytes": ids,
                        "model": { "type": "string", "description": "Who wrote it ahead" },
                        "asked": { "type": ["string", "null"], "description": "Who is asked about it and writes it if both agree; null: it is the writer's own" },
                    },
                    "additionalProperties": false,
                },
            },
        },
        "additionalProperties": false,
    });
    let moved = json!({
        "type": "object",
        "required": ["position", "from", "to"],
        "properties": {
            "position": { "type": "integer", "description": "Tokens that the answer had" },
            "from": { "type": "string" },
            "to": { "type": "string" },
        },
        "additionalProperties": false,
    });
    let mut choice = json!({
        "index": { "type": "integer" },
        "finish_reason": { "type": ["string", "null"], "description": "null in all objects of a stream but the last" },
        "stop_reason": { "type": ["string", "integer", "null"], "description": "What ended the answer" },
        "seed": { "type": "integer", "description": "With this seed and the same fields the answer comes again" },
        "prompt_token_ids": ids,
        "token_ids": ids,
        "attribution": { "type": "array", "items": attributed },
        "assumed": assumed,
        "handoffs": { "type": "array", "items": moved },
    });
    if let (Value::Object(choice), Value::Object(body)) = (&mut choice, body) {
        choice.extend(body);
    }
    let choice = json!({
        "type": "object",
        "required": ["index", "finish_reason", "seed"],
        "properties": choice,
        "additionalProperties": false,
    });
    json!({
        "type": "object",
        "required": ["id", "object", "created", "model", "choices"],
        "properties": {
            "id": { "type": "string" },
            "object": { "enum": object },
            "created": { "type": "integer" },
            "model": { "type": "string" },
            "choices": { "type": "array", "items": choice },
            "usage": usage(),
        },
        "additionalProperties": false,
    })
}

fn usage() -> Value {
    json!({
        "type": ["object", "null"],
        "required": ["prompt_tokens", "completion_tokens", "total_tokens", "tokenrouter"],
        "properties": {
            "prompt_tokens": { "type": "integer" },
            "completion_tokens": { "type": "integer" },
            "total_tokens": { "type": "integer" },
            "prompt_tokens_details": {
                "type": "object",
                "description": "Once the answers have ended",
                "required": ["cached_tokens"],
                "properties": {
                    "cached_tokens": {
                        "type": "integer",
                        "description": "Of the prompts, what the model that an answer started at held for other requests; of several answers to a prompt, the first counts",
                    },
                },
                "additionalProperties": false,
            },
            "tokenrouter": {
                "type": "object",
                "required": ["tokens_by_model", "handoffs"],
                "properties": {
                    "tokens_by_model": { "type": "object", "additionalProperties": { "type": "integer" } },
                    "handoffs": { "type": "integer" },
                    "cached_tokens_by_model": { "type": "object", "additionalProperties": { "type": "integer" } },
                },
                "additionalProperties": false,
            },
        },
        "additionalProperties": false,
    })
}
