//! Counts what has been responded, by route, method and status.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;

use super::App;
use super::routes::ROUTES;

/// What paths that are not the API's are counted under: they come from outside, without bound.
const OTHER: &str = "other";

/// What requests are counted by. Every part is one of a few.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RequestKey {
    pub(super) route: &'static str,
    pub(super) method: &'static str,
    pub(super) status: u16,
}

/// Requests so far.
#[derive(Debug, Default)]
pub(super) struct RequestCounts(Mutex<BTreeMap<RequestKey, u64>>);

impl RequestCounts {
    fn add(&self, key: RequestKey) {
        *self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(key)
            .or_default() += 1;
    }

    pub(super) fn read(&self) -> BTreeMap<RequestKey, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Passes a request on and counts its response.
pub(super) async fn count(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let route = ROUTES
        .iter()
        .find(|route| route.path == path)
        .map_or(OTHER, |route| route.path);
    let method = match *request.method() {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => OTHER,
    };
    let response = next.run(request).await;
    let status = response.status().as_u16();
    app.requests.add(RequestKey { route, method, status });
    response
}
