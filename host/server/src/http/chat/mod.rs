//! `POST /v1/chat/completions`: conversations to be continued.

mod messages;
mod prompt;
mod schema;
mod shape;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use serde_json::Value;

use self::shape::ChatShape;
use super::answer::{self, Asked, Fields, Known, Params, Served, is_empty};
use super::request_id::RequestId;
use super::{ApiError, App, limits};

pub(super) use self::prompt::tokens as prompt_tokens;
pub(super) use self::schema::{conversation as conversation_fields, create_operation, schemas};

/// What is known here and not served.
const KNOWN: [Known; 15] = [
    ("prompt", "null: this is the path for messages", is_empty),
    ("tools", "[]", is_empty),
    ("tool_choice", "\"none\"", |value| value == "none" || value == "auto"),
    ("parallel_tool_calls", "null", |value| value.is_boolean()),
    ("functions", "[]", is_empty),
    ("function_call", "\"none\"", |value| value == "none" || value == "auto"),
    ("modalities", "[\"text\"]", |value| *value == Value::from(vec!["text"])),
    ("audio", "null", is_empty),
    ("web_search_options", "null", |_| false),
    ("verbosity", "null", |_| false),
    ("echo", "false", |value| value == false),
    ("documents", "[]", is_empty),
    ("chat_template", "null: the deployment has it", |_| false),
    ("suffix", "null", is_empty),
    ("guided_whitespace_pattern", "null", |_| false),
];

/// Answers a request.
pub(super) async fn create(
    State(app): State<Arc<App>>,
    Extension(id): Extension<RequestId>,
    request: Request,
) -> Response {
    answer::respond(app, id, request, read).await
}

fn read(served: Served<'_>, fields: &Fields<'_>) -> Result<Asked<ChatShape>, ApiError> {
    let mut params = Params::read(served, fields, 1, &KNOWN)?;
    params.logprobs = logprobs(fields)?;
    Ok(Asked {
        prompts: vec![prompt::tokens(served, fields)?],
        shape: ChatShape::new(served.tokenizer.clone(), params.logprobs.is_some()),
        params,
    })
}

/// `logprobs` and `top_logprobs`: alternatives to tell with each token.
fn logprobs(fields: &Fields<'_>) -> Result<Option<u32>, ApiError> {
    let wanted = fields.boolean("logprobs")?.unwrap_or(false);
    let top = fields.integer("top_logprobs", 0..=limits::LOGPROBS_MAX.into())?;
    match (wanted, top) {
        (false, Some(top)) if top > 0 => Err(fields.refuse("top_logprobs", "needs logprobs; set it to true")),
        (false, _) => Ok(None),
        (true, top) => Ok(Some(top.unwrap_or(0) as u32)),
    }
}
