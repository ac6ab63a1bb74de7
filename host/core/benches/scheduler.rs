//! Cost of scheduling and routing per routed token, with models that answer at once.
//! `cargo bench --bench scheduler`

#[path = "../tests/driver/mod.rs"]
mod driver;

use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use driver::Driver;
use tokenrouter_core::ahead::Optimistic;

fn routed_token(criterion: &mut Criterion) {
    for requests in [1, 8, 64] {
        criterion.bench_function(&format!("routed token, {requests} requests"), |bencher| {
            bencher.iter_custom(|tokens| {
                let mut spent = Duration::ZERO;
                let mut routed = 0;
                // Requests have an end, so long measurements take several sets of them.
                while routed < tokens {
                    let mut driver = Driver::new(requests, 40_000, Optimistic::Off);
                    let start = Instant::now();
                    while driver.routed < (tokens - routed).min(30_000 * requests as u64) {
                        driver.round();
                    }
                    spent += start.elapsed();
                    routed += driver.routed;
                }
                spent.mul_f64(tokens as f64 / routed as f64)
            });
        });
    }
}

criterion_group!(benches, routed_token);
criterion_main!(benches);
