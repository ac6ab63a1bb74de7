//! The OpenAI-compatible API over one engine. `routes` has all paths.

mod access;
mod answer;
mod app;
pub mod auth;
mod body;
mod chat;
mod completions;
mod count;
mod error;
mod gate;
mod health;
mod info;
mod limits;
mod metrics;
mod models;
mod names;
mod openapi;
mod page;
mod request_id;
mod routes;
mod serve;
mod timeline;
mod tls;
mod tokenize;
mod transport;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{from_fn, from_fn_with_state};

pub use access::{Access, AccessError};
pub(crate) use answer::{kind, parse as parse_json};
pub use app::{App, StartError};
pub use auth::{KEY_BYTES_MIN, KeyError, Keys};
pub(crate) use body::read_body;
pub use completions::completion_jobs;
pub use error::ApiError;
pub use gate::Gate;
pub use names::ModelNames;
#[cfg(test)]
pub(crate) use openapi::document as openapi_document;
pub(crate) use routes::wrong_method;
pub use serve::{BindError, Server};
pub use tls::TlsError;

/// All paths of the API, for those who may ask.
pub fn router(app: Arc<App>, access: &Access) -> Router {
    let mut router = Router::new();
    for route in routes::ROUTES {
        router = router.route(route.path, (route.handler)());
    }
    router = router
        .fallback(async |request: Request| ApiError::NoSuchPath {
            path: request.uri().path().to_owned(),
        })
        .method_not_allowed_fallback(async |request: Request| {
            wrong_method(&request, routes::ROUTES.iter().map(|route| (route.method, route.path)))
        });
    // What is added last sees a request first.
    if !access.keys.is_empty() {
        router = router.layer(from_fn_with_state(access.keys.clone(), auth::require));
    }
    if let Some(cors) = &access.cors {
        router = router.layer(cors.clone());
    }
    router
        .layer(from_fn_with_state(app.clone(), count::count))
        .layer(from_fn(request_id::attach))
        .with_state(app)
}
