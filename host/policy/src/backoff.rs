//! How long a policy that keeps failing is left alone.

use std::time::{Duration, Instant};

use crate::PolicyError;

/// Pause after the second fault in a row, in milliseconds. It doubles with every further one.
const FIRST_MS: u64 = 100;

/// Longest pause, in milliseconds.
const LONGEST_MS: u64 = 10_000;

/// Faults in a row of one instance. One fault may be a request's doing, and the next call gets a new instance at once. From
/// the second on, calls are refused for a while: a policy that runs into its deadline at every call would otherwise
/// take that long from every step, also from the requests of others.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    faults: u32,
    until: Option<Instant>,
    last: String,
}

impl Backoff {
    /// The error of a call that is not even tried.
    #[inline]
    pub(crate) fn refusal(&mut self) -> Option<PolicyError> {
        let until = self.until?;
        if Instant::now() >= until {
            self.until = None;
            return None;
        }
        Some(PolicyError::Suspended {
            faults: self.faults,
            last: self.last.clone(),
        })
    }

    #[inline]
    pub(crate) fn succeeded(&mut self) {
        self.faults = 0;
    }

    #[cold]
    pub(crate) fn failed(&mut self, error: &PolicyError) {
        self.faults = self.faults.saturating_add(1);
        if let Some(doublings) = self.faults.checked_sub(2) {
            let pause_ms = LONGEST_MS.min(FIRST_MS << doublings.min(16));
            self.until = Some(Instant::now() + Duration::from_millis(pause_ms));
            self.last = error.to_string();
        }
    }
}
