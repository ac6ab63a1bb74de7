//! Whether the process should live, and whether it should get requests: two different things.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::App;
use super::openapi::{json_response, operation};

/// 200 unless the engine has stopped for good, so that starting the process again is all that helps.
pub(super) async fn live(State(app): State<Arc<App>>) -> Response {
    if let Some(reason) = app.engine.failure() {
        return not("live", &reason);
    }
    Json(json!({ "status": "live" })).into_response()
}

/// 200 while requests are taken and every model has shown signs of life lately. Else 503 with the reason.
pub(super) async fn ready(State(app): State<Arc<App>>) -> Response {
    match app.engine.ready() {
        Ok(()) => Json(json!({ "status": "ready" })).into_response(),
        Err(reason) => not("ready", &reason.to_string()),
    }
}

fn not(what: &str, reason: &str) -> Response {
    let body = json!({ "status": format!("not {what}"), "reason": reason });
    (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
}

pub(super) fn live_operation() -> Value {
    documented(
        "Whether the process should live",
        "503 only when nothing but a new start of the process helps.",
    )
}

pub(super) fn ready_operation() -> Value {
    documented(
        "Whether requests should be sent here",
        "503 with the reason while models load, while the server ends, and while a model stalls or restarts.",
    )
}

fn documented(summary: &str, description: &str) -> Value {
    let schema = json!({ "$ref": "#/components/schemas/Health" });
    let mut operation = operation(summary, description, json_response("Yes", &schema));
    operation["responses"]["503"] = json_response("No, and why", &schema);
    operation["security"] = json!([]);
    operation
}

/// What both answer.
pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "required": ["status"],
        "properties": {
            "status": { "type": "string", "enum": ["live", "ready", "not live", "not ready"] },
            "reason": { "type": "string", "description": "Why not" },
        },
        "additionalProperties": false,
    })
}
