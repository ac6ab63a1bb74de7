//! How long planning takes: the whole sweep N = 1..=64 over all thresholds of the large model, one N, and the general
//! chain where no structure helps.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use tokenrouter_planner::{Latencies, Planner, Routing, Search, System};

fn planner(latency_ms: &[f64], quantum_ms: f64, routing: Routing) -> Planner {
    let latencies = Latencies::with_quantum(latency_ms, quantum_ms).expect("valid latencies");
    Planner::new(System::new(latencies, routing).expect("a valid system"))
}

fn handback() -> Planner {
    planner(
        &[6.0, 28.0],
        1.0,
        Routing::one_token_handback(0.35).expect("a probability"),
    )
}

fn sweeps(c: &mut Criterion) {
    let mut group = c.benchmark_group("plan");
    group.sample_size(10);
    group.bench_function("handback, N = 1..=64, all B", |b| {
        b.iter(|| {
            let mut planner = handback();
            (1..=64).for_each(|n| drop(black_box(planner.plan(n, Search::default()).expect("a plan"))));
        });
    });
    group.bench_function("handback, N = 64, all B", |b| {
        b.iter(|| handback().plan(64, Search::default()).expect("a plan"));
    });
    group.bench_function("handback at a tenth of the quantum, N = 64, all B", |b| {
        let routing = Routing::one_token_handback(0.35).expect("a probability");
        let mut planner = planner(&[6.0, 27.9], 0.1, routing);
        b.iter(|| planner.plan(64, Search::default()).expect("a plan"));
    });
    group.bench_function("general chain, R-Stitch, N = 16, all B", |b| {
        let routing = Routing::r_stitch(0.35, 0.5).expect("probabilities");
        let mut planner = planner(&[6.0, 28.0], 2.0, routing);
        b.iter(|| planner.plan(16, Search::default()).expect("a plan"));
    });
    group.bench_function("general chain, three models, N = 8, all B with B_0 = 1", |b| {
        let mut planner = planner(
            &[1.0, 2.0, 7.0],
            1.0,
            Routing::mixture(&[0.5, 0.3, 0.2]).expect("a law"),
        );
        b.iter(|| planner.plan(8, Search::default()).expect("a plan"));
    });
    group.finish();
}

criterion_group!(benches, sweeps);
criterion_main!(benches);
