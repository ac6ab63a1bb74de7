//! What routing costs a step: `route` of every shipped policy on a whole batch, epochs on.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tokenrouter_core::ModelIndex;
use tokenrouter_core::policy::{Admitting, Decisions, RouteBatch};
use tokenrouter_core::texts::Texts;
use tokenrouter_policy::{Deployment, Generation, HeadFacts, ModelFacts, PolicyHost, PolicyLimits};

const SMALL: ModelIndex = ModelIndex(0);

/// Names of the components.
const POLICIES: [&str; 8] = [
    "r2r",
    "citer",
    "co-llm",
    "r-stitch",
    "me",
    "glimprouter",
    "request-level",
    "random",
];

fn generation(host: &PolicyHost, name: &str) -> Generation {
    let path = format!("{}/../../plugins/dist/{name}.wasm", env!("CARGO_MANIFEST_DIR"));
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let model = |name: &str, parameters| ModelFacts {
        name: name.to_owned(),
        parameters,
        vocabulary: 151_936,
    };
    let deployment = Deployment {
        name: "bench".to_owned(),
        models: vec![model("small", 600_000_000), model("large", 8_000_000_000)],
        heads: ["r2r", "citer", "co-llm", "request-level"]
            .map(|name| HeadFacts {
                name: name.to_owned(),
                model: ModelIndex(0),
            })
            .to_vec(),
    };
    host.load(&bytes)
        .and_then(|code| code.configure(&deployment, &[]))
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn batch(generation: &Generation, rows: usize) -> RouteBatch {
    let request = Admitting {
        seed: 7,
        prompt: &[1],
        max_tokens: 16,
        temperature: 0.0,
    };
    let admission = generation.instance().admit(&request, &[]).expect("admits");
    let plan = generation.plan();
    RouteBatch {
        candidates: (0..rows as u32).collect(),
        signals: (0..rows * plan.columns(SMALL)).map(|i| (i % 7) as f32 * 0.01).collect(),
        state: admission.state.words().repeat(rows),
        texts: if plan.texts {
            std::iter::repeat_n("word", rows).collect()
        } else {
            Texts::default()
        },
    }
}

fn route(criterion: &mut Criterion) {
    let host = PolicyHost::new(PolicyLimits::default()).expect("the engine starts");
    for name in POLICIES {
        let generation = generation(&host, name);
        let mut group = criterion.benchmark_group(format!("route {name}"));
        for rows in [1, 8, 64] {
            let batch = batch(&generation, rows);
            let mut instance = generation.instance();
            let mut decisions = Decisions::default();
            group.throughput(Throughput::Elements(rows as u64));
            group.bench_with_input(BenchmarkId::from_parameter(rows), &batch, |bencher, batch| {
                bencher.iter(|| {
                    instance.route(SMALL, black_box(batch), &mut decisions).expect("routes");
                });
            });
        }
        group.finish();
    }
}

/// What a fault costs: an instance thrown away and made again, `init` included.
fn fresh_instance(criterion: &mut Criterion) {
    let host = PolicyHost::new(PolicyLimits::default()).expect("the engine starts");
    let generation = generation(&host, "r-stitch");
    let batch = batch(&generation, 1);
    let mut decisions = Decisions::default();
    criterion.bench_function("fresh instance and route", |bencher| {
        bencher.iter(|| {
            generation
                .instance()
                .route(SMALL, &batch, &mut decisions)
                .expect("routes");
        });
    });
}

criterion_group!(benches, route, fresh_instance);
criterion_main!(benches);
