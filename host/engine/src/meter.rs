//! What requests cost and how long they take, by policy. A request carries its own clock and writes into the sums of its
//! policy: atomics that nobody waits for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokenrouter_core::ModelIndex;
use tokenrouter_core::limits::MODELS_MAX;
use tokenrouter_core::request::Finish;

use crate::histogram::{COUNTS, Histogram, HistogramStats, TIMES_US};

/// Most policies that are told apart; the requests of further ones are counted together.
pub const POLICIES_METERED_MAX: usize = 64;

/// What requests beyond [`POLICIES_METERED_MAX`] are counted under.
pub const OTHER_POLICIES: &str = "other";

/// How a request ended, as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Outcome {
    /// A stop token or a stop string.
    Stop,
    /// The most tokens it may have.
    Length,
    /// The client left.
    Cancelled,
    /// Something failed.
    Failed,
}

impl Outcome {
    /// All of them, in the order of [`PolicyStats::finished`].
    pub const ALL: [Self; 4] = [Self::Stop, Self::Length, Self::Cancelled, Self::Failed];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Cancelled => "cancelled",
            Self::Failed => "error",
        }
    }

    fn of(finish: &Finish) -> Self {
        match finish {
            Finish::Stop => Self::Stop,
            Finish::Length => Self::Length,
            Finish::Cancelled => Self::Cancelled,
            Finish::Failed(_) => Self::Failed,
        }
    }
}

/// When things happened to a request, in microseconds since it was submitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// Until it left the queue; `None` if it never did.
    pub queue_us: Option<u64>,
    /// Until its first token; `None` without one.
    pub first_token_us: Option<u64>,
    /// Until its end.
    pub total_us: u64,
}

/// The sums of one policy.
#[derive(Debug)]
pub(crate) struct PolicyMeter {
    /// `None` for requests without one.
    policy: Option<String>,
    finished: [AtomicU64; Outcome::ALL.len()],
    tokens: [AtomicU64; MODELS_MAX],
    handoffs: AtomicU64,
    prompt_tokens: Histogram,
    answer_tokens: Histogram,
    queue_us: Histogram,
    first_token_us: Histogram,
    inter_token_us: Histogram,
    mean_token_us: Histogram,
    total_us: Histogram,
}

/// One policy's sums at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyStats {
    /// The policy; `None` for requests that one model answers alone.
    pub policy: Option<String>,
    /// Requests that have ended, in the order of [`Outcome::ALL`].
    pub finished: [u64; Outcome::ALL.len()],
    /// Tokens committed, by model in the deployment's order.
    pub tokens_by_model: Vec<u64>,
    /// Handoffs of the requests that have ended.
    pub handoffs: u64,
    /// Tokens of the prompts of requests that have ended.
    pub prompt_tokens: HistogramStats,
    /// Tokens of the answers of requests that have ended.
    pub answer_tokens: HistogramStats,
    /// From submission until a request left the queue.
    pub queue_us: HistogramStats,
    /// From submission to the first token.
    pub first_token_us: HistogramStats,
    /// Between one token and the next of the same answer.
    pub inter_token_us: HistogramStats,
    /// The mean of that over an answer, one value a request of at least two tokens.
    pub mean_token_us: HistogramStats,
    /// From submission to the end.
    pub total_us: HistogramStats,
}

impl PolicyMeter {
    fn new(policy: Option<String>) -> Self {
        Self {
            policy,
            finished: Default::default(),
            tokens: Default::default(),
            handoffs: AtomicU64::new(0),
            prompt_tokens: Histogram::new(COUNTS),
            answer_tokens: Histogram::new(COUNTS),
            queue_us: Histogram::new(TIMES_US),
            first_token_us: Histogram::new(TIMES_US),
            inter_token_us: Histogram::new(TIMES_US),
            mean_token_us: Histogram::new(TIMES_US),
            total_us: Histogram::new(TIMES_US),
        }
    }

    fn read(&self, models: usize) -> PolicyStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PolicyStats {
            policy: self.policy.clone(),
            finished: Outcome::ALL.map(|outcome| get(&self.finished[outcome as usize])),
            tokens_by_model: self.tokens[..models].iter().map(get).collect(),
            handoffs: get(&self.handoffs),
            prompt_tokens: self.prompt_tokens.read(),
            answer_tokens: self.answer_tokens.read(),
            queue_us: self.queue_us.read(),
            first_token_us: self.first_token_us.read(),
            inter_token_us: self.inter_token_us.read(),
            mean_token_us: self.mean_token_us.read(),
            total_us: self.total_us.read(),
        }
    }
}

/// The sums of all policies that have had a request, in the order they came.
#[derive(Debug, Default)]
pub(crate) struct Meters(Mutex<Vec<Arc<PolicyMeter>>>);

