//! Whole models on the device: against the CPU's decoder, and against themselves however they are fed.

use tokenrouter_core::draw::{Purpose, bits};
use tokenrouter_core::limits::KV_BLOCK_TOKENS;
use tokenrouter_core::signal::Signal;
use tokenrouter_core::step::StepBatch;
use tokenrouter_core::{BlockId, ModelIndex, TokenId};
use tokenrouter_model::config::DecoderConfig;
use tokenrouter_model::cuda::{CudaOptions, CudaRunner, Device, GraphLimits, Tensors};
use tokenrouter_model::decoder::{Decoder, KvPool};
use tokenrouter_model::random::RandomSizes;
use tokenrouter_model::sampler::Sampler;
use tokenrouter_model::signals::{SignalKey, Signals};
use tokenrouter_model::weights::Weights;
use tokenrouter_model::{Embedded, RowAsk, Runner as _, Sampling, Source};

use super::probe::{Probe, push};
use super::report::Report;

/// Activations are rounded to bf16 before every matrix product, 2^-9 of their size each time.
const ERROR_MAX: f64 = 0.03;
const SEED: u64 = 20;
/// Lengths around blocks and token tiles, and for every other model one beyond a partition of attention.
const LENGTHS: [usize; 5] = [1, 2, 17, 40, 65];
const LONG: usize = 260;
/// Rows of logits at the end of each sequence.
const LAST: usize = 3;
/// Tokens written after each sequence.
const WRITTEN: usize = 4;

/// A model twice: as files, and as the CPU has it.
struct Case {
    name: &'static str,
    config: DecoderConfig,
    tensors: Tensors,
    decoder: Decoder,
}

impl Case {
    fn embedded(name: &'static str, model: Embedded) -> anyhow::Result<Self> {
        let source = Source::Embedded(model);
        let (config, mut weights) = (source.config()?, source.weights()?);
        let decoder = Decoder::new(&config, &mut weights)?;
        Ok(Self {
            name,
            config,
            tensors: Tensors::open(&source)?,
            decoder,
        })
    }

    fn random(name: &'static str, sizes: RandomSizes) -> anyhow::Result<Self> {
        let (config, file) = (sizes.config()?, sizes.weights(SEED)?);
        let mut weights = Weights::new(name);
        weights.add(&file, name)?;
        let decoder = Decoder::new(&config, &mut weights)?;
        Ok(Self {
            name,
            config,
            tensors: Tensors::from_bytes(file, name)?,
            decoder,
        })
    }

    fn probe(&self, device: &Device, graphs: GraphLimits, blocks: usize) -> anyhow::Result<Probe> {
        let options = CudaOptions { graphs };
        let mut runner = CudaRunner::from_tensors(device, &self.config, &self.tensors, ModelIndex(0), options)?;
        runner.allocate(blocks)?;
        let plan = vec![
            Signal::Entropy,
            Signal::TopKEntropy(5),
            Signal::TopKLogits(3),
            Signal::TopKProbabilities(2),
        ];
        Ok(Probe::new(runner, vec![vec![], plan]))
    }
}

pub(super) fn run(device: &Device, report: &mut Report) -> anyhow::Result<()> {
    report.heading("models against the CPU, and in other batches")?;
    // Heads of 64 in groups of 4, and a vocabulary that is no whole number of tiles; heads of 128 in groups of 8.
    let sizes = RandomSizes {
        vocabulary: 1_003,
        hidden: 256,
        inner: 448,
        layers: 4,
        heads: 8,
        kv_heads: 2,
        head_dim: 64,
        positions: 1_024,
        tied: false,
    };
    let wide = RandomSizes {
        vocabulary: 4_160,
        kv_heads: 1,
        head_dim: 128,
        tied: true,
        ..sizes
    };
    let mut cases = [
        Case::embedded("tiny/small", Embedded::Small)?,
        Case::embedded("tiny/large", Embedded::Large)?,
        Case::random("random, 4 layers, heads of 64", sizes)?,
        Case::random("random, 4 layers, heads of 128", wide)?,
    ];
    for (index, case) in cases.iter_mut().enumerate() {
        check(device, case, (index % 2 == 1).then_some(LONG), report)?;
    }
    Ok(())
}

