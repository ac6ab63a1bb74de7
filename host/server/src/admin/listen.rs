//! The admin API's listener.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::{Access, AccessError, router};
use crate::http::{App, Keys};

/// Connections at once; further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 32;

/// How long a request's headers may take.
const HEADER_TIME_MAX: Duration = Duration::from_secs(10);

/// Pause after a failed accept.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Why there is no admin API.
#[derive(Debug, thiserror::Error)]
pub enum AdminListenError {
    /// It would be open to those it is not for.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// Somebody else listens there.
    #[error(
        "{listen} is in use by another program; stop that one, or choose another address with --admin-listen HOST:PORT"
    )]
    InUse {
        /// The address.
        listen: String,
    },
    /// The address cannot be had.
    #[error("cannot listen at {listen} for the admin API: {source}; an address is HOST:PORT, as in 127.0.0.1:30001")]
    Bind {
        /// The address.
        listen: String,
        /// What the system said.
        source: std::io::Error,
    },
}

/// An admin API that holds its address but has not accepted anything yet.
pub struct AdminServer {
    listener: TcpListener,
    local: SocketAddr,
    router: Router,
}

impl AdminServer {
    /// Takes the address.
    ///
    /// # Errors
    /// [`AdminListenError`].
    pub async fn bind(app: Arc<App>, listen: &str, keys: Keys, without_key: bool) -> Result<Self, AdminListenError> {
        let refused = |source: std::io::Error| {
            let listen = listen.to_owned();
            match source.kind() {
                std::io::ErrorKind::AddrInUse => AdminListenError::InUse { listen },
                _ => AdminListenError::Bind { listen, source },
            }
        };
        let listener = TcpListener::bind(listen).await.map_err(refused)?;
        let local = listener.local_addr().map_err(refused)?;
        let access = Access::new(keys, without_key, local)?;
        Ok(Self {
            listener,
            local,
            router: router(app, access),
        })
    }

    /// The address, with the port that the system chose if 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Serves for as long as the runtime does.
    pub async fn run(self) {
        let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let slot = slots.clone().acquire_owned().await;
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let connection = http1::Builder::new()
                        .timer(TokioTimer::new())
                        .header_read_timeout(HEADER_TIME_MAX)
                        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(self.router.clone()));
                    tokio::spawn(async move {
                        // A client that breaks its connection is no event of the server's.
                        drop(connection.await);
                        drop(slot);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection of the admin API");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }
}
