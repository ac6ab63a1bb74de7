//! What the engine is doing, and its end.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use serde_json::{Value, json};
use tokenrouter_engine::stats::ModelStats;

use super::access::Who;
use super::{AdminApp, view};

/// `GET /admin/generations`
pub(super) async fn generations(State(admin): State<Arc<AdminApp>>) -> Json<Value> {
    Json(view::generations(&admin.app.manager.overview()))
}

/// `GET /admin/subservers`
pub(super) async fn subservers(State(admin): State<Arc<AdminApp>>) -> Json<Value> {
    let stats = admin.app.engine.stats();
    Json(json!({
        "ready": admin.app.engine.ready().is_ok(),
        "requests_running": stats.requests_running,
        "requests_waiting": stats.requests_waiting,
        "subservers": stats.models.iter().map(subserver).collect::<Vec<_>>(),
    }))
}

fn subserver(stats: &ModelStats) -> Value {
    json!({
        "model": stats.name,
        "waiting": stats.waiting,
        "running": stats.running,
        "seats_taken": stats.seats_taken,
        "kv_blocks_used": stats.kv_blocks_used,
        "steps": stats.steps,
        "step_us": stats.step_us,
        "policy_instances": stats.policy_instances,
        "policy_faults": stats.policy_faults,
    })
}

/// `POST /admin/drain`: no more requests are taken; those that run or wait go on. There is no way back but a restart.
pub(super) async fn drain(State(admin): State<Arc<AdminApp>>, Extension(Who(who)): Extension<Who>) -> Response {
    admin.app.engine.close();
    admin.app.manager.note_drain(&who);
    let stats = admin.app.engine.stats();
    let left = json!({ "requests_running": stats.requests_running, "requests_waiting": stats.requests_waiting });
    (StatusCode::ACCEPTED, Json(left)).into_response()
}
