//! Who may use the admin API.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::AdminApp;
use super::error::AdminError;
use crate::http::Keys;

/// Who may use the admin API.
#[derive(Clone, Debug)]
pub struct Access(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Keys(Arc<Keys>),
    /// Whoever can open a connection on this machine and is not a web page.
    Machine,
}

/// Why an admin API would be open to those it is not for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// No key, and nobody said that none is needed.
    #[error(
        "the admin API needs a key: name a file with --admin-key-file, or set TOKENROUTER_ADMIN_KEY; at a loopback address it can be \
         served without one with --admin-without-key"
    )]
    NoKey,
    /// No key, at an address that others can reach.
    #[error(
        "the admin API at {0} can be reached from other machines, so it needs a key; --admin-without-key is for loopback addresses"
    )]
    Reachable(SocketAddr),
}

/// A request's author, for the audit log.
#[derive(Clone, Debug)]
pub(super) struct Who(pub(super) Arc<str>);

impl Access {
    /// Access by key, or without one if that was asked for and only this machine can reach `address`.
    ///
    /// # Errors
    /// [`AccessError`].
    pub fn new(keys: Keys, without_key: bool, address: SocketAddr) -> Result<Self, AccessError> {
        if !keys.is_empty() {
            return Ok(Self(Kind::Keys(Arc::new(keys))));
        }
        if !without_key {
            return Err(AccessError::NoKey);
        }
        if !address.ip().is_loopback() {
            return Err(AccessError::Reachable(address));
        }
        Ok(Self(Kind::Machine))
    }

    fn check(&self, request: &Request) -> Result<Who, AdminError> {
        match &self.0 {
            Kind::Keys(keys) => Ok(Who(keys.check(request.headers())?.into())),
            Kind::Machine => {
                // A web page in a browser of this machine can connect, too. It cannot leave out its origin, nor name this
                // machine when its name was made to lead here.
                if !is_loopback(request) || is_from_elsewhere(request) {
                    return Err(AdminError::FromPage);
                }
                Ok(Who("this machine, without a key".into()))
            }
        }
    }
}

/// Whether a page of another origin asks. This listener's own page names the address that it asks at; its connections are
/// not encrypted, so that is all there is to an origin.
fn is_from_elsewhere(request: &Request) -> bool {
    let text = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    let own = text(header::HOST).map(|host| format!("http://{host}"));
    request.headers().contains_key(header::ORIGIN) && text(header::ORIGIN) != own.as_deref()
}

fn is_loopback(request: &Request) -> bool {
    let host = request
        .headers()
        .get(header::HOST)
        .and_then(|host| host.to_str().ok())
        .unwrap_or_default();
    let name = match host.parse::<SocketAddr>() {
        Ok(address) => return address.ip().is_loopback(),
        Err(_) => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Lets a request through that may be made, with its author.
pub(super) async fn require(State(admin): State<Arc<AdminApp>>, mut request: Request, next: Next) -> Response {
    match admin.access.check(&request) {
        Ok(who) => {
            request.extensions_mut().insert(who);
            next.run(request).await
        }
        Err(error) => error.into_response(),
    }
}
