//! A name for every request, in its response and in the log.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;

pub(super) const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Longest id that is taken from a client, in bytes.
const CLIENT_ID_BYTES_MAX: usize = 64;

/// A request's id: the client's own if it sent one that is fit for a log, else a new one.
#[derive(Clone, Debug)]
pub(super) struct RequestId(pub(super) Arc<str>);

impl RequestId {
    fn of(headers: &HeaderMap) -> Self {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let sent = headers.get(HEADER).and_then(|value| value.to_str().ok());
        let fit = sent.filter(|id| !id.is_empty() && id.len() <= CLIENT_ID_BYTES_MAX && id.bytes().all(plain));
        Self(fit.map_or_else(|| format!("{:016x}", random_bits()).into(), Into::into))
    }
}

/// Gives the request its id and the response the same.
pub(super) async fn attach(mut request: Request, next: Next) -> Response {
    let id = RequestId::of(request.headers());
    request.extensions_mut().insert(id.clone());
    let mut response = next.run(request).await;
    if let Ok(value) = HeaderValue::from_str(&id.0) {
        response.headers_mut().insert(HEADER, value);
    }
    response
}

/// 64 bits that differ from call to call and from process to process. The standard library keys its hash maps with
/// randomness of the system; that is enough for ids and for seeds nobody chose.
pub(super) fn random_bits() -> u64 {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    RandomState::new().hash_one(CALLS.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id_for(sent: &str) -> Arc<str> {
        let headers = HeaderMap::from_iter([(HEADER, HeaderValue::from_str(sent).unwrap())]);
        RequestId::of(&headers).0
    }

    #[test]
    fn a_clients_id_is_kept_only_if_it_cannot_forge_a_log() {
        assert_eq!(&*id_for("trace-1.a_B"), "trace-1.a_B");
        for unfit in ["", "two words", "a=\"b\"", &"x".repeat(CLIENT_ID_BYTES_MAX + 1)] {
            assert_ne!(&*id_for(unfit), unfit);
            assert_eq!(id_for(unfit).len(), 16);
        }
    }

    #[test]
    fn new_ids_differ() {
        let ids: std::collections::HashSet<u64> = (0..1_000).map(|_| random_bits()).collect();
        assert_eq!(ids.len(), 1_000);
    }
}
