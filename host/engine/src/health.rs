//! Whether every model's thread is at work: it beats whenever it looks at its inbox or ends a step, and a watchdog asks
//! those that have nothing to do.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};
use tokenrouter_core::ModelIndex;

use crate::engine::Shared;

/// The watchdog looks at least this often.
const PERIOD_MAX: Duration = Duration::from_secs(1);

/// Why no requests are taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReady {
    /// The engine is ending.
    #[error("the server is ending: requests that run may finish, others are not taken")]
    Draining,
    /// The engine has ended for good.
    #[error("the engine has stopped: {0}")]
    Stopped(String),
    /// A model's thread panicked and is being started anew.
    #[error("model \"{model}\" restarts: {reason}")]
    Restarting {
        /// The model.
        model: String,
        /// What made it panic.
        reason: String,
    },
    /// A model's thread does not come back from a step.
    #[error("model \"{model}\" has not ended a step or answered for {silent_s} s")]
    Stalled {
        /// The model.
        model: String,
        /// How long.
        silent_s: u64,
    },
}

/// The signs of life of one model's thread.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    seen_us: AtomicU64,
    stalled: AtomicBool,
    /// Why it restarts, while it does.
    restarting: Mutex<Option<String>>,
}

impl Pulse {
    /// The thread is at work at `now_us`.
    pub(crate) fn beat(&self, now_us: u64) {
        self.seen_us.store(now_us, Ordering::Relaxed);
    }

    /// The thread starts anew, or (`None`) has done so.
    pub(crate) fn set_restarting(&self, reason: Option<String>) {
        *self.restarting() = reason;
    }

    /// Whether the watchdog has given it up for now.
    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::Relaxed)
    }

    /// What is wrong, if something is.
    pub(crate) fn trouble(&self, model: &str, now_us: u64, stall_us_max: u64) -> Option<NotReady> {
        if let Some(reason) = self.restarting().clone() {
            let model = model.to_owned();
            return Some(NotReady::Restarting { model, reason });
        }
        let silent_us = self.silent_us(now_us);
        (silent_us > stall_us_max).then(|| NotReady::Stalled {
            model: model.to_owned(),
            silent_s: silent_us / 1_000_000,
        })
    }

    fn silent_us(&self, now_us: u64) -> u64 {
        now_us.saturating_sub(self.seen_us.load(Ordering::Relaxed))
    }

    fn restarting(&self) -> MutexGuard<'_, Option<String>> {
        self.restarting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks for threads that do not come back. It cannot stop them, but their clients need not wait.
pub(crate) struct Watchdog {
    pub(crate) shared: Arc<Shared>,
    pub(crate) names: Vec<String>,
    pub(crate) stall_us_max: u64,
}

impl Watchdog {
    /// Watches until the other end of `stop` is dropped.
    pub(crate) fn run(&self, stop: &Receiver<()>) {
        let period = Duration::from_micros(self.stall_us_max / 4).clamp(Duration::from_millis(1), PERIOD_MAX);
        while matches!(stop.recv_timeout(period), Err(RecvTimeoutError::Timeout)) {
            for index in 0..self.names.len() {
                self.look(index);
            }
        }
    }

    fn look(&self, index: usize) {
        let (pulse, model) = (&self.shared.pulses[index], &self.names[index]);
        // Whoever has nothing to do wakes up, beats, and sleeps on.
        self.shared.links[index].wake();
        let silent_us = pulse.silent_us(self.shared.board.now_us());
        let stalled = silent_us > self.stall_us_max && pulse.restarting().is_none();
        let was_stalled = pulse.stalled.swap(stalled, Ordering::Relaxed);
        if stalled {
            let reason = format!("model \"{model}\" does not answer, so this request cannot go on");
            let told = self.shared.roster.fail_at(ModelIndex(index as u32), &reason);
            if !was_stalled || told > 0 {
                tracing::error!(model, silent_ms = silent_us / 1_000, requests = told, "a model stalls");
            }
        } else if was_stalled {
            tracing::info!(model, "a model that stalled is back");
        }
    }
}
