//! The logits of a sequence are the same bits whatever else is in the step, however the sequence is cut into steps, and
//! whichever blocks hold it.

use tokenrouter_core::TokenId;
use tokenrouter_core::limits::KV_BLOCK_TOKENS;
use tokenrouter_core::step::StepBatch;
use tokenrouter_model::config::Qwen3Config;
use tokenrouter_model::decoder::{Decoder, KvPool};
use tokenrouter_model::{Embedded, Source};

use crate::build::{EVEN, ODD, Random, RandomModel, blocks, one_row, push_row};

const SEQUENCES: usize = 7;
const BLOCKS_EACH: usize = 5;
const LEN_MAX: usize = BLOCKS_EACH * KV_BLOCK_TOKENS;

/// Bits of the logits of a batch, one vector a row of logits.
fn logits(decoder: &Decoder, kv: &KvPool, batch: &StepBatch) -> Vec<Vec<u32>> {
    let rows = decoder
        .forward(batch, kv)
        .unwrap()
        .map_or_else(Vec::new, |step| step.logits.to_vec2::<f32>().unwrap());
    rows.into_iter()
        .map(|row| row.into_iter().map(f32::to_bits).collect())
        .collect()
}

fn check(config: &Qwen3Config, decoder: &Decoder, random: &mut Random) {
    let sequences: Vec<Vec<TokenId>> = (0..SEQUENCES)
        .map(|_| {
            let len = 1 + random.below(LEN_MAX);
            random.tokens(len, config.vocab_size)
        })
        .collect();
    let kv = KvPool::new(config, SEQUENCES * BLOCKS_EACH).unwrap();
    // Alone, one token a step.
    let alone: Vec<Vec<Vec<u32>>> = sequences
        .iter()
        .map(|tokens| {
            let table = blocks(0..BLOCKS_EACH as u32);
            let step = |at: usize| logits(decoder, &kv, &one_row(at, &tokens[at..=at], &table, 1)).remove(0);
            (0..tokens.len()).map(step).collect()
        })
        .collect();
    for round in 0..4 {
        // In company: random rows of random length with random numbers of logits, on shuffled blocks that still hold
        // what the rounds before wrote. In the last round every sequence is fed whole.
        let mut all = blocks(0..(SEQUENCES * BLOCKS_EACH) as u32);
        random.shuffle(&mut all);
        let tables: Vec<_> = all.chunks(BLOCKS_EACH).collect();
        let mut fed = [0; SEQUENCES];
        while (0..SEQUENCES).any(|s| fed[s] < sequences[s].len()) {
            let mut batch = StepBatch::default();
            let mut expected = Vec::new();
            let mut order: Vec<usize> = (0..SEQUENCES).collect();
            random.shuffle(&mut order);
            for s in order {
                let left = sequences[s].len() - fed[s];
                if left == 0 || (round < 3 && random.below(3) == 0) {
                    continue;
                }
                let most = if random.below(2) == 0 { 1 } else { left };
                let len = if round == 3 { left } else { 1 + random.below(most) };
                let (from, to) = (fed[s], fed[s] + len);
                let wanted = random.below(len + 1);
                push_row(&mut batch, s as u64, from, &sequences[s][from..to], tables[s], wanted);
                expected.extend((to - wanted..to).map(|at| (s, at)));
                fed[s] = to;
            }
            let found = logits(decoder, &kv, &batch);
            assert_eq!(found.len(), expected.len());
            for ((s, at), found) in expected.into_iter().zip(found) {
                assert!(
                    found == alone[s][at],
                    "seed {}, round {round}: sequence {s} differs at {at}",
                    random.seed
                );
            }
        }
    }
}

#[test]
fn batch_invariance_of_random_models() {
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let sizes = if seed % 2 == 0 { ODD } else { EVEN };
        let model = RandomModel::new(sizes, seed % 3 == 0, &mut random);
        let config = model.config();
        let decoder = Decoder::new(&config, &mut model.weights()).unwrap();
        check(&config, &decoder, &mut random);
    }
}

#[test]
fn batch_invariance_of_the_embedded_models() {
    for (model, seed) in [(Embedded::Small, 100), (Embedded::Large, 101)] {
        let source = Source::Embedded(model);
        let config = source.config().unwrap();
        let decoder = Decoder::new(&config, &mut source.weights().unwrap()).unwrap();
        check(&config, &decoder, &mut Random::new(seed));
    }
}