fn check(device: &Device, case: &mut Case, long: Option<usize>, report: &mut Report) -> anyhow::Result<()> {
    let mut random = Random(0);
    let sequences: Vec<Vec<TokenId>> = LENGTHS
        .into_iter()
        .chain(long)
        .map(|len| random.tokens(len, case.config.vocab_size))
        .collect();
    let each = sequences
        .iter()
        .map(Vec::len)
        .max()
        .unwrap_or(0)
        .div_ceil(KV_BLOCK_TOKENS)
        + 1;
    let mut blocks: Vec<BlockId> = (0..(each * sequences.len()) as u32).map(BlockId).collect();
    random.shuffle(&mut blocks);
    let tables: Vec<&[BlockId]> = blocks.chunks_exact(each).collect();

    let mut plain = case.probe(
        device,
        GraphLimits {
            tokens_max: 0,
            graphs_max: 0,
        },
        blocks.len(),
    )?;
    let mut graphs = case.probe(
        device,
        GraphLimits {
            tokens_max: 64,
            graphs_max: 8,
        },
        blocks.len(),
    )?;
    let name = case.name;
    let mut say = |what: &str, found: &str, holds| report.claim("models", &format!("{name}: {what}"), found, holds);

    let alone = alone(&mut plain, &sequences, &tables)?;
    let (error, agree) = against_cpu(case, &sequences, &tables, blocks.len(), &alone)?;
    let found = format!("relative error {error:.1e}, largest logit the same in {agree}");
    say("logits are the CPU's", &found, error <= ERROR_MAX)?;

    let (found, same) = signals(&mut plain, case, &alone)?;
    say("candidates and signals are those of its logits", &found, same)?;

    let mixed = mixed(&mut graphs, &mut random, &sequences, &tables)?;
    let same = alone
        .iter()
        .zip(&mixed)
        .filter(|(a, b)| same_bits(&a[a.len() - 1], b))
        .count();
    let found = format!(
        "the same bits in {same} of {} sequences, {} graphs",
        sequences.len(),
        graphs.runner.graphs()
    );
    say(
        "in pieces, in mixed batches, in graphs",
        &found,
        same == sequences.len(),
    )?;

    let (one, all) = (
        write_alone(&mut plain, &sequences, &tables, &alone)?,
        write(&mut graphs, &sequences, &tables, &mixed)?,
    );
    let written = one.len();
    say(
        "writing alone and in one batch",
        &format!("the same {written} tokens: {}", one == all),
        one == all,
    )?;
    Ok(())
}

/// The last rows of logits of every sequence, each fed alone in one step.
fn alone(probe: &mut Probe, sequences: &[Vec<TokenId>], tables: &[&[BlockId]]) -> anyhow::Result<Vec<Vec<Vec<f32>>>> {
    let mut all = Vec::new();
    for (tokens, table) in sequences.iter().zip(tables) {
        let mut batch = StepBatch::default();
        push(&mut batch, 0, tokens, table, LAST.min(tokens.len()));
        probe.step(&batch, RowAsk::GREEDY)?;
        let rows = 0..batch.logits_rows();
        all.push(rows.map(|row| probe.runner.logits(row)).collect::<Result<_, _>>()?);
    }
    Ok(all)
}

/// Largest relative error of a sequence's rows, and how often the CPU would have chosen the same token.
fn against_cpu(
    case: &mut Case,
    sequences: &[Vec<TokenId>],
    tables: &[&[BlockId]],
    blocks: usize,
    found: &[Vec<Vec<f32>>],
) -> anyhow::Result<(f64, String)> {
    let mut kv = KvPool::new(&case.config, blocks)?;
    let (mut error, mut agree, mut rows) = (0.0f64, 0, 0);
    for ((tokens, table), found) in sequences.iter().zip(tables).zip(found) {
        let mut batch = StepBatch::default();
        push(&mut batch, 0, tokens, table, found.len());
        let logits = case.decoder.forward(&batch, &mut kv).logits;
        for (expected, found) in logits.chunks_exact(case.config.vocab_size).zip(found) {
            error = error.max(distance(found, expected));
            agree += usize::from(largest(found) == largest(expected));
            rows += 1;
        }
    }
    Ok((error, format!("{agree} of {rows} rows")))
}

/// Candidates, signals and draws of one more step, against the host's functions of the same logits.
fn signals(probe: &mut Probe, case: &Case, alone: &[Vec<Vec<f32>>]) -> anyhow::Result<(String, bool)> {
    let vocabulary = case.config.vocab_size;
    let (mut sampler, mut host) = (Sampler::new(ModelIndex(0)), Signals::default());
    let (mut worst, mut candidates, mut rows) = (0.0f32, 0, 0);
    let table: Vec<BlockId> = (0..3).map(BlockId).collect();
    for (place, _) in alone.iter().enumerate() {
        let tokens: Vec<TokenId> = (0..5).map(|i| ((place * 7 + i * 3) % vocabulary) as TokenId).collect();
        let mut batch = StepBatch::default();
        push(&mut batch, 0, &tokens, &table, tokens.len());
        let temperature = if place % 2 == 0 { 0.0 } else { 0.8 };
        let sampling = Sampling {
            temperature,
            ..Sampling::GREEDY
        };
        let ask = RowAsk {
            sampling,
            seed: place as u64,
            plan: 1,
            newlines: 1,
            ..RowAsk::GREEDY
        };
        probe.step(&batch, ask)?;
        let out = probe.out.clone();
        for row in 0..tokens.len() {
            let logits = probe.runner.logits(row)?;
            let position = row as u64 + 1;
            let key = SignalKey {
                seed: ask.seed,
                position,
                newlines: ask.newlines,
            };
            let mut expected = Vec::new();
            host.append(&probe.plans[1], Some(&logits), key, |_| 0.0, &mut expected);
            for (found, expected) in out.row_signals(row).iter().zip(&expected) {
                worst = worst.max((found - expected).abs() / expected.abs().max(1.0));
            }
            let candidate = sampler.sample(&logits, &ask, position);
            candidates += usize::from(candidate == Some(out.candidates[row]) && out.finite[row]);
            rows += 1;
        }
    }
    let found = format!("{candidates} of {rows} candidates, signals within {worst:.1e}");
    Ok((found, candidates == rows && worst <= 1e-5))
}

