//! The admin API described for programs, in OpenAPI 3.1.

use axum::Json;
use serde_json::{Map, Value, json};

use crate::http::{ApiError, kind};

/// A parameter: name, type, and what it means.
type Parameter = (&'static str, &'static str, &'static str);

struct Operation {
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    /// In the query of a PUT, in the JSON body of a POST.
    parameters: &'static [Parameter],
}

/// Methods and paths of the API.
pub(super) fn paths() -> impl Iterator<Item = (&'static str, &'static str)> {
    OPERATIONS.iter().map(|operation| (operation.method, operation.path))
}

/// Checks the types of the fields of a JSON body for `POST /admin/policies/{name}/ACTION`.
///
/// # Errors
/// Names the field, what it is, and what was found.
pub(super) fn check(action: &str, fields: &Map<String, Value>) -> Result<(), ApiError> {
    for (name, wanted, about) in parameters(action) {
        let Some(value) = fields.get(*name).filter(|value| !value.is_null()) else {
            continue;
        };
        let (is_right, wanted) = match *wanted {
            "integer" => {
                let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
                (number.is_some(), "a whole number of at least 0")
            }
            "number" => (value.is_number(), "a number"),
            "boolean" => (value.is_boolean(), "a boolean"),
            "object" => (value.is_object(), "an object"),
            _ => (value.is_string(), "a string"),
        };
        if !is_right {
            return Err(ApiError::Field {
                param: (*name).to_owned(),
                message: format!("{name} must be {wanted}, found {}; it is {about}", kind(value)),
            });
        }
    }
    Ok(())
}

/// The fields of such a body in words.
pub(super) fn names(action: &str) -> String {
    let names: Vec<&str> = parameters(action).iter().map(|(name, _, _)| *name).collect();
    names.join(", ")
}

fn parameters(action: &str) -> &'static [Parameter] {
    let operation = OPERATIONS.iter().find(|it| it.path.rsplit('/').next() == Some(action));
    operation.map_or(&[], |operation| operation.parameters)
}

const GENERATION: Parameter = (
    "generation",
    "integer",
    "which generation of the policy; the newest if absent",
);
const EXPECTED: Parameter = (
    "expected",
    "integer",
    "the default's generation as the client last saw it, 0 for none; 412 if it is another. Also as the header if-match",
);
const SHARE: Parameter = ("share", "number", "share of the requests, 0 to 1; 0 ends the trial");

const OPERATIONS: [Operation; 12] = [
    Operation {
        method: "get",
        path: "/admin/policies",
        summary: "What there is and what serves",
        parameters: &[],
    },
    Operation {
        method: "get",
        path: "/admin/policies/{name}",
        summary: "One policy; its etag is its newest generation",
        parameters: &[],
    },
    Operation {
        method: "put",
        path: "/admin/policies/{name}",
        summary: "Brings a component in: the body is its bytes",
        parameters: &[
            ("activate", "boolean", "let it serve at once; false if absent"),
            (
                "default",
                "boolean",
                "with activate: also for requests that name no policy; true if absent",
            ),
            ("options", "string", "the policy's options, a JSON object"),
            ("sha256", "string", "the component's digest; 422 if another one arrives"),
            (
                "signature",
                "string",
                "a detached ed25519 signature of the component, 128 hexadecimal digits",
            ),
            (
                "expected",
                "integer",
                "the newest generation of this name as the client last saw it, 0 for none; 412 if it is another. Also as the header if-match",
            ),
        ],
    },
    Operation {
        method: "delete",
        path: "/admin/policies/{name}",
        summary: "Takes a policy out that serves nothing it is not asked for",
        parameters: &[],
    },
    Operation {
        method: "post",
        path: "/admin/policies/{name}/activate",
        summary: "Routes new requests by it",
        parameters: &[
            GENERATION,
            ("options", "object", "other options than it has; makes a new generation"),
            (
                "default",
                "boolean",
                "also for requests that name no policy; true if absent",
            ),
            EXPECTED,
        ],
    },
    Operation {
        method: "post",
        path: "/admin/policies/{name}/canary",
        summary: "Routes a share of the default's new requests by it",
        parameters: &[SHARE, GENERATION, EXPECTED],
    },
    Operation {
        method: "post",
        path: "/admin/policies/{name}/shadow",
        summary: "Lets it watch a share of the default's requests",
        parameters: &[SHARE, GENERATION, EXPECTED],
    },
    Operation {
        method: "post",
        path: "/admin/policies/{name}/rollback",
        summary: "Goes back to what served before it, or to a given generation",
        parameters: &[
            ("generation", "integer", "where to; the one before if absent"),
            EXPECTED,
        ],
    },
    Operation {
        method: "get",
        path: "/admin/generations",
        summary: "The generations that are loaded, with their requests and faults",
        parameters: &[],
    },
    Operation {
        method: "get",
        path: "/admin/subservers",
        summary: "The models' threads, with their counters",
        parameters: &[],
    },
    Operation {
        method: "post",
        path: "/admin/drain",
        summary: "Takes no more requests; those that run go on",
        parameters: &[],
    },
    Operation {
        method: "get",
        path: "/admin/openapi.json",
        summary: "This document",
        parameters: &[],
    },
];

/// `GET /admin/openapi.json`
pub(super) async fn show() -> Json<Value> {
    Json(document())
}

pub(crate) fn document() -> Value {
    let mut paths = Map::new();
    for operation in &OPERATIONS {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = describe(operation);
    }
    let error = json!({
        "type": "object",
        "required": ["message", "type", "code"],
        "properties": {
            "message": { "type": "string" }, "type": { "type": "string" },
            "param": { "type": ["string", "null"] }, "code": { "type": ["string", "null"] },
        },
    });
    json!({
        "openapi": "3.1.0",
        "info": { "title": "tokenrouter-host admin API", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "security": [{ "key": [] }],
        "components": {
            "securitySchemes": { "key": { "type": "http", "scheme": "bearer" } },
            "schemas": { "Error": { "type": "object", "required": ["error"], "properties": { "error": error } } },
        },
    })
}

fn describe(operation: &Operation) -> Value {
    let schema = |(name, kind, about): &Parameter| (*name, json!({ "type": kind, "description": about }));
    let mut parameters = Vec::new();
    if operation.path.contains("{name}") {
        parameters.push(json!({ "name": "name", "in": "path", "required": true, "schema": { "type": "string" } }));
    }
    let mut described = json!({ "summary": operation.summary });
    match operation.method {
        "put" => {
            for (name, kind, about) in operation.parameters {
                parameters
                    .push(json!({ "name": name, "in": "query", "description": about, "schema": { "type": kind } }));
            }
            described["requestBody"] = json!({ "required": true, "content": { "application/wasm": {} } });
        }
        "post" if !operation.parameters.is_empty() => {
            let properties: Map<_, _> = operation
                .parameters
                .iter()
                .map(schema)
                .map(|(name, it)| (name.to_owned(), it))
                .collect();
            let body = json!({ "type": "object", "additionalProperties": false, "properties": properties });
            described["requestBody"] = json!({ "content": { "application/json": { "schema": body } } });
        }
        _ => {}
    }
    described["parameters"] = parameters.into();
    let error = json!({ "description": "refused; what serves is untouched", "content": {
        "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } } });
    described["responses"] = json!({ "2XX": { "description": "done" }, "default": error });
    described
}
