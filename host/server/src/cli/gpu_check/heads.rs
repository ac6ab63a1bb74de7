//! Heads on the device: scores against those of the CPU's runner, and against themselves however rows are fed.

use std::path::Path;

use anyhow::Context as _;
use tokenrouter_core::limits::KV_BLOCK_TOKENS;
use tokenrouter_core::signal::Signal;
use tokenrouter_core::step::StepBatch;
use tokenrouter_core::{BlockId, ModelIndex, TokenId};
use tokenrouter_host::deployment::read_head;
use tokenrouter_model::cuda::{CudaOptions, CudaRunner, Device, GraphLimits};
use tokenrouter_model::heads::{
    Activation, FORMAT, HeadFile, HeadHeader, HeadInput, HeadKind, HeadModel, Network, random,
};
use tokenrouter_model::{DecoderRunner, Embedded, RowAsk, Runner, Sampling, Source, StepOutput};

use super::probe::push;
use super::report::Report;

/// Weights and activations are rounded to bf16, 2^-9 of their size each time, and the scores' scale is 1.
const ERROR_MAX: f32 = 0.03;
/// Lengths of the sequences; together more rows than the smallest token tile of a product has.
const LENGTHS: [usize; 5] = [2, 5, 17, 20, 9];
/// Rows of logits at the end of each.
const LAST: usize = 2;
const DRAWN: Sampling = Sampling {
    temperature: 2.0,
    ..Sampling::GREEDY
};

