//! `POST /tokenize` and `POST /detokenize`, in vLLM's shapes.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};
use tokenrouter_core::TokenId;

use super::answer::{Fields, Served, parse};
use super::openapi::{json_response, operation};
use super::{ApiError, App, body, chat};

/// The tokens of a `prompt`, or of `messages` as the chat template writes them.
pub(super) async fn tokenize(State(app): State<Arc<App>>, request: Request) -> Response {
    respond(app, request, |served, fields| {
        let prompt = fields.get("prompt");
        let tokens = match (prompt, fields.get("messages")) {
            (Some(_), Some(_)) => return Err(fields.refuse("prompt", "cannot be combined with messages")),
            (None, None) => return Err(fields.refuse("prompt", "is missing; it is a string; or give messages")),
            (None, Some(_)) => chat::prompt_tokens(served, fields)?,
            (Some(Value::String(text)), None) => prompt_tokens(served, fields, text)?,
            (Some(other), None) => return Err(fields.wrong("prompt", "a string", other)),
        };
        let strings = fields.boolean("return_token_strs")?.unwrap_or(false);
        let text = |&token: &TokenId| served.tokenizer.token_text(token);
        Ok(json!({
            "count": tokens.len(),
            "max_model_len": served.length_max,
            "tokens": tokens,
            "token_strs": strings.then(|| tokens.iter().map(text).collect::<Vec<_>>()),
        }))
    })
    .await
}

/// The text of `tokens`, special ones by their names.
pub(super) async fn detokenize(State(app): State<Arc<App>>, request: Request) -> Response {
    respond(app, request, |served, fields| {
        let expected = "an array of token ids";
        let items = match fields.get("tokens") {
            None => return Err(fields.refuse("tokens", "is missing; it is an array of token ids")),
            Some(Value::Array(items)) => items,
            Some(other) => return Err(fields.wrong("tokens", expected, other)),
        };
        let token = |item: &Value| {
            let id = item.as_u64().and_then(|id| TokenId::try_from(id).ok());
            id.ok_or_else(|| fields.wrong("tokens", expected, item))
        };
        let tokens: Vec<TokenId> = items.iter().map(token).collect::<Result<_, _>>()?;
        served
            .tokenizer
            .check_ids(&tokens)
            .map_err(|error| fields.refuse("tokens", &format!("cannot be read: {error}")))?;
        Ok(json!({ "prompt": served.tokenizer.decode_with_special(&tokens) }))
    })
    .await
}

pub(super) fn tokenize_operation() -> Value {
    let mut fields = chat::conversation_fields();
    fields["prompt"] = json!({ "type": ["string", "null"], "description": "In place of messages" });
    fields["return_token_strs"] = json!({ "type": ["boolean", "null"], "default": false });
    fields["model"] = json!({ "type": ["string", "null"] });
    let found = json!({ "type": "object", "required": ["count", "max_model_len", "tokens", "token_strs"], "properties": {
        "count": { "type": "integer" },
        "max_model_len": { "type": "integer" },
        "tokens": { "type": "array", "items": { "type": "integer" } },
        "token_strs": { "type": ["array", "null"], "items": { "type": "string" } },
    } });
    let ok = json_response("The tokens", &found);
    taking(
        operation(
            "Turn a text or a conversation into tokens",
            "As prompts are encoded",
            ok,
        ),
        &fields,
    )
}

pub(super) fn detokenize_operation() -> Value {
    let fields = json!({
        "model": { "type": ["string", "null"] },
        "tokens": { "type": "array", "items": { "type": "integer", "minimum": 0 } },
    });
    let found = json!({ "type": "object", "required": ["prompt"], "properties": { "prompt": { "type": "string" } } });
    let ok = json_response("The text", &found);
    taking(
        operation("Turn tokens into text", "Special tokens stand by their names", ok),
        &fields,
    )
}

/// An operation with a JSON body of these fields.
fn taking(mut operation: Value, fields: &Value) -> Value {
    let schema = json!({ "type": "object", "properties": fields });
    operation["requestBody"] = json!({ "required": true, "content": { "application/json": { "schema": schema } } });
    operation
}

/// With `add_special_tokens`, the default, as a completion's prompt is encoded.
fn prompt_tokens(served: Served<'_>, fields: &Fields<'_>, text: &str) -> Result<Vec<TokenId>, ApiError> {
    let tokens = match fields.boolean("add_special_tokens")?.unwrap_or(true) {
        true => served.tokenizer.encode_prompt(text),
        false => served.tokenizer.encode(text),
    };
    tokens.map_err(|error| ApiError::field("prompt", error.to_string()))
}

/// Long texts take milliseconds, which the threads that serve connections don't have.
async fn respond(
    app: Arc<App>,
    request: Request,
    answer: fn(Served<'_>, &Fields<'_>) -> Result<Value, ApiError>,
) -> Response {
    let body = match body::read(&app, request).await {
        Ok(body) => body,
        Err(error) => return error.into_response(),
    };
    let work = move || {
        let body = parse(&body)?;
        let fields = Fields::of_body(&body)?;
        let names = app.names();
        let served = Served::of(&app, &names);
        if let Some(model) = fields.text("model")? {
            served.names.target(model)?;
        }
        answer(served, &fields)
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(value)) => Json(value).into_response(),
        Ok(Err(error)) => error.into_response(),
        Err(error) => {
            tracing::error!(%error, "tokenising panicked");
            ApiError::Failed("the server failed on this request".to_owned()).into_response()
        }
    }
}
