//! When a policy has failed so often that it is taken out.

use std::collections::VecDeque;
use std::time::Duration;

/// Faults after which a generation is taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerLimits {
    /// So many faults…
    pub faults_max: u32,
    /// …within this time.
    pub within: Duration,
}

impl Default for BreakerLimits {
    /// A policy that fails at every call gets there in less than a second in spite of its pauses; five single requests that upset it
    /// within ten seconds are too many as well.
    fn default() -> Self {
        Self {
            faults_max: 5,
            within: Duration::from_secs(10),
        }
    }
}

/// The recent faults of one generation.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    total: u64,
    recent: VecDeque<(Duration, u64)>,
}

impl Breaker {
    /// Takes the generation's total of faults at a time. Returns whether it has failed too often.
    pub(super) fn note(&mut self, now: Duration, total: u64, limits: BreakerLimits) -> bool {
        let new = total.saturating_sub(self.total);
        self.total = total;
        if new > 0 {
            self.recent.push_back((now, new));
        }
        while self
            .recent
            .front()
            .is_some_and(|(at, _)| now.saturating_sub(*at) > limits.within)
        {
            self.recent.pop_front();
        }
        let recent: u64 = self.recent.iter().map(|(_, faults)| faults).sum();
        recent >= u64::from(limits.faults_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: BreakerLimits = BreakerLimits {
        faults_max: 3,
        within: Duration::from_secs(10),
    };

    #[test]
    fn only_faults_that_come_together_break() {
        let mut breaker = Breaker::default();
        let seconds = Duration::from_secs;
        assert!(!breaker.note(seconds(0), 2, LIMITS));
        assert!(!breaker.note(seconds(5), 2, LIMITS), "the same two");
        assert!(!breaker.note(seconds(11), 3, LIMITS), "the first two are long ago");
        assert!(!breaker.note(seconds(12), 4, LIMITS));
        assert!(breaker.note(seconds(20), 5, LIMITS));
    }
}