/// The last row of logits of every sequence, all fed together in random pieces.
fn mixed(
    probe: &mut Probe,
    random: &mut Random,
    sequences: &[Vec<TokenId>],
    tables: &[&[BlockId]],
) -> anyhow::Result<Vec<Vec<f32>>> {
    let mut fed = vec![0; sequences.len()];
    let mut last = vec![Vec::new(); sequences.len()];
    while fed.iter().zip(sequences).any(|(fed, tokens)| *fed < tokens.len()) {
        let mut batch = StepBatch::default();
        let mut ends = Vec::new();
        for (index, (tokens, table)) in sequences.iter().zip(tables).enumerate() {
            let left = tokens.len() - fed[index];
            if left == 0 || random.below(3) == 0 {
                continue;
            }
            let piece = (1 + random.below(30)).min(left);
            let ended = piece == left;
            push(
                &mut batch,
                fed[index],
                &tokens[fed[index]..fed[index] + piece],
                table,
                usize::from(ended),
            );
            fed[index] += piece;
            ends.extend(ended.then_some(index));
        }
        if batch.tokens.is_empty() {
            continue;
        }
        probe.step(&batch, RowAsk::GREEDY)?;
        for (row, index) in ends.into_iter().enumerate() {
            last[index] = probe.runner.logits(row)?;
        }
    }
    Ok(last)
}

/// Greedy tokens of all sequences, which have been fed, in one batch.
fn write(
    probe: &mut Probe,
    sequences: &[Vec<TokenId>],
    tables: &[&[BlockId]],
    last: &[Vec<f32>],
) -> anyhow::Result<Vec<TokenId>> {
    let mut next: Vec<TokenId> = last.iter().map(|logits| largest(logits)).collect();
    let mut written: Vec<Vec<TokenId>> = next.iter().map(|token| vec![*token]).collect();
    for step in 1..WRITTEN {
        let mut batch = StepBatch::default();
        for ((tokens, table), token) in sequences.iter().zip(tables).zip(&next) {
            push(&mut batch, tokens.len() + step - 1, &[*token], table, 1);
        }
        probe.step(&batch, RowAsk::GREEDY)?;
        next.clone_from(&probe.out.candidates);
        for (all, token) in written.iter_mut().zip(&next) {
            all.push(*token);
        }
    }
    Ok(written.concat())
}

/// The same, one sequence after the other.
fn write_alone(
    probe: &mut Probe,
    sequences: &[Vec<TokenId>],
    tables: &[&[BlockId]],
    logits: &[Vec<Vec<f32>>],
) -> anyhow::Result<Vec<TokenId>> {
    let mut all = Vec::new();
    for (index, rows) in logits.iter().enumerate() {
        // Other checks have written over the pool.
        let mut batch = StepBatch::default();
        push(&mut batch, 0, &sequences[index], tables[index], 1);
        probe.step(&batch, RowAsk::GREEDY)?;
        let last = &rows[rows.len() - 1..];
        all.extend(write(probe, &sequences[index..=index], &tables[index..=index], last)?);
    }
    Ok(all)
}

fn largest(logits: &[f32]) -> TokenId {
    let ids = (0..).zip(logits);
    ids.fold(
        (0, f32::NEG_INFINITY),
        |best, (id, z)| if *z > best.1 { (id, *z) } else { best },
    )
    .0
}

fn distance(found: &[f32], expected: &[f32]) -> f64 {
    let square = |value: f32| f64::from(value) * f64::from(value);
    let difference: f64 = found.iter().zip(expected).map(|(a, b)| square(a - b)).sum();
    (difference / expected.iter().map(|value| square(*value)).sum::<f64>()).sqrt()
}

fn same_bits(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}

/// Draws that the same run repeats: the counter of a seeded generator.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 += 1;
        (bits(SEED, self.0, Purpose::Policy(1)) % n as u64) as usize
    }

    fn tokens(&mut self, len: usize, vocabulary: usize) -> Vec<TokenId> {
        (0..len).map(|_| self.below(vocabulary) as TokenId).collect()
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}
