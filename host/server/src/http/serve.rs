//! The loop that accepts connections, and its orderly end.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::{App, router};
use crate::deployment::ServerEntry;

/// Pause after a failed accept: out of file descriptors, most likely, so trying again at once would only spin.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Why an address cannot be listened at.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Somebody else does.
    #[error("{listen} is in use by another program; stop that one, or choose another address with --listen HOST:PORT")]
    InUse {
        /// The address.
        listen: String,
    },
    /// Anything else: not an address, not of this machine, not allowed.
    #[error("cannot listen at {listen}: {source}; an address is HOST:PORT, as in 127.0.0.1:30000")]
    Other {
        /// The address.
        listen: String,
        /// What the system said.
        source: std::io::Error,
    },
}

/// A server that holds its address but has not accepted anything yet.
pub struct Server {
    listener: TcpListener,
    local: SocketAddr,
    app: Arc<App>,
    entry: ServerEntry,
}

impl Server {
    /// Takes the address.
    ///
    /// # Errors
    /// [`BindError`].
    pub async fn bind(app: Arc<App>, entry: ServerEntry) -> Result<Self, BindError> {
        let refused = |source: std::io::Error| match source.kind() {
            std::io::ErrorKind::AddrInUse => BindError::InUse {
                listen: entry.listen.clone(),
            },
            _ => BindError::Other {
                listen: entry.listen.clone(),
                source,
            },
        };
        let listener = TcpListener::bind(&entry.listen).await.map_err(refused)?;
        let local = listener.local_addr().map_err(refused)?;
        Ok(Self {
            listener,
            local,
            app,
            entry,
        })
    }

    /// The address, with the port that the system chose if 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Serves until `stop`. Then nothing is accepted any more and no request is taken, and those that run may finish until
    /// `drain_s_max` is over or `abort` comes. Returns whether all of them have.
    pub async fn run(self, stop: impl Future<Output = ()>, abort: impl Future<Output = ()>) -> bool {
        let Self {
            listener, app, entry, ..
        } = self;
        let router = router(app.clone());
        let graceful = GracefulShutdown::new();
        let slots = Arc::new(Semaphore::new(entry.connections_max.size()));
        let mut connections = JoinSet::new();
        let mut stop = pin!(stop);
        loop {
            let accept = async {
                let slot = slots.clone().acquire_owned().await;
                (listener.accept().await, slot)
            };
            tokio::select! {
                () = &mut stop => break,
                Some(_) = connections.join_next() => {}
                (accepted, slot) = accept => match accepted {
                    Ok((stream, _)) => {
                        let connection = graceful.watch(connection(stream, &router, &entry));
                        connections.spawn(async move {
                            // A client that breaks its connection is no event of the server's.
                            drop(connection.await);
                            drop(slot);
                        });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection");
                        tokio::time::sleep(ACCEPT_RETRY).await;
                    }
                },
            }
        }
        drop(listener);
        // Not a wait: it only makes the engine refuse further requests. Every running one belongs to a connection.
        app.engine.drain(Duration::ZERO);
        let limit = Duration::from_secs(entry.drain_s_max.get().into());
        tokio::select! {
            finished = tokio::time::timeout(limit, graceful.shutdown()) => finished.is_ok(),
            () = abort => false,
        }
    }
}

/// One HTTP/1.1 connection. The timer is what makes the header timeout real.
fn connection(
    stream: TcpStream,
    router: &Router,
    entry: &ServerEntry,
) -> http1::Connection<TokioIo<TcpStream>, TowerToHyperService<Router>> {
    // Tokens are small and should leave at once; a socket that refuses still works.
    drop(stream.set_nodelay(true));
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(entry.header_s_max.get().into()))
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router.clone()))
}
