//! A step in steady state takes no memory: buffers are kept, and keys and values are written where they stay.

use tokenrouter_core::limits::KV_BLOCK_TOKENS;
use tokenrouter_core::signal::Signal;
use tokenrouter_core::step::StepBatch;
use tokenrouter_model::config::DecoderConfig;
use tokenrouter_model::weights::Weights;
use tokenrouter_model::{CpuOptions, DecoderRunner, RowAsk, Runner, Sampling, StepOutput, WeightFormat};

use crate::build::{EVEN_WHOLE, Random, RandomModel, blocks, push_row};

const ROWS: usize = 6;
const BLOCKS_EACH: usize = 3;

/// Every row feeds one token at `position`.
fn decode(batch: &mut StepBatch, position: usize, random: &mut Random, vocabulary: usize) {
    *batch = StepBatch::default();
    for row in 0..ROWS {
        let table = blocks((row * BLOCKS_EACH) as u32..((row + 1) * BLOCKS_EACH) as u32);
        push_row(batch, row as u64, position, &random.tokens(1, vocabulary), &table, 1);
    }
}

#[test]
fn decoding_allocates_nothing_once_buffers_have_their_sizes() {
    let sampled = Sampling {
        temperature: 0.8,
        top_p: 0.9,
        top_k: 12,
        min_p: 0.01,
    };
    let plans = [
        vec![Signal::Entropy, Signal::MaxProbability, Signal::TopKLogits(4)],
        vec![Signal::TopKEntropy(5), Signal::Uniform(0)],
    ];
    let mut random = Random::new(11);
    let model = RandomModel::of("qwen3", EVEN_WHOLE, true, &serde_json::Value::Null, &mut random);
    for weights in [
        WeightFormat::F32,
        WeightFormat::Bf16,
        WeightFormat::Q8,
        WeightFormat::Q4,
    ] {
        let options = CpuOptions { threads: 1, weights };
        let mut runner = runner(model.config(), &mut model.weights(), options);
        let asks: Vec<RowAsk<'_>> = (0..ROWS)
            .map(|row| RowAsk {
                sampling: [Sampling::GREEDY, sampled][row % 2],
                seed: row as u64,
                plan: (row % 2) as u32,
                ..RowAsk::GREEDY
            })
            .collect();
        let (mut batch, mut out) = (StepBatch::default(), StepOutput::default());
        // Twice over the same positions: buffers grow with the context, and have met all of it before it counts.
        let [_, allocations] = [(); 2].map(|()| {
            let mut allocations = 0;
            for position in 0..BLOCKS_EACH * KV_BLOCK_TOKENS {
                decode(&mut batch, position, &mut random, model.config().vocab_size);
                let counted = allocation_counter::measure(|| runner.step(&batch, &asks, &plans, &mut out).unwrap());
                allocations += counted.count_total;
            }
            allocations
        });
        assert_eq!(allocations, 0, "{weights:?}, seed {}", random.seed);
    }
}

fn runner(config: DecoderConfig, weights: &mut Weights, options: CpuOptions) -> DecoderRunner {
    let mut runner = DecoderRunner::with_options(config, weights, tokenrouter_core::ModelIndex(0), options).unwrap();
    runner.allocate(ROWS * BLOCKS_EACH).unwrap();
    runner
}
