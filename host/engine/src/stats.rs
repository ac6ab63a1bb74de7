//! Counters of a running engine.

use std::sync::atomic::{AtomicU64, Ordering};

use tokenrouter_core::estimate::Moves;
use tokenrouter_core::limits::MODELS_MAX;

/// What one subserver has done since the start.
#[derive(Debug, Default)]
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
    pub(crate) kv_evictions: AtomicU64,
    pub(crate) kv_blocks_used: AtomicU64,
    pub(crate) seats_taken: AtomicU64,
}

impl ModelCounters {
    pub(crate) fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Ordering::Relaxed);
    }

    /// Copies the scheduler's totals.
    pub(crate) fn set_moves(&self, moves: &Moves) {
        for model in 0..MODELS_MAX {
            Self::set(&self.moved[model], moves.requests[model]);
            Self::set(&self.committed[model], moves.committed[model]);
        }
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
    /// Calls into a policy that failed.
    pub policy_faults: u64,
    /// Requests whose KV was dropped to make room.
    pub kv_evictions: u64,
    /// KV blocks in use.
    pub kv_blocks_used: u64,
    /// Requests with a place at the model, pending ones included.
    pub seats_taken: u64,
    /// Requests that wait there now.
    pub waiting: u32,
    /// Requests in its running step.
    pub running: u32,
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
            kv_evictions: get(&self.kv_evictions),
            kv_blocks_used: get(&self.kv_blocks_used),
            seats_taken: get(&self.seats_taken),
            waiting,
            running,
        }
    }
}
