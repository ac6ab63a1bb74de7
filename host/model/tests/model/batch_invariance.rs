//! The logits of a sequence are the same bits whatever else is in the step, however the sequence is cut into steps,
//! whichever blocks hold it, and however many threads compute it.

use tokenrouter_core::limits::KV_BLOCK_TOKENS;
use tokenrouter_core::step::StepBatch;
use tokenrouter_core::{BlockId, TokenId};
use tokenrouter_model::config::DecoderConfig;
use tokenrouter_model::decoder::{Decoder, KvPool};
use tokenrouter_model::weights::Weights;
use tokenrouter_model::{CpuOptions, Embedded, Source, WeightFormat};

use crate::build::{EVEN_WHOLE, ODD, ODD_WHOLE, Random, RandomModel, blocks, one_row, push_row};

const SEQUENCES: usize = 7;
const BLOCKS_EACH: usize = 5;
const LEN_MAX: usize = BLOCKS_EACH * KV_BLOCK_TOKENS;

/// Bits of the logits of a batch, one vector a row of logits.
fn logits(decoder: &mut Decoder, kv: &mut KvPool, batch: &StepBatch, vocabulary: usize) -> Vec<Vec<u32>> {
    let rows = decoder.forward(batch, kv).logits.chunks_exact(vocabulary);
    rows.map(|row| row.iter().map(|logit| logit.to_bits()).collect())
        .collect()
}

/// `alone` computes a sequence one token at a time, `together` in company; both are the same model.
fn check(config: &DecoderConfig, alone: &mut Decoder, together: &mut Decoder, random: &mut Random) {
    let vocabulary = config.vocab_size;
    let sequences: Vec<Vec<TokenId>> = (0..SEQUENCES)
        .map(|_| {
            let len = 1 + random.below(LEN_MAX);
            random.tokens(len, config.vocab_size)
        })
        .collect();
    let mut kv = KvPool::new(config, SEQUENCES * BLOCKS_EACH).unwrap();
    // Alone, one token a step.
    let alone: Vec<Vec<Vec<u32>>> = sequences
        .iter()
        .map(|tokens| {
            let table = blocks(0..BLOCKS_EACH as u32);
            let mut step = |at: usize| {
                let batch = one_row(at, &tokens[at..=at], &table, 1);
                logits(alone, &mut kv, &batch, vocabulary).remove(0)
            };
            (0..tokens.len()).map(&mut step).collect()
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
            let found = logits(together, &mut kv, &batch, vocabulary);
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

/// Sequences that begin alike, the second computed behind the blocks of the first while that one goes on, and a third that takes over
/// blocks of both: as if each were alone (tenstorrent/vllm#415 had other logits where blocks were shared).
fn check_shared(config: &DecoderConfig, decoder: &mut Decoder, random: &mut Random) {
    let vocabulary = config.vocab_size;
    let common = random.tokens(2 * KV_BLOCK_TOKENS, vocabulary);
    let mut behind = |tokens: &[TokenId], more: usize| [tokens, &random.tokens(more, vocabulary)].concat();
    let (first, second) = (behind(&common, 9), behind(&common, KV_BLOCK_TOKENS + 3));
    let third = behind(&second[..3 * KV_BLOCK_TOKENS], 5);
    let mut kv = KvPool::new(config, 12).unwrap();
    let alone = [&first, &second, &third].map(|tokens| {
        let batch = one_row(0, tokens, &blocks(8..12), 1);
        logits(decoder, &mut kv, &batch, vocabulary).remove(0)
    });
    let (border, shared) = (common.len(), [0, 1]);
    let table = |own: &[u32]| {
        shared
            .iter()
            .chain(own)
            .map(|&block| BlockId(block))
            .collect::<Vec<_>>()
    };
    let begun = one_row(0, &first[..border + 2], &table(&[2]), 0);
    logits(decoder, &mut kv, &begun, vocabulary);
    let mut both = StepBatch::default();
    push_row(&mut both, 1, border + 2, &first[border + 2..], &table(&[2]), 1);
    push_row(&mut both, 2, border, &second[border..], &table(&[3, 4]), 1);
    let mut found = logits(decoder, &mut kv, &both, vocabulary);
    let behind_both = one_row(3 * KV_BLOCK_TOKENS, &third[3 * KV_BLOCK_TOKENS..], &table(&[3, 5]), 1);
    found.extend(logits(decoder, &mut kv, &behind_both, vocabulary));
    assert!(found == alone, "seed {}", random.seed);
}

/// Every way to hold weights, and a decoder with three threads beside one without any.
fn check_all(config: &DecoderConfig, weights: impl Fn() -> Weights, random: &mut Random) {
    for format in [
        WeightFormat::F32,
        WeightFormat::Bf16,
        WeightFormat::Q8,
        WeightFormat::Q4,
    ] {
        let decoder = |threads| {
            let options = CpuOptions {
                threads,
                weights: format,
            };
            Decoder::with_options(config, &mut weights(), options).unwrap()
        };
        check(config, &mut decoder(1), &mut decoder(3), random);
        check_shared(config, &mut decoder(3), random);
    }
}

#[test]
fn batch_invariance_of_random_models() {
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let (kind, sizes) = [("qwen3", ODD), ("qwen2", EVEN_WHOLE), ("llama", ODD_WHOLE)][seed as usize % 3];
        let model = RandomModel::of(kind, sizes, seed < 3, &serde_json::Value::Null, &mut random);
        check_all(&model.config(), || model.weights(), &mut random);
    }
}

#[test]
fn batch_invariance_of_the_embedded_models() {
    for (model, seed) in [(Embedded::Small, 100), (Embedded::Large, 101)] {
        let source = Source::Embedded(model);
        let config = source.config().unwrap();
        let decoder = || Decoder::new(&config, &mut source.weights().unwrap()).unwrap();
        check(&config, &mut decoder(), &mut decoder(), &mut Random::new(seed));
        check_shared(&config, &mut decoder(), &mut Random::new(seed));
    }
}

/// Two bytes a number where the file has no more are not another model.
#[test]
fn weights_in_bf16_give_the_bits_of_the_same_weights_in_f32() {
    let source = Source::Embedded(Embedded::Large);
    let config = source.config().unwrap();
    let tokens = Random::new(7).tokens(2 * KV_BLOCK_TOKENS, config.vocab_size);
    let found = [WeightFormat::F32, WeightFormat::Bf16].map(|weights| {
        let options = CpuOptions { threads: 1, weights };
        let mut decoder = Decoder::with_options(&config, &mut source.weights().unwrap(), options).unwrap();
        let mut kv = KvPool::new(&config, 2).unwrap();
        let batch = one_row(0, &tokens, &blocks(0..2), tokens.len());
        (decoder.held(), logits(&mut decoder, &mut kv, &batch, config.vocab_size))
    });
    let [((wide, _), expected), ((narrow, held), logits)] = found;
    assert_eq!((2 * narrow, held.as_str()), (wide, "bf16"));
    assert!(logits == expected);
}
