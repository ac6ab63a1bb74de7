//! Counters of a running engine.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tokenrouter_core::ahead::AheadCounts;
use tokenrouter_core::estimate::Moves;
use tokenrouter_core::kv::PrefixCounts;
use tokenrouter_core::limits::MODELS_MAX;

pub use crate::histogram::HistogramStats;
use crate::histogram::{COUNTS, Histogram, TIMES_US};
pub use crate::meter::{Outcome, PolicyStats, Timing};
use crate::timeline::Timeline;

/// What one subserver has done since the start.
#[derive(Debug)]
pub(crate) struct ModelCounters {
    pub(crate) steps: AtomicU64,
    pub(crate) rows: AtomicU64,
    pub(crate) tokens_fed: AtomicU64,
    /// Requests by where they went after a step, and the tokens those moves committed.
    pub(crate) moved: [AtomicU64; MODELS_MAX],
    pub(crate) committed: [AtomicU64; MODELS_MAX],
    pub(crate) handoffs_out: AtomicU64,
    pub(crate) step_us: AtomicU64,
    pub(crate) policy_faults: AtomicU64,
    pub(crate) policy_instances: AtomicU64,
    pub(crate) kv_evictions: AtomicU64,
    pub(crate) kv_blocks_used: AtomicU64,
    pub(crate) kv_blocks_retained: AtomicU64,
    pub(crate) prefix_hits: AtomicU64,
    pub(crate) prefix_tokens: AtomicU64,
    pub(crate) prefix_given_up: AtomicU64,
    pub(crate) seats_taken: AtomicU64,
    pub(crate) ahead_written: AtomicU64,
    pub(crate) ahead_dropped: AtomicU64,
    pub(crate) ahead_settled: AtomicU64,
    pub(crate) ahead_confirmed: AtomicU64,
    pub(crate) settling_steps: AtomicU64,
    pub(crate) agreement_ppm: AtomicU32,
    pub(crate) restarts: AtomicU64,
    /// Requests that restarts have failed.
    pub(crate) restart_failures: AtomicU64,
    pub(crate) step_times_us: Histogram,
    pub(crate) batch_rows: Histogram,
    pub(crate) launch_waits_us: Histogram,
    pub(crate) route_times_us: Histogram,
    pub(crate) handoffs_in_us: Histogram,
    pub(crate) timeline: Timeline,
}

impl Default for ModelCounters {
    fn default() -> Self {
        Self {
            steps: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            tokens_fed: AtomicU64::new(0),
            moved: Default::default(),
            committed: Default::default(),
            handoffs_out: AtomicU64::new(0),
            step_us: AtomicU64::new(0),
            policy_faults: AtomicU64::new(0),
            policy_instances: AtomicU64::new(0),
            kv_evictions: AtomicU64::new(0),
            kv_blocks_used: AtomicU64::new(0),
            kv_blocks_retained: AtomicU64::new(0),
            prefix_hits: AtomicU64::new(0),
            prefix_tokens: AtomicU64::new(0),
            prefix_given_up: AtomicU64::new(0),
            seats_taken: AtomicU64::new(0),
            ahead_written: AtomicU64::new(0),
            ahead_dropped: AtomicU64::new(0),
            ahead_settled: AtomicU64::new(0),
            ahead_confirmed: AtomicU64::new(0),
            settling_steps: AtomicU64::new(0),
            agreement_ppm: AtomicU32::new(0),
            restarts: AtomicU64::new(0),
            restart_failures: AtomicU64::new(0),
            step_times_us: Histogram::new(TIMES_US),
            batch_rows: Histogram::new(COUNTS),
            launch_waits_us: Histogram::new(TIMES_US),
            route_times_us: Histogram::new(TIMES_US),
            handoffs_in_us: Histogram::new(TIMES_US),
            timeline: Timeline::default(),
        }
    }
}

impl ModelCounters {
    pub(crate) fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Ordering::Relaxed);
    }

    /// Counts how long each row of a step had waited, and returns the longest; microseconds.
    pub(crate) fn record_waits(&self, waits_us: impl Iterator<Item = u64>) -> u64 {
        waits_us
            .inspect(|wait_us| self.launch_waits_us.record(*wait_us))
            .max()
            .unwrap_or(0)
    }

    /// Copies the scheduler's totals.
    pub(crate) fn set_moves(&self, moves: &Moves) {
        Self::set(&self.handoffs_out, moves.handoffs);
        for model in 0..MODELS_MAX {
            Self::set(&self.moved[model], moves.requests[model]);
            Self::set(&self.committed[model], moves.committed[model]);
        }
    }

    /// Copies what has come of sharing prefixes.
    pub(crate) fn set_prefixes(&self, counts: PrefixCounts) {
        Self::set(&self.prefix_hits, counts.hits);
        Self::set(&self.prefix_tokens, counts.tokens);
        Self::set(&self.prefix_given_up, counts.given_up);
    }

    /// Copies what has come of decoding ahead.
    pub(crate) fn set_ahead(&self, ahead: AheadCounts, agreement: f32) {
        Self::set(&self.ahead_written, ahead.written);
        Self::set(&self.ahead_dropped, ahead.dropped);
        Self::set(&self.ahead_settled, ahead.settled);
        Self::set(&self.ahead_confirmed, ahead.confirmed);
        Self::set(&self.settling_steps, ahead.settling_steps);
        self.agreement_ppm.store((agreement * 1e6) as u32, Ordering::Relaxed);
    }

    pub(crate) fn set(gauge: &AtomicU64, value: u64) {
        gauge.store(value, Ordering::Relaxed);
    }
}

