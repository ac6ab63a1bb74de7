//! How long steps take, with random weights of true shapes. The least time is that of reading the decoder's weights once.

use std::time::Instant;

use serde_json::json;
use tokenrouter_core::limits::KV_BLOCK_TOKENS;
use tokenrouter_core::signal::Signal;
use tokenrouter_core::step::StepBatch;
use tokenrouter_core::{BlockId, ModelIndex, TokenId};
use tokenrouter_model::cuda::{CudaOptions, CudaRunner, Device, GraphLimits};
use tokenrouter_model::heads::{FORMAT, HeadHeader, HeadInput, HeadKind, HeadModel, Network, random};
use tokenrouter_model::random::RandomSizes;
use tokenrouter_model::{RowAsk, Runner as _};

use super::probe::{Probe, push};
use super::report::Report;
use crate::cli::table::Table;

/// Batches of decodes: requests with one new token each.
const DECODES: [usize; 5] = [1, 2, 4, 8, 16];
/// Extends: new tokens of one request.
const EXTENDS: [usize; 8] = [2, 4, 8, 16, 24, 32, 48, 60];
/// The name of the head that is asked for.
const HEAD: &str = "r2r";
/// What each request holds before the step.
const HELD: usize = 1_000;
/// Steps that are timed after two that are not; the middle time counts.
const STEPS: usize = 15;

pub(super) fn run(device: &Device, report: &mut Report) -> anyhow::Result<()> {
    for (name, sizes) in [
        ("Qwen3-0.6B", RandomSizes::QWEN3_0_6B),
        ("Qwen3-32B", RandomSizes::QWEN3_32B),
    ] {
        model(device, name, sizes, report)?;
    }
    Ok(())
}

fn model(device: &Device, name: &str, sizes: RandomSizes, report: &mut Report) -> anyhow::Result<()> {
    let config = sizes.config()?;
    let each = (HELD + 64).div_ceil(KV_BLOCK_TOKENS);
    let requests = DECODES[DECODES.len() - 1];
    let start = Instant::now();
    let runner = CudaRunner::random(device, &config, 1, ModelIndex(0), CudaOptions::default())?;
    report.heading(&format!(
        "{name}, random weights ({:.1} s), {HELD} tokens held by each request: milliseconds a step",
        start.elapsed().as_secs_f64()
    ))?;
    let least_ms = report
        .bandwidth
        .map(|bandwidth| runner.streamed_bytes() as f64 / bandwidth * 1e3);
    let mut probe = Probe::new(runner, vec![vec![], vec![Signal::HeadScore(HEAD.to_owned())]]);
    probe.runner.allocate(each * requests)?;
    let tables: Vec<Vec<BlockId>> = (0..requests)
        .map(|request| {
            (request * each..(request + 1) * each)
                .map(|id| BlockId(id as u32))
                .collect()
        })
        .collect();

    let mut table = Table::new(["step", "ms", "of the bound"].map(str::to_owned).to_vec());
    let mut line = |what: String, batch: &StepBatch, plan: u32, probe: &mut Probe| -> anyhow::Result<()> {
        let ms = milliseconds(probe, batch, plan)?;
        let share = least_ms.map(|least| least / ms);
        let shown = share.map_or("-".to_owned(), |share| format!("{:.0} %", share * 100.0));
        table.push(vec![what.clone(), format!("{ms:.3}"), shown]);
        report.measured(json!({ "part": "steps", "model": name, "step": what, "ms": ms, "share_of_bound": share }));
        Ok(())
    };
    for count in DECODES {
        let mut batch = StepBatch::default();
        for blocks in &tables[..count] {
            push(&mut batch, HELD, &[7], blocks, 1);
        }
        line(format!("decode of {count}"), &batch, 0, &mut probe)?;
    }
    for count in EXTENDS {
        let mut batch = StepBatch::default();
        let tokens: Vec<TokenId> = (0..count as u32).collect();
        push(&mut batch, HELD, &tokens, &tables[0], 1);
        line(format!("extend of {count}"), &batch, 0, &mut probe)?;
    }
    let mut batch = StepBatch::default();
    push(&mut batch, HELD, &[7], &tables[0], 1);
    if sizes.hidden == RandomSizes::QWEN3_0_6B.hidden {
        // Small models are asked; the large one needs none.
        probe.runner.add_head(HEAD, random(classifier(sizes), 1)?)?;
        line("decode of 1, R2R's classifier".to_owned(), &batch, 1, &mut probe)?;
    }
    probe.runner.set_graphs(GraphLimits {
        tokens_max: 0,
        graphs_max: 0,
    });
    line("decode of 1, no graph".to_owned(), &batch, 0, &mut probe)?;
    Ok(report.table(&table)?)
}

/// A head of the sizes of R2R's published classifier: 54.7 million weights at a hidden size of 1,024.
fn classifier(sizes: RandomSizes) -> HeadHeader {
    HeadHeader {
        format: FORMAT,
        kind: HeadKind::R2r,
        model: HeadModel {
            hidden_size: Some(sizes.hidden),
            ..HeadModel::default()
        },
        inputs: vec![HeadInput::Hidden, HeadInput::Token, HeadInput::Logits],
        top_logits: Some(100),
        network: Network::Classifier {
            dims: vec![sizes.hidden; 6],
            expansion: 4,
            classes: 1,
            normalize_input: false,
        },
        threshold: None,
        trained: false,
        source: String::new(),
    }
}

fn milliseconds(probe: &mut Probe, batch: &StepBatch, plan: u32) -> anyhow::Result<f64> {
    let ask = RowAsk { plan, ..RowAsk::GREEDY };
    for _ in 0..2 {
        probe.step(batch, ask)?;
    }
    let mut times = Vec::with_capacity(STEPS);
    for _ in 0..STEPS {
        let start = Instant::now();
        probe.step(batch, ask)?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[STEPS / 2])
}
