//! Who may connect and ask: keys, origins of web pages, and TLS. Read before anything is loaded, so that a mistake is told
//! at once.

use std::path::Path;
use std::sync::Arc;

use axum::http::{HeaderName, HeaderValue, Method, header};
use tokio_rustls::TlsAcceptor;
use tower_http::cors::{AllowOrigin, CorsLayer};

use super::auth::{KeyError, Keys};
use super::tls::{self, TlsError};
use crate::deployment::ServerEntry;

/// What a listener asks of clients.
#[derive(Clone, Default)]
pub struct Access {
    /// Keys that clients may use; if there are none, nobody is asked for one.
    pub keys: Arc<Keys>,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) cors: Option<CorsLayer>,
}

/// Why access cannot be ruled as asked for.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The keys.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Certificate and key.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// An origin is not one.
    #[error("server.cors_origins has {origin:?}; an origin is \"*\" or like \"https://example.org\", without a path")]
    Origin {
        /// What was written.
        origin: String,
    },
}

impl Access {
    /// Reads what the entry names. Relative paths count from `base`; `more_keys` are added to those of the key file.
    ///
    /// # Errors
    /// [`AccessError`].
    pub fn read(entry: &ServerEntry, base: &Path, more_keys: Keys) -> Result<Self, AccessError> {
        let keys = match &entry.api_key_file {
            Some(path) => Keys::read(&base.join(path))?.and(more_keys),
            None => more_keys,
        };
        let tls = match &entry.tls {
            Some(files) => Some(tls::acceptor(&base.join(&files.cert), &base.join(&files.key))?),
            None => None,
        };
        Ok(Self {
            keys: Arc::new(keys),
            tls,
            cors: cors(&entry.cors_origins)?,
        })
    }

    /// Whether connections are encrypted.
    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }
}

/// Without origins there is no layer, and browsers let no page read an answer.
fn cors(origins: &[String]) -> Result<Option<CorsLayer>, AccessError> {
    if origins.is_empty() {
        return Ok(None);
    }
    let layer = CorsLayer::new()
        .allow_methods([Method::GET, Method::POST])
        .allow_headers([header::AUTHORIZATION, header::CONTENT_TYPE, request_id()])
        .expose_headers([header::RETRY_AFTER, request_id()]);
    if origins.iter().any(|origin| origin == "*") {
        return Ok(Some(layer.allow_origin(AllowOrigin::any())));
    }
    let values = origins
        .iter()
        .map(|origin| value(origin))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Some(layer.allow_origin(values)))
}

fn request_id() -> HeaderName {
    super::request_id::HEADER
}

/// Scheme, host and perhaps a port: what browsers send.
fn value(origin: &str) -> Result<HeaderValue, AccessError> {
    let wrong = || AccessError::Origin {
        origin: origin.to_owned(),
    };
    let (scheme, host) = origin.split_once("://").ok_or_else(wrong)?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
    if !["http", "https"].contains(&scheme) || host.is_empty() || !host.bytes().all(plain) {
        return Err(wrong());
    }
    HeaderValue::from_str(origin).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_checked() {
        for good in ["https://example.org", "http://localhost:3000", "http://[::1]:80"] {
            assert!(value(good).is_ok(), "{good}");
        }
        for bad in [
            "example.org",
            "https://",
            "https://example.org/",
            "ftp://example.org",
            "https://a b",
        ] {
            let message = value(bad).unwrap_err().to_string();
            assert!(
                message.contains(bad) && message.contains("https://example.org"),
                "{message}"
            );
        }
        assert!(cors(&[]).unwrap().is_none());
        assert!(cors(&["*".to_owned()]).unwrap().is_some());
    }
}
