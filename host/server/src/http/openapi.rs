//! `GET /openapi.json`: the API described, from what every handler says of itself. A new path is a line in `routes`; a new
//! object is a line in [`schemas`].

use axum::Json;
use serde_json::{Map, Value, json};

use super::routes::ROUTES;
use super::{chat, completions, error, health, info, models, timeline};

pub(super) async fn show() -> Json<Value> {
    Json(document())
}

/// Objects that operations refer to as `#/components/schemas/NAME`.
fn schemas() -> Map<String, Value> {
    let mut schemas = Map::new();
    schemas.insert("Error".to_owned(), error::schema());
    schemas.insert("Health".to_owned(), health::schema());
    schemas.insert("Info".to_owned(), info::schema());
    schemas.insert("ModelList".to_owned(), models::schema());
    schemas.insert("Timeline".to_owned(), timeline::schema());
    schemas.extend(completions::schemas());
    schemas.extend(chat::schemas());
    schemas
}

pub(crate) fn document() -> Value {
    let mut paths = Map::new();
    for route in ROUTES {
        paths.entry(route.path).or_insert_with(|| json!({}))[route.method] = with_errors((route.operation)());
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "tokenrouter-host",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Several language models write one answer; a routing policy decides after every token who goes on.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "securitySchemes": {
                "key": { "type": "http", "scheme": "bearer", "description": "Needed if the server was given keys" },
            },
        },
        "security": [{ "key": [] }],
    })
}

/// Any path may answer with an error object.
fn with_errors(mut operation: Value) -> Value {
    if operation["responses"]["default"].is_null() {
        operation["responses"]["default"] = json_response("An error", &json!({ "$ref": "#/components/schemas/Error" }));
    }
    operation
}

/// An operation with a response of status 200.
#[expect(clippy::needless_pass_by_value, reason = "the response is made for this call")]
pub(super) fn operation(summary: &str, description: &str, ok: Value) -> Value {
    json!({ "summary": summary, "description": description, "responses": { "200": ok } })
}

/// A response with a JSON body.
pub(super) fn json_response(description: &str, schema: &Value) -> Value {
    json!({ "description": description, "content": { "application/json": { "schema": schema } } })
}

pub(super) fn show_operation() -> Value {
    operation(
        "This document",
        "OpenAPI 3.1",
        json_response("The document", &json!({ "type": "object" })),
    )
}
