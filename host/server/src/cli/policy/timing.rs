//! What calls into a policy cost.

use std::time::{Duration, Instant};

use serde::Serialize;
use tokenrouter_core::policy::Decisions;
use tokenrouter_policy::conformance::plausible_batch;
use tokenrouter_policy::{Generation, PolicyError};

/// Rows of the batches that are timed.
pub(super) const ROWS: [usize; 3] = [1, 8, 64];

/// Calls of one sample take at least so long together, so that reading the clock does not count.
const SAMPLE: Duration = Duration::from_micros(100);

/// A cost, over many samples.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Cost {
    /// Median, microseconds a call.
    pub(super) median_us: f64,
    /// 95 % of the samples are below, microseconds a call.
    pub(super) p95_us: f64,
    /// Samples taken.
    pub(super) samples: usize,
}

impl Cost {
    fn of(mut samples_us: Vec<f64>) -> Self {
        samples_us.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| {
            let last = samples_us.len().saturating_sub(1);
            samples_us
                .get((share * last as f64).round() as usize)
                .copied()
                .unwrap_or(0.0)
        };
        Self {
            median_us: at(0.5),
            p95_us: at(0.95),
            samples: samples_us.len(),
        }
    }
}

/// `route` with so many rows at the plan's entry model, in one instance that is warm, under the deadline that serving sets.
///
/// # Errors
/// A fault of the policy.
pub(super) fn route(generation: &Generation, rows: usize, samples: usize) -> Result<Cost, PolicyError> {
    let entry = generation.plan().entry;
    let batch = plausible_batch(generation, entry, rows, 0)?;
    let mut instance = generation.instance();
    let mut decisions = Decisions::default();
    let mut call = || instance.route(entry, &batch, &mut decisions);
    let calls = calls_per_sample(&mut call)?;
    let mut samples_us = Vec::with_capacity(samples);
    for _ in 0..samples {
        let started = Instant::now();
        for _ in 0..calls {
            call()?;
        }
        samples_us.push(started.elapsed().as_secs_f64() * 1e6 / f64::from(calls));
    }
    Ok(Cost::of(samples_us))
}

/// Warms up, and finds how many calls make a sample.
fn calls_per_sample(call: &mut impl FnMut() -> Result<(), PolicyError>) -> Result<u32, PolicyError> {
    let mut calls = 1;
    loop {
        let started = Instant::now();
        for _ in 0..calls {
            call()?;
        }
        if started.elapsed() >= SAMPLE || calls >= 1 << 16 {
            return Ok(calls);
        }
        calls *= 2;
    }
}

/// A new instance, without `init`.
///
/// # Errors
/// A fault of the policy.
pub(super) fn instance(generation: &Generation, samples: usize) -> Result<Cost, PolicyError> {
    let mut samples_us = Vec::with_capacity(samples);
    for _ in 0..samples {
        let started = Instant::now();
        generation.code().instantiate()?;
        samples_us.push(started.elapsed().as_secs_f64() * 1e6);
    }
    Ok(Cost::of(samples_us))
}

/// A new instance with `init` and one call: what a fault costs, and what a request costs that comes first after a swap.
///
/// # Errors
/// A fault of the policy.
pub(super) fn fresh(generation: &Generation, samples: usize) -> Result<Cost, PolicyError> {
    let entry = generation.plan().entry;
    let batch = plausible_batch(generation, entry, 1, 0)?;
    let mut decisions = Decisions::default();
    let mut samples_us = Vec::with_capacity(samples);
    for _ in 0..samples {
        let started = Instant::now();
        generation.instance().route(entry, &batch, &mut decisions)?;
        samples_us.push(started.elapsed().as_secs_f64() * 1e6);
    }
    Ok(Cost::of(samples_us))
}
