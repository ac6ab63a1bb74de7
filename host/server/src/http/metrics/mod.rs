//! `GET /metrics`: what the engine counts, for Prometheus. `catalog` declares every metric, `text` writes the format.

mod catalog;
mod text;

#[cfg(test)]
mod operators;

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokenrouter_engine::ServedStats;
use tokenrouter_engine::stats::ModelStats;

use self::catalog::{
    ENGINE, EngineView, GENERATION, GenerationView, MODEL, ModelView, POLICY, PolicyView, REQUESTS, UNKNOWN_FIELDS,
};
use self::text::Exposition;
use super::App;
use super::openapi::operation;

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) async fn show(State(app): State<Arc<App>>) -> Response {
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], exposition(&app)).into_response()
}

/// Everything that is counted, now.
fn exposition(app: &App) -> String {
    let stats = app.engine.stats();
    let names = app.names();
    let deployment = names.deployment.as_str();
    let mut out = Exposition::default();

    let engine = EngineView {
        running: stats.requests_running,
        waiting: stats.requests_waiting,
        ready: app.engine.ready().is_ok(),
        started_s: app.started_s,
    };
    for metric in ENGINE {
        out.family(metric);
        out.reading(metric, &[("model", deployment)], &(metric.read)(&engine));
    }

    let name = |model: &ModelStats| format!("{deployment}/{}", model.name);
    let members: Arc<[String]> = stats.models.iter().map(name).collect();
    let models: Vec<ModelView> = stats
        .models
        .into_iter()
        .zip(app.engine.model_troubles())
        .map(|(stats, trouble)| ModelView {
            stats,
            is_up: trouble.is_none(),
            kv_tokens: app.engine.limits().kv_tokens,
        })
        .collect();
    for metric in MODEL {
        out.family(metric);
        for (name, model) in members.iter().zip(&models) {
            out.reading(metric, &[("model", name)], &(metric.read)(model));
        }
    }

    let policies = stats.policies.into_iter().map(|stats| PolicyView {
        stats,
        members: members.clone(),
    });
    let policies: Vec<PolicyView> = policies.collect();
    for metric in POLICY {
        out.family(metric);
        for policy in &policies {
            let name = policy.stats.policy.as_deref().unwrap_or(NO_POLICY);
            out.reading(
                metric,
                &[("model", deployment), ("policy", name)],
                &(metric.read)(policy),
            );
        }
    }

    generations(app, deployment, &mut out);

    out.family(&REQUESTS);
    for (key, count) in app.requests.read() {
        let status = key.status.to_string();
        let labels = [("route", key.route), ("method", key.method), ("code", &*status)];
        out.reading(&REQUESTS, &labels, &(REQUESTS.read)(&count));
    }
    out.family(&UNKNOWN_FIELDS);
    for (field, count) in app.unknown_fields.counts() {
        out.reading(&UNKNOWN_FIELDS, &[("field", &*field)], &(UNKNOWN_FIELDS.read)(&count));
    }
    out.finish()
}

fn generations(app: &App, deployment: &str, out: &mut Exposition) {
    let mut overview = app.manager.overview();
    let comparison = overview.comparison.take();
    let view = |stats: &ServedStats| GenerationView {
        role: overview.role(stats),
        shadow: comparison
            .as_ref()
            .filter(|(id, _)| *id == stats.id.0)
            .map(|(_, report)| report.clone()),
        stats: stats.clone(),
    };
    let views: Vec<GenerationView> = overview.live.iter().map(view).collect();
    for metric in GENERATION {
        out.family(metric);
        for view in &views {
            let number = view.stats.id.0.to_string();
            let labels = [
                ("model", deployment),
                ("policy", &view.stats.name),
                ("generation", &number),
            ];
            out.reading(metric, &labels, &(metric.read)(view));
        }
    }
}

/// The label of requests that one model answers alone.
const NO_POLICY: &str = "none";

pub(super) fn show_operation() -> Value {
    operation(
        "Counters, gauges and histograms, for Prometheus",
        "The label `model` is a name that a client may write in `model`: the deployment's for requests, a model's own for \
         what its subserver does.",
        json!({
            "description": "All metrics",
            "content": { "text/plain": { "schema": { "type": "string" } } },
        }),
    )
}
