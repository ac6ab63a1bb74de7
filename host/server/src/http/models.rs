//! `GET /v1/models`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use tokenrouter_engine::{NotReady, Target};

use super::App;
use super::openapi::{json_response, operation};

/// Every name that `model` may have, with whether requests under it can be answered now.
pub(super) async fn list(State(app): State<Arc<App>>) -> Json<Value> {
    let names = app.names();
    let (ready, troubles) = (app.engine.ready(), app.engine.model_troubles());
    let status = |id: &str| match (names.target(id), &ready) {
        // One model alone does not need the others.
        (Ok(Target::Model(model)), Ok(()) | Err(NotReady::Restarting { .. } | NotReady::Stalled { .. })) => {
            status_of(troubles[model.index()].as_ref())
        }
        (_, ready) => status_of(ready.as_ref().err()),
    };
    let model = |id: String| {
        json!({
            "object": "model",
            "created": app.started_s,
            "owned_by": "tokenrouter",
            "max_model_len": app.engine.context_max(),
            "status": status(&id),
            "id": id,
        })
    };
    let data: Vec<Value> = names.all().into_iter().map(model).collect();
    Json(json!({ "object": "list", "data": data }))
}

const STATUSES: [&str; 5] = ["ready", "draining", "stopped", "restarting", "stalled"];

fn status_of(trouble: Option<&NotReady>) -> &'static str {
    let [ready, draining, stopped, restarting, stalled] = STATUSES;
    match trouble {
        None => ready,
        Some(NotReady::Draining) => draining,
        Some(NotReady::Stopped(_)) => stopped,
        Some(NotReady::Restarting { .. }) => restarting,
        Some(NotReady::Stalled { .. }) => stalled,
    }
}

pub(super) fn list_operation() -> Value {
    let list = json!({ "$ref": "#/components/schemas/ModelList" });
    operation(
        "The names that `model` may have",
        "The deployment, `deployment@policy` for each policy, and `deployment/model` for each model alone.",
        json_response("All names", &list),
    )
}

pub(super) fn schema() -> Value {
    let model = json!({
        "type": "object",
        "required": ["id", "object", "created", "owned_by", "max_model_len", "status"],
        "properties": {
            "id": { "type": "string" },
            "object": { "const": "model" },
            "created": { "type": "integer", "description": "When it was loaded, in seconds since 1970" },
            "owned_by": { "type": "string" },
            "max_model_len": { "type": "integer", "description": "Tokens of prompt and answer together" },
            "status": { "type": "string", "enum": STATUSES },
        },
        "additionalProperties": false,
    });
    json!({
        "type": "object",
        "required": ["object", "data"],
        "properties": { "object": { "const": "list" }, "data": { "type": "array", "items": model } },
        "additionalProperties": false,
    })
}
