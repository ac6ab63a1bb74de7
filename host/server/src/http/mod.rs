//! The OpenAI-compatible API over one engine.
//!
//! | path | what it does |
//! |---|---|
//! | `POST /v1/completions` | text completion, whole or streamed |
//! | `GET /v1/models` | the names that `model` may have |
//! | `GET /health`, `/health/live`, `/health/ready` | whether requests are taken; whether the process answers |
//! | `GET /info` | version, models, policies, bounds and counters |

mod answer;
mod app;
mod body;
mod completions;
mod error;
mod health;
mod info;
mod limits;
mod models;
mod names;
mod request_id;
mod serve;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::routing::{get, post};

pub use app::App;
pub use completions::completion_jobs;
pub use error::ApiError;
pub use names::ModelNames;
pub use serve::{BindError, Server};

/// All paths of the API.
pub fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/v1/completions", post(completions::create))
        .route("/v1/models", get(models::list))
        .route("/health", get(health::ready))
        .route("/health/live", get(health::live))
        .route("/health/ready", get(health::ready))
        .route("/info", get(info::show))
        .fallback(async |request: Request| ApiError::NoSuchPath {
            path: request.uri().path().to_owned(),
        })
        .method_not_allowed_fallback(async |request: Request| ApiError::WrongMethod {
            method: request.method().to_string(),
            path: request.uri().path().to_owned(),
        })
        .layer(axum::middleware::from_fn(request_id::attach))
        .with_state(app)
}
