//! `GET /timeline`: the last steps of every model, to see batches and waits. Reads what the subservers' threads have written; none
//! of them notices.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Query, State};
use serde::Deserialize;
use serde_json::{Value, json};
use tokenrouter_core::ModelIndex;
use tokenrouter_engine::{STEPS_KEPT, StepRecord};

use super::openapi::{json_response, operation};
use super::{ApiError, App};

/// Steps of each model in one response, unless the request says otherwise.
const STEPS: usize = 512;

/// The query, as text: numbers are read here, so that a wrong one is told as every wrong field is.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TimelineQuery {
    after: Option<String>,
    steps: Option<String>,
}

pub(super) async fn show(
    State(app): State<Arc<App>>,
    Query(query): Query<TimelineQuery>,
) -> Result<Json<Value>, ApiError> {
    let after = after(query.after.as_deref(), app.models.len())?;
    let steps_max = steps_max(query.steps.as_deref())?;
    // The clock first: no step of the response ends later than its time says.
    let stats = app.engine.stats();
    let models = app.models.iter().zip(&stats.models).zip(after).zip(0..);
    let models = models.map(|(((model, stats), after), index)| {
        let steps = app.engine.steps(ModelIndex(index), after, steps_max);
        let column = |of: fn(&StepRecord) -> u64| steps.iter().map(of).collect::<Vec<_>>();
        json!({
            "name": model.name,
            "waiting": stats.waiting,
            "running": stats.running,
            "pending": stats.seats_taken.saturating_sub(u64::from(stats.waiting) + u64::from(stats.running)),
            "steps": {
                "number": column(|step| step.number),
                "started_us": column(|step| step.started_us),
                "took_us": column(|step| step.took_us),
                "rows": column(|step| step.rows),
                "tokens": column(|step| step.tokens),
                "wait_us_max": column(|step| step.wait_us_max),
                "left_waiting": column(|step| step.left_waiting),
            },
        })
    });
    let models: Vec<Value> = models.collect();
    Ok(Json(json!({
        "now_us": app.engine.now_us(),
        "launch": app.launch,
        "requests_running": stats.requests_running,
        "requests_waiting": stats.requests_waiting,
        "models": models,
    })))
}

/// The number of the last step that the client has, of each model.
fn after(text: Option<&str>, models: usize) -> Result<Vec<u64>, ApiError> {
    let Some(text) = text else {
        return Ok(vec![0; models]);
    };
    let numbers: Result<Vec<u64>, _> = text.split(',').map(str::parse).collect();
    match numbers {
        Ok(numbers) if numbers.len() == models => Ok(numbers),
        _ => Err(ApiError::field(
            "after",
            format!(
                "after must be {models} whole numbers with commas between them, the last step seen of each model; found \"{text}\""
            ),
        )),
    }
}

fn steps_max(text: Option<&str>) -> Result<usize, ApiError> {
    let Some(text) = text else { return Ok(STEPS) };
    match text.parse() {
        Ok(steps @ 1..=STEPS_KEPT) => Ok(steps),
        _ => Err(ApiError::field(
            "steps",
            format!("steps must be a whole number from 1 to {STEPS_KEPT}, found \"{text}\""),
        )),
    }
}

pub(super) fn show_operation() -> Value {
    let timeline = json!({ "$ref": "#/components/schemas/Timeline" });
    let parameter = |name: &str, description: &str| json!({ "name": name, "in": "query", "required": false, "description": description, "schema": { "type": "string" } });
    let mut operation = operation(
        "The last steps of every model: when, how many rows, how long they had waited",
        "To follow a running server, ask again with the numbers of the last steps that were seen.",
        json_response("Steps in columns, oldest first", &timeline),
    );
    operation["parameters"] = json!([
        parameter(
            "after",
            "Only steps after these numbers: one for each model, with commas between them"
        ),
        parameter("steps", "The newest so many of each model; 512 if left out"),
    ]);
    operation
}

pub(super) fn schema() -> Value {
    let count = json!({ "type": "integer" });
    let column =
        |description: &str| json!({ "type": "array", "items": { "type": "integer" }, "description": description });
    let steps = json!({
        "number": column("Counts the model's steps"),
        "started_us": column("Launch, on the clock of now_us"),
        "took_us": column("Duration, policy included"),
        "rows": column("Requests in the step"),
        "tokens": column("Tokens fed, prompts included"),
        "wait_us_max": column("How long the request that waited longest had waited at the launch"),
        "left_waiting": column("Requests that were left behind"),
    });
    let names: Vec<&String> = steps.as_object().map_or_else(Vec::new, |steps| steps.keys().collect());
    json!({
        "type": "object",
        "required": ["now_us", "launch", "requests_running", "requests_waiting", "models"],
        "properties": {
            "now_us": { "type": "integer", "description": "Microseconds since the engine was started" },
            "launch": { "type": "string", "description": "The launch rule" },
            "requests_running": count,
            "requests_waiting": count,
            "models": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["name", "waiting", "running", "pending", "steps"],
                    "properties": {
                        "name": { "type": "string" },
                        "waiting": count,
                        "running": count,
                        "pending": { "type": "integer", "description": "Away at another model, with their KV kept" },
                        "steps": { "type": "object", "required": names, "properties": steps, "additionalProperties": false },
                    },
                    "additionalProperties": false,
                },
            },
        },
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_query_is_told_with_what_would_be_right() {
        assert_eq!(after(None, 2), Ok(vec![0, 0]));
        assert_eq!(after(Some("7,0"), 2), Ok(vec![7, 0]));
        for wrong in ["", "7", "7,", "7,x", "1,2,3", "-1,0"] {
            let error = after(Some(wrong), 2).unwrap_err();
            assert!(error.to_string().contains("2 whole numbers"), "{wrong}: {error}");
        }
        assert_eq!((steps_max(None), steps_max(Some("2048"))), (Ok(STEPS), Ok(STEPS_KEPT)));
        for wrong in ["", "0", "2049", "many"] {
            assert!(steps_max(Some(wrong)).is_err(), "{wrong}");
        }
    }
}
