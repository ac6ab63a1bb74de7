//! Time of a step: every row decodes one token, with about 50 positions in its past.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tokenrouter_core::signal::Signal;
use tokenrouter_core::step::{StepBatch, StepRow};
use tokenrouter_core::{BlockId, ModelIndex, RequestId, TokenId};
use tokenrouter_model::{DecoderRunner, Embedded, RowAsk, Runner, Sampling, Source, StepOutput};

const PAST: u32 = 50;
const BLOCKS_EACH: u32 = 4;

/// A batch in which each of `rows` requests feeds `len` tokens from `position`.
fn batch(rows: u32, position: u32, len: u32) -> StepBatch {
    let tokens = (0..rows * len).map(|i| (3 + i % 16) as TokenId).collect();
    let row = |r: u32| StepRow {
        request: RequestId(u64::from(r)),
        first: r * len,
        len,
        position,
        logits: 1,
        blocks: r * BLOCKS_EACH..(r + 1) * BLOCKS_EACH,
        shared: 0,
    };
    StepBatch {
        tokens,
        rows: (0..rows).map(row).collect(),
        blocks: (0..rows * BLOCKS_EACH).map(BlockId).collect(),
    }
}

fn decode(c: &mut Criterion) {
    let sampling = Sampling {
        temperature: 1.0,
        top_p: 1.0,
        top_k: 0,
        min_p: 0.0,
    };
    let ask = RowAsk {
        sampling,
        seed: 1,
        ..RowAsk::GREEDY
    };
    let plans = [vec![Signal::EntropyNormalised]];
    for model in [Embedded::Small, Embedded::Large] {
        let mut runner = DecoderRunner::load(&Source::Embedded(model), ModelIndex(0)).expect("the model is embedded");
        let mut group = c.benchmark_group(format!("decode/{}", model.name()));
        for rows in [1, 8, 32] {
            runner
                .allocate((rows * BLOCKS_EACH) as usize)
                .expect("the pool is small");
            let mut out = StepOutput::default();
            let asks = vec![ask; rows as usize];
            runner
                .step(&batch(rows, 0, PAST), &asks, &plans, &mut out)
                .expect("the batch is right");
            let batch = batch(rows, PAST, 1);
            group.throughput(Throughput::Elements(u64::from(rows)));
            group.bench_function(rows.to_string(), |b| {
                b.iter(|| {
                    runner
                        .step(black_box(&batch), &asks, &plans, &mut out)
                        .expect("the batch is right");
                });
            });
        }
    }
}

criterion_group!(benches, decode);
criterion_main!(benches);