type Heads = Vec<(&'static str, HeadFile)>;

pub(super) fn run(device: &Device, report: &mut Report) -> anyhow::Result<()> {
    report.heading("heads of tiny/small against the CPU, and in other batches")?;
    let source = Source::Embedded(Embedded::Small);
    let config = source.config()?;
    let heads = heads(config.hidden_size, config.vocab_size)?;
    let graphs = |tokens_max| CudaOptions {
        graphs: GraphLimits {
            tokens_max,
            graphs_max: 8,
        },
    };
    let mut cpu = DecoderRunner::load(&source, ModelIndex(0))?;
    let mut plain = CudaRunner::load(device, &source, ModelIndex(0), graphs(0))?;
    let mut recorded = CudaRunner::load(device, &source, ModelIndex(0), graphs(64))?;
    let input = Input::new(config.vocab_size, &heads);
    input.prepare(&mut cpu, &heads)?;
    input.prepare(&mut plain, &heads)?;
    input.prepare(&mut recorded, &heads)?;

    for (what, sampling) in [("greedy", Sampling::GREEDY), ("drawn", DRAWN)] {
        let expected = input.alone(&mut cpu, sampling)?;
        let alone = input.alone(&mut plain, sampling)?;
        for (head, (name, _)) in heads.iter().enumerate() {
            // Where the logits nearly agree on two tokens, rounding may choose; scores are then of different things.
            let same = expected.iter().zip(&alone).filter(|(a, b)| a.candidate == b.candidate);
            let differences: Vec<f32> = same.map(|(a, b)| (a.scores[head] - b.scores[head]).abs()).collect();
            let worst = differences.iter().copied().fold(0.0, f32::max);
            let found = format!(
                "largest difference {worst:.1e}, {} of {} rows",
                differences.len(),
                alone.len()
            );
            let holds = worst <= ERROR_MAX && differences.len() + 1 >= alone.len();
            report.claim(
                "heads",
                &format!("{name}, {what} candidates: scores are the CPU's"),
                &found,
                holds,
            )?;
        }
        let together = input.together(&mut recorded, sampling, |_| 0)?;
        let same = together.iter().zip(&alone).filter(|(a, b)| a == b).count();
        let found = format!(
            "the same bits in {same} of {} rows, {} graphs",
            alone.len(),
            recorded.graphs()
        );
        let what = format!("{what} candidates: one batch, in graphs");
        report.claim("heads", &what, &found, same == alone.len())?;
        if sampling.is_greedy() {
            let head = |sequence: usize| sequence % heads.len();
            let each = input.together(&mut recorded, sampling, |sequence| 1 + head(sequence))?;
            let expected = alone.iter().enumerate().map(|(row, all)| all.scores[head(row / LAST)]);
            let same = each
                .iter()
                .zip(expected)
                .filter(|(row, score)| row.scores == [*score])
                .count();
            let found = format!("the same bits in {same} of {} rows", alone.len());
            report.claim("heads", "rows that ask for one head each", &found, same == alone.len())?;
        }
    }
    Ok(())
}

/// The binary's own for the small model, and random ones of every other shape that a header allows.
fn heads(hidden: usize, vocabulary: usize) -> anyhow::Result<Heads> {
    use HeadInput::{Hidden, Logits, Token};
    let mut heads = Vec::new();
    for name in ["r2r", "citer", "co-llm"] {
        let (file, _) = read_head(Path::new(&format!("embedded:tiny/{name}")), name, "small")?;
        heads.push((name, file));
    }
    let classifier = |dims: &[usize], classes, normalize_input| Network::Classifier {
        dims: dims.to_vec(),
        expansion: 2,
        classes,
        normalize_input,
    };
    let mlp = |dims: &[usize], activation| Network::Mlp {
        dims: dims.to_vec(),
        activation: Some(activation),
    };
    for (seed, (name, kind, inputs, top_logits, network)) in (1..).zip([
        (
            "blocks of other widths",
            HeadKind::R2r,
            vec![Hidden],
            None,
            classifier(&[40, 72, 40], 3, true),
        ),
        (
            "hidden and logits",
            HeadKind::R2r,
            vec![Hidden, Logits],
            Some(17),
            classifier(&[64], 1, false),
        ),
        (
            "logits alone",
            HeadKind::R2r,
            vec![Logits],
            Some(33),
            classifier(&[48], 1, true),
        ),
        (
            "mlp of all inputs",
            HeadKind::Mlp,
            vec![Logits, Token, Hidden],
            Some(7),
            mlp(&[50, 33], Activation::Gelu),
        ),
        (
            "mlp of embeddings",
            HeadKind::Mlp,
            vec![Token],
            None,
            mlp(&[20], Activation::Silu),
        ),
    ]) {
        let header = HeadHeader {
            format: FORMAT,
            kind,
            model: HeadModel {
                name: None,
                hidden_size: Some(hidden),
                vocabulary: Some(vocabulary),
            },
            inputs,
            top_logits,
            network,
            threshold: None,
            trained: false,
            source: String::new(),
        };
        heads.push((name, random(header, seed)?));
    }
    Ok(heads)
}

/// A row of logits: its candidate and the scores that it asked for.
#[derive(Debug, PartialEq)]
struct Row {
    candidate: TokenId,
    scores: Vec<f32>,
}

/// What is fed, and what is asked: plan 0 names all heads, the others one each.
struct Input {
    sequences: Vec<Vec<TokenId>>,
    tables: Vec<Vec<BlockId>>,
    plans: Vec<Vec<Signal>>,
}

impl Input {
    fn new(vocabulary: usize, heads: &Heads) -> Self {
        let score = |(name, _): &(&str, HeadFile)| Signal::HeadScore((*name).to_owned());
        let each = heads.iter().map(|head| vec![score(head)]);
        let token = |sequence: usize, i: usize| ((sequence * 31 + i * 7 + i * i) % vocabulary) as TokenId;
        let table = |sequence: usize| (0..2).map(|i| BlockId((2 * sequence + i) as u32)).collect();
        Self {
            sequences: LENGTHS
                .iter()
                .enumerate()
                .map(|(sequence, len)| (0..*len).map(|i| token(sequence, i)).collect())
                .collect(),
            tables: (0..LENGTHS.len()).map(table).collect(),
            plans: std::iter::once(heads.iter().map(score).collect()).chain(each).collect(),
        }
    }

    fn prepare(&self, runner: &mut dyn Runner, heads: &Heads) -> anyhow::Result<()> {
        for (name, file) in heads {
            runner
                .add_head(name, file.clone())
                .with_context(|| (*name).to_owned())?;
        }
        Ok(runner.allocate(2 * self.sequences.len())?)
    }

    /// The last rows of every sequence, each fed in a step of its own.
    fn alone(&self, runner: &mut dyn Runner, sampling: Sampling) -> anyhow::Result<Vec<Row>> {
        let each = (0..self.sequences.len()).map(|sequence| self.step(runner, &[sequence], sampling, |_| 0));
        Ok(each
            .collect::<anyhow::Result<Vec<_>>>()?
            .into_iter()
            .flatten()
            .collect())
    }

    /// The same, all fed in one step; `plan` is a sequence's plan.
    fn together(
        &self,
        runner: &mut dyn Runner,
        sampling: Sampling,
        plan: impl Fn(usize) -> usize,
    ) -> anyhow::Result<Vec<Row>> {
        let all: Vec<usize> = (0..self.sequences.len()).collect();
        self.step(runner, &all, sampling, plan)
    }

    fn step(
        &self,
        runner: &mut dyn Runner,
        sequences: &[usize],
        sampling: Sampling,
        plan: impl Fn(usize) -> usize,
    ) -> anyhow::Result<Vec<Row>> {
        let (mut batch, mut asks) = (StepBatch::default(), Vec::new());
        for sequence in sequences {
            let (tokens, table) = (&self.sequences[*sequence], &self.tables[*sequence]);
            debug_assert!(tokens.len() <= table.len() * KV_BLOCK_TOKENS);
            push(&mut batch, 0, tokens, table, LAST);
            let ask = RowAsk {
                sampling,
                seed: *sequence as u64,
                plan: plan(*sequence) as u32,
                ..RowAsk::GREEDY
            };
            asks.extend([ask; LAST]);
        }
        let mut out = StepOutput::default();
        runner.step(&batch, &asks, &self.plans, &mut out)?;
        anyhow::ensure!(out.finite.iter().all(|finite| *finite), "a score is no number");
        let row = |row: usize| Row {
            candidate: out.candidates[row],
            scores: out.row_signals(row).to_vec(),
        };
        Ok((0..asks.len()).map(row).collect())
    }
}
