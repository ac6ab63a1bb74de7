//! The loop that accepts connections, and its orderly end.

use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::transport::Transport;
use super::{Access, Gate};
use crate::deployment::ServerEntry;

/// Pause after a failed accept: out of file descriptors, most likely, so trying again at once would only spin.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Bytes of a connection that wait to be written, before the answer behind them is not asked for more.
const WRITE_BUFFER_BYTES_MAX: usize = 64 << 10;

/// Header fields of a request.
const HEADERS_MAX: usize = 100;

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
    connections: Connections,
    entry: ServerEntry,
}

/// What every connection is served with.
#[derive(Clone)]
struct Connections {
    gate: Gate,
    access: Access,
    http: http1::Builder,
    header_time_max: Duration,
    write_time_max: Duration,
}

impl Server {
    /// Takes the address.
    ///
    /// # Errors
    /// [`BindError`].
    pub async fn bind(entry: ServerEntry, access: Access) -> Result<Self, BindError> {
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
        let connections = Connections::new(&entry, access);
        Ok(Self {
            listener,
            local,
            connections,
            entry,
        })
    }

    /// The address, with the port that the system chose if 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Where the API is put when there is one. Until then clients are told to wait.
    pub fn gate(&self) -> Gate {
        self.connections.gate.clone()
    }

    /// Serves until `stop`. From then on no request is taken, and readiness says so to whoever asks, until those that run
    /// have ended, `drain_s_max` is over, or `abort` comes. Returns whether all of them have ended.
    pub async fn run(self, stop: impl Future<Output = ()>, abort: impl Future<Output = ()>) -> bool {
        let mut accepting = Accepting {
            listener: self.listener,
            graceful: GracefulShutdown::new(),
            slots: Arc::new(Semaphore::new(self.entry.connections_max.size())),
            tasks: JoinSet::new(),
            connections: self.connections,
        };
        accepting.until(pin!(stop)).await;
        let Some(app) = accepting.connections.gate.app().cloned() else {
            return true;
        };
        app.engine.close();
        let limit = Duration::from_secs(self.entry.drain_s_max.get().into());
        let deadline = Instant::now() + limit;
        let drain = async {
            // A thread that waits, since the engine knows nothing of this runtime. It ends with the limit.
            let drained = tokio::task::spawn_blocking(move || app.engine.drain(limit));
            drop(tokio::time::timeout_at(deadline, drained).await);
        };
        let end = async {
            accepting.until(pin!(drain)).await;
            let Accepting { listener, graceful, .. } = accepting;
            drop(listener);
            // Every request that runs belongs to a connection, which may still be writing the end of an answer.
            tokio::time::timeout_at(deadline, graceful.shutdown()).await.is_ok()
        };
        tokio::select! {
            finished = end => finished,
            () = abort => false,
        }
    }
}

/// A listener and the connections that came from it.
struct Accepting {
    listener: TcpListener,
    graceful: GracefulShutdown,
    slots: Arc<Semaphore>,
    tasks: JoinSet<()>,
    connections: Connections,
}

impl Accepting {
    async fn until(&mut self, mut end: Pin<&mut impl Future<Output = ()>>) {
        loop {
            let accept = async {
                let slot = self.slots.clone().acquire_owned().await;
                (self.listener.accept().await, slot)
            };
            tokio::select! {
                () = &mut end => return,
                Some(_) = self.tasks.join_next() => {}
                (accepted, slot) = accept => match (accepted, slot) {
                    (Ok((stream, _)), Ok(slot)) => {
                        let connection = self.connections.clone().serve(stream, self.graceful.watcher(), slot);
                        self.tasks.spawn(connection);
                    }
                    (Err(error), _) => {
                        tracing::warn!(%error, "cannot accept a connection");
                        tokio::time::sleep(ACCEPT_RETRY).await;
                    }
                    // Nobody closes the semaphore.
                    (Ok(_), Err(_)) => return,
                },
            }
        }
    }
}

impl Connections {
    fn new(entry: &ServerEntry, access: Access) -> Self {
        let header_time_max = Duration::from_secs(entry.header_s_max.get().into());
        let mut http = http1::Builder::new();
        // The timer is what makes the time limit real.
        http.timer(TokioTimer::new())
            .header_read_timeout(header_time_max)
            .max_headers(HEADERS_MAX)
            .max_header_size(entry.header_bytes_max.size())
            .max_buf_size(WRITE_BUFFER_BYTES_MAX.max(2 * entry.header_bytes_max.size()));
        Self {
            gate: Gate::default(),
            access,
            http,
            header_time_max,
            write_time_max: Duration::from_secs(entry.write_s_max.get().into()),
        }
    }

    /// One connection to its end. `slot` is free again when it is over.
    async fn serve(self, stream: TcpStream, watcher: Watcher, slot: OwnedSemaphorePermit) {
        // Tokens are small and should leave at once; a socket that refuses still works.
        drop(stream.set_nodelay(true));
        match self.access.tls.clone() {
            None => self.serve_http(stream, watcher).await,
            Some(tls) => match tokio::time::timeout(self.header_time_max, tls.accept(stream)).await {
                Ok(Ok(stream)) => self.serve_http(stream, watcher).await,
                Ok(Err(error)) => tracing::debug!(%error, "no TLS connection"),
                Err(_) => tracing::debug!("no TLS connection in time"),
            },
        }
        drop(slot);
    }

    async fn serve_http(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, watcher: Watcher) {
        let io = TokioIo::new(Transport::new(stream, self.write_time_max));
        let gate = self.gate;
        let service = service_fn(move |request| gate.clone().answer(request));
        let connection = self.http.serve_connection(io, service);
        if let Err(error) = watcher.watch(connection).await {
            // A client that breaks its connection is no event of the server's.
            tracing::debug!(%error, "a connection ended early");
        }
    }
}