impl Meters {
    /// The sums of a policy. Asked once a request.
    pub(crate) fn of(&self, policy: Option<&str>) -> Arc<PolicyMeter> {
        let mut meters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let full = meters.len() >= POLICIES_METERED_MAX;
        let known = |name: Option<&str>| meters.iter().find(|meter| meter.policy.as_deref() == name).cloned();
        if let Some(meter) = known(policy) {
            return meter;
        }
        let name = if full { Some(OTHER_POLICIES) } else { policy };
        if let Some(meter) = known(name) {
            return meter;
        }
        let meter = Arc::new(PolicyMeter::new(name.map(str::to_owned)));
        meters.push(meter.clone());
        meter
    }

    pub(crate) fn read(&self, models: usize) -> Vec<PolicyStats> {
        let meters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        meters.iter().map(|meter| meter.read(models)).collect()
    }
}

/// One request's clock. It travels with the request.
#[derive(Debug)]
pub(crate) struct RequestClock {
    policy: Arc<PolicyMeter>,
    submitted: Instant,
    started: Option<Instant>,
    first_token: Option<Instant>,
    last_token: Option<Instant>,
}

/// What an ended request is counted by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) prompt_tokens: u32,
    pub(crate) answer_tokens: u32,
    pub(crate) handoffs: u32,
}

impl RequestClock {
    /// The request was submitted just now.
    pub(crate) fn new(policy: Arc<PolicyMeter>) -> Self {
        Self {
            policy,
            submitted: Instant::now(),
            started: None,
            first_token: None,
            last_token: None,
        }
    }

    /// It has left the queue.
    pub(crate) fn started(&mut self) {
        let now = Instant::now();
        self.policy.queue_us.record(us_between(self.submitted, now));
        self.started = Some(now);
    }

    /// `model` has committed a token.
    pub(crate) fn wrote(&mut self, model: ModelIndex) {
        let now = Instant::now();
        self.policy.tokens[model.index()].fetch_add(1, Ordering::Relaxed);
        match self.last_token.replace(now) {
            Some(last) => self.policy.inter_token_us.record(us_between(last, now)),
            None => {
                self.policy.first_token_us.record(us_between(self.submitted, now));
                self.first_token = Some(now);
            }
        }
    }

    /// It has ended.
    pub(crate) fn ended(&self, finish: &Finish, cost: Cost) -> Timing {
        let policy = &*self.policy;
        let timing = self.timing();
        policy.finished[Outcome::of(finish) as usize].fetch_add(1, Ordering::Relaxed);
        policy.handoffs.fetch_add(cost.handoffs.into(), Ordering::Relaxed);
        policy.prompt_tokens.record(cost.prompt_tokens.into());
        policy.answer_tokens.record(cost.answer_tokens.into());
        policy.total_us.record(timing.total_us);
        if let (Some(first), Some(last)) = (self.first_token, self.last_token)
            && let Some(gaps) = cost.answer_tokens.checked_sub(1).filter(|&gaps| gaps > 0)
        {
            policy.mean_token_us.record(us_between(first, last) / u64::from(gaps));
        }
        timing
    }

    fn timing(&self) -> Timing {
        let since = |at: Instant| us_between(self.submitted, at);
        Timing {
            queue_us: self.started.map(since),
            first_token_us: self.first_token.map(since),
            total_us: since(Instant::now()),
        }
    }
}

fn us_between(from: Instant, to: Instant) -> u64 {
    to.saturating_duration_since(from).as_micros() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_n_tokens_has_one_first_token_and_n_minus_1_gaps() {
        let meters = Meters::default();
        let mut clock = RequestClock::new(meters.of(Some("p")));
        clock.started();
        for model in [0, 1, 1, 0, 0] {
            clock.wrote(ModelIndex(model));
        }
        let cost = Cost {
            prompt_tokens: 7,
            answer_tokens: 5,
            handoffs: 2,
        };
        let timing = clock.ended(&Finish::Stop, cost);
        assert!(timing.queue_us <= timing.first_token_us && timing.first_token_us <= Some(timing.total_us));
        let [stats] = &meters.read(2)[..] else {
            panic!("one policy")
        };
        assert_eq!((stats.finished, stats.handoffs), ([1, 0, 0, 0], 2));
        assert_eq!(stats.tokens_by_model, [3, 2]);
        assert_eq!((stats.first_token_us.count(), stats.inter_token_us.count()), (1, 4));
        assert_eq!((stats.mean_token_us.count(), stats.total_us.count()), (1, 1));
        assert_eq!((stats.prompt_tokens.sum, stats.answer_tokens.sum), (7, 5));
    }

    /// Names come from outside, so their number has to be bounded.
    #[test]
    fn policies_beyond_the_bound_are_counted_together() {
        let meters = Meters::default();
        let first = meters.of(None);
        for number in 0..2 * POLICIES_METERED_MAX {
            meters
                .of(Some(&format!("policy-{number}")))
                .handoffs
                .fetch_add(1, Ordering::Relaxed);
        }
        let stats = meters.read(1);
        assert_eq!(stats.len(), POLICIES_METERED_MAX + 1, "and one for all others");
        assert_eq!(
            stats.iter().map(|policy| policy.handoffs).sum::<u64>(),
            2 * POLICIES_METERED_MAX as u64
        );
        assert!(Arc::ptr_eq(&first, &meters.of(None)));
    }
}