/// One subserver's counters at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelStats {
    /// The model's name.
    pub name: String,
    /// Steps run.
    pub steps: u64,
    /// Rows of those steps; rows / steps is the mean batch size.
    pub rows: u64,
    /// Tokens fed, prompts included.
    pub tokens_fed: u64,
    /// Tokens committed to answers.
    pub tokens_written: u64,
    /// Requests handed to another model.
    pub handoffs_out: u64,
    /// Time spent in steps, microseconds.
    pub step_us: u64,
    /// Decisions of policies that were not to be had: calls that failed, and calls that were not tried after many that had.
    pub policy_faults: u64,
    /// Instances of policies, one for each generation that has requests or may get some.
    pub policy_instances: u64,
    /// Requests whose KV was dropped to make room.
    pub kv_evictions: u64,
    /// KV blocks in use.
    pub kv_blocks_used: u64,
    /// KV blocks that nobody uses and that keep what they hold for requests to come.
    pub kv_blocks_retained: u64,
    /// What has come of sharing prefixes.
    pub prefixes: PrefixCounts,
    /// Requests with a place at the model, pending ones included.
    pub seats_taken: u64,
    /// What has come of decoding ahead here, and of settling here what other models decoded ahead.
    pub ahead: AheadCounts,
    /// How often, of late, other models confirmed what this one assumed: 0 to 1, in millionths. 0 unless optimistic handoff is
    /// on.
    pub agreement_ppm: u32,
    /// Requests that wait there now.
    pub waiting: u32,
    /// Requests in its running step.
    pub running: u32,
    /// Times that it was started anew after a panic.
    pub restarts: u64,
    /// Requests that failed by that.
    pub restart_failures: u64,
    /// How long steps took, microseconds, policy included.
    pub step_times_us: HistogramStats,
    /// Rows of its steps.
    pub batch_rows: HistogramStats,
    /// How long each row had waited when its step was launched, microseconds.
    pub launch_waits_us: HistogramStats,
    /// How long the policies took to decide about a step, microseconds.
    pub route_times_us: HistogramStats,
    /// From another model's decision to hand a request over until this model had it, microseconds.
    pub handoffs_in_us: HistogramStats,
}

/// An engine's counters at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Requests that run.
    pub requests_running: usize,
    /// Requests that wait to start.
    pub requests_waiting: usize,
    /// By model, in the deployment's order.
    pub models: Vec<ModelStats>,
    /// By policy, in the order of their first requests.
    pub policies: Vec<PolicyStats>,
}

impl ModelCounters {
    pub(crate) fn read(&self, name: &str, waiting: u32, running: u32) -> ModelStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ModelStats {
            name: name.to_owned(),
            steps: get(&self.steps),
            rows: get(&self.rows),
            tokens_fed: get(&self.tokens_fed),
            tokens_written: self.committed.iter().map(get).sum(),
            handoffs_out: get(&self.handoffs_out),
            step_us: get(&self.step_us),
            policy_faults: get(&self.policy_faults),
            policy_instances: get(&self.policy_instances),
            kv_evictions: get(&self.kv_evictions),
            kv_blocks_used: get(&self.kv_blocks_used),
            kv_blocks_retained: get(&self.kv_blocks_retained),
            prefixes: PrefixCounts {
                hits: get(&self.prefix_hits),
                tokens: get(&self.prefix_tokens),
                given_up: get(&self.prefix_given_up),
            },
            seats_taken: get(&self.seats_taken),
            ahead: AheadCounts {
                written: get(&self.ahead_written),
                dropped: get(&self.ahead_dropped),
                settled: get(&self.ahead_settled),
                confirmed: get(&self.ahead_confirmed),
                settling_steps: get(&self.settling_steps),
            },
            agreement_ppm: self.agreement_ppm.load(Ordering::Relaxed),
            waiting,
            running,
            restarts: get(&self.restarts),
            restart_failures: get(&self.restart_failures),
            step_times_us: self.step_times_us.read(),
            batch_rows: self.batch_rows.read(),
            launch_waits_us: self.launch_waits_us.read(),
            route_times_us: self.route_times_us.read(),
            handoffs_in_us: self.handoffs_in_us.read(),
        }
    }
}
