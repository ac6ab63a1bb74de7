//! `GET /v1/models`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::App;

/// Every name that `model` may have.
pub(super) async fn list(State(app): State<Arc<App>>) -> Json<Value> {
    let model =
        |id: String| json!({ "id": id, "object": "model", "created": app.started_s, "owned_by": "tokenrouter" });
    let data: Vec<Value> = app.names.all().into_iter().map(model).collect();
    Json(json!({ "object": "list", "data": data }))
}
