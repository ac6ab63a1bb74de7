//! `GET /info`: what is served, within which bounds, and what has been done so far.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::{Map, Value, json};
use tokenrouter_engine::Served;
use tokenrouter_engine::stats::ModelStats;

use super::openapi::{json_response, operation};
use super::{App, limits as field_limits};
use crate::deployment::{LoadedHead, LoadedModel, LoadedPolicy};

/// All of it as one object.
pub(super) async fn show(State(app): State<Arc<App>>) -> Json<Value> {
    let limits = app.engine.limits();
    let stats = app.engine.stats();
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "deployment": app.names().deployment,
        "started": app.started_s,
        "ready": app.engine.ready().is_ok(),
        "models": app.models.iter().map(model).collect::<Vec<_>>(),
        "heads": app.heads.iter().map(head).collect::<Vec<_>>(),
        "policies": app.engine.traffic().policies.iter().map(|served| policy(served)).collect::<Vec<_>>(),
        "request_options": app.request_options.to_json(),
        "on_failure": app.on_failure,
        "launch": app.launch,
        "optimistic": app.optimistic,
        "prefix_cache": app.prefix_salts.is_on(),
        "limits": {
            "context_max": app.engine.context_max(),
            "requests_running_max": limits.requests_running_max,
            "requests_waiting_max": limits.requests_waiting_max,
            "kv_tokens": limits.kv_tokens,
            "kv_promised_percent": limits.kv_promised_percent,
            "rows_max": limits.step.rows_max,
            "long_tokens_max": limits.step.long_tokens_max,
            "wait_us_max": limits.step.wait_us_max,
            "body_bytes_max": app.body_bytes_max,
            "body_s_max": app.body_time_max.as_secs(),
            "prompts_max": app.prompts_max,
            "fields": field_limits::to_json(),
            "stall_s_max": limits.stall_us_max / 1_000_000,
            "connections_max": app.server.connections_max.get(),
            "header_bytes_max": app.server.header_bytes_max.get(),
            "header_s_max": app.server.header_s_max.get(),
            "write_s_max": app.server.write_s_max.get(),
            "drain_s_max": app.server.drain_s_max.get(),
            "event_silence_s_max": app.server.event_silence_s_max.get(),
        },
        "stats": {
            "requests_running": stats.requests_running,
            "requests_waiting": stats.requests_waiting,
            "unknown_fields": app.unknown_fields.counts(),
            "models": stats.models.iter().map(counters).collect::<Vec<_>>(),
        },
    }))
}

fn model(model: &LoadedModel) -> Value {
    json!({
        "name": model.name,
        "source": model.source,
        "parameters": model.info.parameters,
        "vocabulary": model.info.vocabulary,
        "context_max": model.info.context_max,
        "kv_bytes_per_token": model.info.kv_bytes_per_token,
    })
}

fn head(head: &LoadedHead) -> Value {
    json!({
        "name": head.name,
        "model": head.model,
        "file": head.file,
        "kind": head.header.kind,
        "inputs": head.header.inputs,
        "parameters": head.parameters,
        "trained": head.header.trained,
        "threshold": head.header.threshold,
        "source": head.header.source,
        "sha256": head.digest.to_string(),
    })
}

fn policy(served: &Served) -> Value {
    let policy = LoadedPolicy::of(served.name(), served.generation());
    let values = policy
        .options
        .iter()
        .map(|option| (option.name.clone(), option.value.to_json()));
    let per_request = policy
        .options
        .iter()
        .filter(|option| option.per_request)
        .map(|option| option.name.as_str());
    json!({
        "name": policy.name,
        "generation": served.id().0,
        "version": policy.version,
        "summary": policy.summary,
        "sha256": policy.digest,
        "contract": policy.contract,
        "options": values.collect::<Map<_, _>>(),
        "options_per_request": per_request.collect::<Vec<_>>(),
    })
}

fn counters(stats: &ModelStats) -> Value {
    json!({
        "name": stats.name,
        "steps": stats.steps,
        "rows": stats.rows,
        "tokens_fed": stats.tokens_fed,
        "tokens_written": stats.tokens_written,
        "handoffs_out": stats.handoffs_out,
        "step_us": stats.step_us,
        "policy_faults": stats.policy_faults,
        "policy_instances": stats.policy_instances,
        "kv_evictions": stats.kv_evictions,
        "kv_blocks_used": stats.kv_blocks_used,
        "kv_blocks_retained": stats.kv_blocks_retained,
        "prefix_hits": stats.prefixes.hits,
        "prefix_tokens": stats.prefixes.tokens,
        "prefix_evictions": stats.prefixes.given_up,
        "seats_taken": stats.seats_taken,
        "ahead_tokens": stats.ahead.written,
        "ahead_tokens_dropped": stats.ahead.dropped,
        "settled_positions": stats.ahead.settled,
        "confirmed_positions": stats.ahead.confirmed,
        "settling_steps": stats.ahead.settling_steps,
        "agreement": f64::from(stats.agreement_ppm) / 1e6,
        "restarts": stats.restarts,
        "waiting": stats.waiting,
        "running": stats.running,
    })
}

pub(super) fn show_operation() -> Value {
    let info = json!({ "$ref": "#/components/schemas/Info" });
    operation(
        "What is served, within which bounds, and what has been done so far",
        "",
        json_response("All of it", &info),
    )
}

/// The outline: what the parts hold depends on models and policies.
pub(super) fn schema() -> Value {
    let objects = json!({ "type": "array", "items": { "type": "object" } });
    json!({
        "type": "object",
        "required": ["version", "deployment", "started", "ready", "models", "policies", "launch", "limits", "stats"],
        "properties": {
            "version": { "type": "string" },
            "deployment": { "type": "string" },
            "started": { "type": "integer" },
            "ready": { "type": "boolean" },
            "models": objects,
            "policies": objects,
            "request_options": { "type": "object", "description": "What the operator lets requests set: by option, false or bounds" },
            "on_failure": { "type": "string" },
            "launch": { "type": "string" },
            "optimistic": { "type": "string" },
            "prefix_cache": { "type": "boolean" },
            "limits": { "type": "object" },
            "stats": { "type": "object" },
        },
    })
}
