//! The native figure beside that of `tokenrouter-host policy bench`: `route` of every policy on a whole batch, as a plain
//! function call. The difference is what the sandbox costs: copies over its boundary, deadlines, and smaller code.
#![expect(clippy::print_stdout, reason = "a measurement shows its figures")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use tokenrouter_sdk::testing::{admit, init_with_heads};
use tokenrouter_sdk::{Batch, Policy};

// A policy is a cdylib, which nothing can link to, so their sources are taken in.
#[path = "../../citer/src/lib.rs"]
mod citer;
#[path = "../../co-llm/src/lib.rs"]
mod co_llm;
#[path = "../../glimprouter/src/lib.rs"]
mod glimprouter;
#[path = "../../me/src/lib.rs"]
mod me;
#[path = "../../r2r/src/lib.rs"]
mod r2r;
#[path = "../../r-stitch/src/lib.rs"]
mod r_stitch;
#[path = "../../random/src/lib.rs"]
mod random;
#[path = "../../request-level/src/lib.rs"]
mod request_level;

/// Calls of one sample take at least so long together, so that reading the clock does not count.
const SAMPLE: Duration = Duration::from_micros(100);
const SAMPLES: usize = 1_000;

fn main() {
    println!("{:16}{:>10}{:>10}{:>10}", "median us", "1 row", "8 rows", "64 rows");
    row::<r2r::R2r>();
    row::<citer::Citer>();
    row::<co_llm::CoLlm>();
    row::<r_stitch::RStitch>();
    row::<me::Me>();
    row::<glimprouter::GlimpRouter>();
    row::<request_level::RequestLevel>();
    row::<random::Random>();
}

fn row<P: Policy>() {
    let policy: P = init_with_heads(&["small", "large"], &[P::ABOUT.name], vec![]).expect("its defaults are right");
    let [one, eight, many] = [1, 8, 64].map(|rows| median_us(&policy, &batch(&policy, rows)));
    println!("{:16}{one:>10.2}{eight:>10.2}{many:>10.2}", P::ABOUT.name);
}

/// A step at the plan's entry model, for requests that were just admitted.
fn batch<P: Policy>(policy: &P, rows: usize) -> Batch {
    let columns: usize = policy.plan().signals[policy.plan().entry as usize]
        .iter()
        .map(columns)
        .sum();
    let texts = if policy.plan().texts { rows } else { 0 };
    Batch {
        candidates: vec![7; rows],
        signals: (0..rows * columns).map(|i| (i % 7) as f32 * 0.01).collect(),
        state: admit(policy, vec![]).expect("admits").state.repeat(rows),
        texts: "word".repeat(texts),
        text_ends: (1..=texts as u32).map(|text| text * 4).collect(),
    }
}

fn columns(signal: &tokenrouter_sdk::Signal) -> usize {
    use tokenrouter_sdk::Signal;
    match signal {
        Signal::TopKLogits(k) | Signal::TopKProbabilities(k) => *k as usize,
        _ => 1,
    }
}

fn median_us<P: Policy>(policy: &P, batch: &Batch) -> f64 {
    let entry = policy.plan().entry;
    // A component owns its arguments too, so the copy is part of the call.
    let sample = |calls: u32| {
        let started = Instant::now();
        for _ in 0..calls {
            black_box(policy.route_batch(entry, black_box(batch.clone())));
        }
        started.elapsed()
    };
    let mut calls = 1;
    while sample(calls) < SAMPLE {
        calls *= 2;
    }
    let mut samples: Vec<Duration> = (0..SAMPLES).map(|_| sample(calls)).collect();
    samples.sort_unstable();
    samples[SAMPLES / 2].as_secs_f64() * 1e6 / f64::from(calls)
}
