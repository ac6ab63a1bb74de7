//! The clock behind deadlines: a thread that advances the engine's epoch.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use wasmtime::Engine;

use crate::limits::TICK_MS;

/// Advances the epoch every [`TICK_MS`] until it is dropped. The host, all code and all instances share one, because a
/// deadline means nothing once the clock stands still.
pub(crate) struct Ticker {
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    pub(crate) fn start(engine: Engine) -> io::Result<Self> {
        let (stop, stopped) = sync_channel(0);
        let thread = Builder::new().name("policy-epochs".to_owned()).spawn(move || {
            while stopped.recv_timeout(Duration::from_millis(TICK_MS)) == Err(RecvTimeoutError::Timeout) {
                engine.increment_epoch();
            }
        })?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Ticks from now after which `ms` milliseconds are certainly over: the current tick is partly gone already.
    pub(crate) fn ticks(ms: u64) -> u64 {
        ms.div_ceil(TICK_MS) + 1
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It only fails if the thread panicked, and the thread has nothing that panics.
            let _ = thread.join();
        }
    }
}
