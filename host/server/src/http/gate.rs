//! What answers at the listener: while models are loaded only that they are, and from then on the API.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};

use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use axum::response::IntoResponse as _;
use axum::{Json, Router};
use hyper::body::Incoming;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde_json::json;

use super::{Access, ApiError, App, router};
use crate::page::PageFile;

/// An address that is listened at, before and after the API is there. Clones are of the same gate.
#[derive(Clone, Default)]
pub struct Gate(Arc<OnceLock<Open>>);

struct Open {
    app: Arc<App>,
    service: TowerToHyperService<Router>,
}

impl Gate {
    /// From now on requests are answered by `app`. A gate that is open stays as it is.
    pub fn open(&self, app: Arc<App>, access: &Access) {
        let service = TowerToHyperService::new(router(app.clone(), access));
        drop(self.0.set(Open { app, service }));
    }

    pub(super) fn app(&self) -> Option<&Arc<App>> {
        self.0.get().map(|open| &open.app)
    }

    pub(super) async fn answer(self, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        match self.0.get().map(|open| open.service.clone()) {
            Some(service) => service.call(request).await,
            None => Ok(while_loading(request.uri().path())),
        }
    }
}

/// The process is alive, and that is all.
fn while_loading(path: &str) -> Response<Body> {
    match path {
        "/health/live" => Json(json!({ "status": "live" })).into_response(),
        "/health" | "/health/ready" => {
            let body = json!({ "status": "not ready", "reason": "the models are being loaded" });
            (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
        }
        // The page says itself that models are loaded, and asks again.
        _ => PageFile::of_path(path).map_or_else(|| ApiError::Loading.into_response(), PageFile::into_response),
    }
}
