//! Whether the process answers, and whether it takes requests: two different things.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde_json::json;

use super::App;

/// 200 as long as anything answers at all.
pub(super) async fn live() -> impl IntoResponse {
    Json(json!({ "status": "live" }))
}

/// 200 while requests are taken: every model's thread runs and the engine is not ending. Else 503.
pub(super) async fn ready(State(app): State<Arc<App>>) -> impl IntoResponse {
    if app.engine.is_ready() {
        (StatusCode::OK, Json(json!({ "status": "ready" })))
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "status": "not ready" })))
    }
}
