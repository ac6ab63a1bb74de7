//! Every path of the API: who answers it, and how it is described. The router and the OpenAPI document are both made of this
//! table, so neither can know a path that the other does not.

use std::sync::Arc;

use axum::extract::Request;
use axum::routing::{MethodRouter, get, post};
use serde_json::Value;

use super::{ApiError, App, chat, completions, health, info, metrics, models, openapi, page, timeline, tokenize};

/// One path with one method.
pub(super) struct Route {
    pub(super) path: &'static str,
    /// As OpenAPI writes it: in lower case.
    pub(super) method: &'static str,
    pub(super) handler: fn() -> MethodRouter<Arc<App>>,
    /// Its OpenAPI operation, written beside the handler.
    pub(super) operation: fn() -> Value,
}

const fn route(
    method: &'static str,
    path: &'static str,
    handler: fn() -> MethodRouter<Arc<App>>,
    operation: fn() -> Value,
) -> Route {
    Route {
        path,
        method,
        handler,
        operation,
    }
}

/// The error for a request whose path is in a table of methods and paths, with another method.
pub(crate) fn wrong_method<'a>(request: &Request, table: impl Iterator<Item = (&'a str, &'a str)>) -> ApiError {
    let path = request.uri().path();
    // A part in braces stands for any.
    let is_of = |template: &str| {
        let (parts, of_path) = (template.split('/'), path.split('/'));
        parts.clone().count() == of_path.clone().count()
            && parts
                .zip(of_path)
                .all(|(part, of_path)| part == of_path || part.starts_with('{'))
    };
    ApiError::WrongMethod {
        method: request.method().to_string(),
        path: path.to_owned(),
        takes: table
            .filter(|(_, template)| is_of(template))
            .map(|(method, _)| method.to_uppercase())
            .collect(),
    }
}

pub(super) const ROUTES: &[Route] = &[
    route(
        "post",
        "/v1/completions",
        || post(completions::create),
        completions::create_operation,
    ),
    route(
        "post",
        "/v1/chat/completions",
        || post(chat::create),
        chat::create_operation,
    ),
    route(
        "post",
        "/tokenize",
        || post(tokenize::tokenize),
        tokenize::tokenize_operation,
    ),
    route(
        "post",
        "/detokenize",
        || post(tokenize::detokenize),
        tokenize::detokenize_operation,
    ),
    route("get", "/v1/models", || get(models::list), models::list_operation),
    route("get", "/health", || get(health::ready), health::ready_operation),
    route("get", "/health/live", || get(health::live), health::live_operation),
    route("get", "/health/ready", || get(health::ready), health::ready_operation),
    route("get", "/info", || get(info::show), info::show_operation),
    route("get", "/metrics", || get(metrics::show), metrics::show_operation),
    route("get", "/timeline", || get(timeline::show), timeline::show_operation),
    route("get", "/", || get(page::answers), page::answers_operation),
    route("get", "/app.js", || get(page::script), page::script_operation),
    route("get", "/style.css", || get(page::style), page::style_operation),
    route("get", "/openapi.json", || get(openapi::show), openapi::show_operation),
];
