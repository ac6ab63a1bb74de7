//! What routing costs a step: `route` of the R-Stitch policy on a whole batch, epochs on.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tokenrouter_core::ModelIndex;
use tokenrouter_core::policy::{Decisions, RouteBatch};
use tokenrouter_policy::{Deployment, Generation, ModelFacts, PolicyHost, PolicyLimits};

fn r_stitch() -> Generation {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugins/dist/r-stitch.wasm");
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let host = PolicyHost::new(PolicyLimits::default()).expect("the engine starts");
    let model = |name: &str, parameters| ModelFacts {
        name: name.to_owned(),
        parameters,
        vocabulary: 151_936,
    };
    let deployment = Deployment {
        name: "bench".to_owned(),
        models: vec![model("small", 600_000_000), model("large", 8_000_000_000)],
        heads: Vec::new(),
    };
    host.load(&bytes)
        .and_then(|code| code.configure(&deployment, &[]))
        .expect("r-stitch loads")
}

fn batch(generation: &Generation, rows: usize) -> RouteBatch {
    let plan = generation.plan();
    let columns = plan.columns(ModelIndex(0));
    RouteBatch {
        candidates: (0..rows as u32).collect(),
        signals: (0..rows * columns).map(|i| (i % 7) as f32 * 0.01).collect(),
        state: vec![0; rows * plan.state_words],
        texts: if plan.texts {
            vec!["word".to_owned(); rows]
        } else {
            Vec::new()
        },
    }
}

fn route(criterion: &mut Criterion) {
    let generation = r_stitch();
    let mut group = criterion.benchmark_group("route");
    for rows in [1, 8, 64] {
        let batch = batch(&generation, rows);
        let mut instance = generation.instance();
        let mut decisions = Decisions::default();
        group.throughput(Throughput::Elements(rows as u64));
        group.bench_with_input(BenchmarkId::from_parameter(rows), &batch, |bencher, batch| {
            bencher.iter(|| {
                instance
                    .route(ModelIndex(0), black_box(batch), &mut decisions)
                    .expect("routes");
            });
        });
    }
    group.finish();

    // What a fault costs: an instance thrown away and made again, `init` included.
    let batch = batch(&generation, 1);
    let mut decisions = Decisions::default();
    criterion.bench_function("fresh instance and route", |bencher| {
        bencher.iter(|| {
            generation
                .instance()
                .route(ModelIndex(0), &batch, &mut decisions)
                .expect("routes");
        });
    });
}

criterion_group!(benches, route);
criterion_main!(benches);
