//! The admin API: policies are uploaded, activated, tried and rolled back, on a listener of its own.
//!
//! | path | what it does |
//! |---|---|
//! | `GET /admin/policies`, `GET /admin/policies/{name}` | what there is and what serves |
//! | `PUT /admin/policies/{name}` | brings a component in; `?activate=true` lets it serve at once |
//! | `DELETE /admin/policies/{name}` | takes it out |
//! | `POST /admin/policies/{name}/activate` | routes new requests by it, perhaps with other options |
//! | `POST /admin/policies/{name}/canary` | routes a share of new requests by it |
//! | `POST /admin/policies/{name}/shadow` | lets it watch and be compared |
//! | `POST /admin/policies/{name}/rollback` | goes back to what served before |
//! | `GET /admin/generations` | the generations that are loaded, with their requests and faults |
//! | `GET /admin/subservers` | the models' threads, with their counters |
//! | `POST /admin/drain` | takes no more requests |
//! | `GET /admin/openapi.json` | all of this for programs |
//! | `GET /` | all of this for people: the policies' page |

mod access;
mod error;
mod listen;
mod openapi;
mod policies;
mod status;
mod view;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::routing::{get, post};
use tokio::sync::Semaphore;

use crate::http::{App, wrong_method};
use crate::page::PageFile;
use error::AdminError;

pub use access::{Access, AccessError};
pub use listen::{AdminListenError, AdminServer};
#[cfg(test)]
pub(crate) use openapi::document as openapi_document;

/// Requests to the admin API that may be worked on at once.
const REQUESTS_MAX: usize = 8;

/// What all handlers share.
pub(crate) struct AdminApp {
    app: Arc<App>,
    access: Access,
    slots: Arc<Semaphore>,
}

/// All paths of the admin API.
pub fn router(app: Arc<App>, access: Access) -> Router {
    let admin = Arc::new(AdminApp {
        app,
        access,
        slots: Arc::new(Semaphore::new(REQUESTS_MAX)),
    });
    Router::new()
        .route("/admin/policies", get(policies::list))
        .route(
            "/admin/policies/{name}",
            get(policies::show).put(policies::put).delete(policies::delete),
        )
        .route("/admin/policies/{name}/activate", post(policies::activate))
        .route("/admin/policies/{name}/canary", post(policies::canary))
        .route("/admin/policies/{name}/shadow", post(policies::shadow))
        .route("/admin/policies/{name}/rollback", post(policies::rollback))
        .route("/admin/generations", get(status::generations))
        .route("/admin/subservers", get(status::subservers))
        .route("/admin/drain", post(status::drain))
        .route("/admin/openapi.json", get(openapi::show))
        .fallback(async |request: Request| AdminError::NoSuchPath(request.uri().path().to_owned()))
        .method_not_allowed_fallback(async |request: Request| wrong_method(&request, openapi::paths()))
        .layer(axum::middleware::from_fn_with_state(admin.clone(), access::require))
        // Below the layer: a browser has no key until its page asks for one.
        .route("/", get(async || PageFile::Policies))
        .route("/app.js", get(async || PageFile::Script))
        .route("/style.css", get(async || PageFile::Style))
        .with_state(admin)
}
