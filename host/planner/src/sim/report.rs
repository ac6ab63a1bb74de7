//! What a simulation measured.

use serde::Serialize;

/// Percentiles of the time that requests waited at a model before each step, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Waits {
    /// Median.
    pub p50_ms: f64,
    /// 95 %.
    pub p95_ms: f64,
    /// 99 %.
    pub p99_ms: f64,
    /// Longest.
    pub max_ms: f64,
}

impl Waits {
    pub(super) fn of(mut waits_us: Vec<u64>) -> Self {
        waits_us.sort_unstable();
        let at = |share: f64| {
            let last = waits_us.len().saturating_sub(1);
            waits_us
                .get((share * last as f64).round() as usize)
                .map_or(0.0, |&us| us as f64 / 1e3)
        };
        Self {
            p50_ms: at(0.5),
            p95_ms: at(0.95),
            p99_ms: at(0.99),
            max_ms: at(1.0),
        }
    }
}

/// One model in a simulation.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ModelReport {
    /// Steps run.
    pub steps: u64,
    /// Mean requests in a step.
    pub batch_mean: f64,
    /// Share of the time that it ran.
    pub utilisation: f64,
    /// Tokens it committed.
    pub tokens: u64,
    /// How long requests waited for its steps.
    pub waits: Waits,
    /// Requests whose KV was dropped.
    pub kv_evictions: u64,
    /// Tokens it wrote ahead while another model decided.
    pub ahead_tokens: u64,
    /// Of those, how many were dropped.
    pub ahead_dropped: u64,
    /// Mean positions settled for requests that were written ahead, in a step that settled any.
    pub settled_per_step: f64,
}

/// A simulation's result, measured after the warm-up.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Tokens of answers per second, all requests together.
    pub tokens_per_s: f64,
    /// The same for one of the requests that run at a time.
    pub per_user_tokens_per_s: f64,
    /// Virtual seconds measured.
    pub seconds: f64,
    /// By model.
    pub models: Vec<ModelReport>,
}
