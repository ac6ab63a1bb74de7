//! The thread that looks after the policies: takes failing ones out, ends the time that replaced ones have for their
//! requests, and reloads a file that changes.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::breaker::Breaker;
use super::{Manager, Watch};

/// How often it looks.
const EVERY: Duration = Duration::from_millis(100);

/// Looks after a manager's policies until it is dropped.
pub struct Keeper {
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts the thread. `watch` is the file to reload, if one is to be.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(manager: Arc<Manager>, mut watch: Option<Watch>) -> io::Result<Self> {
        let (stop, stopped) = sync_channel(0);
        let thread = Builder::new().name("policy-keeper".to_owned()).spawn(move || {
            let mut round = Round {
                manager,
                start: Instant::now(),
                breakers: BTreeMap::new(),
            };
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                round.take_out_failing();
                round.end_drain_limits();
                if let Some(watch) = &mut watch {
                    watch.look(&round.manager);
                }
            }
        })?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It only fails if the thread panicked, which has been said then.
            drop(thread.join());
        }
    }
}

struct Round {
    manager: Arc<Manager>,
    start: Instant,
    breakers: BTreeMap<u32, Breaker>,
}

impl Round {
    fn take_out_failing(&mut self) {
        let limits = self.manager.settings.breaker;
        let now = self.start.elapsed();
        let stats: Vec<_> = {
            let state = self.manager.state();
            let in_force: Vec<u32> = state.set.in_force().collect();
            // One that stays because there is nothing before it is not taken out again and again.
            let is_new = |id: &u32| state.set.get(*id).is_some_and(|record| record.withdrawn.is_none());
            let served = in_force
                .into_iter()
                .filter(is_new)
                .filter_map(|id| state.served.get(&id));
            served.map(|served| served.stats()).collect()
        };
        self.breakers
            .retain(|id, _| stats.iter().any(|stats| stats.id.0 == *id));
        for stats in stats {
            let breaker = self.breakers.entry(stats.id.0).or_default();
            if breaker.note(now, stats.faults, limits) {
                let last = stats.last_fault.unwrap_or_default();
                let why = format!(
                    "{} faults within {} s; the last: {last}",
                    limits.faults_max,
                    limits.within.as_secs()
                );
                self.manager.withdraw(stats.id.0, &why);
            }
        }
    }

    fn end_drain_limits(&self) {
        let now = Instant::now();
        let mut state = self.manager.state();
        state.leaving.retain(|(served, until)| {
            if now < *until {
                return served.strong_count() > 0;
            }
            if let Some(served) = served.upgrade() {
                let running = served.stats().running;
                tracing::warn!(
                    generation = served.id().0,
                    running,
                    "requests of a generation that was replaced are over their limit; the failure mode applies to them"
                );
                served.expel();
            }
            false
        });
    }
}
