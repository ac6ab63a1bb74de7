//! Heads as part of a step: the right rows, once, and the same bits whoever else is in the batch.

use candle_core::{Device, Tensor};
use tokenrouter_core::ModelIndex;
use tokenrouter_core::signal::Signal;
use tokenrouter_core::step::StepBatch;
use tokenrouter_model::decoder::{Decoder, KvPool};
use tokenrouter_model::heads::{Head, HeadFile, HeadKind, HeadStep, HeadTarget, random};
use tokenrouter_model::{DecoderRunner, RowAsk, Runner, StepOutput};

use super::fixtures::{Expected, classifier, layers};
use super::format;
use crate::build::{ODD, Random, RandomModel, blocks, push_row};

const VOCABULARY: usize = ODD[0];
const HIDDEN: usize = ODD[1];

fn head(name: &str) -> Signal {
    Signal::HeadScore(name.to_owned())
}

fn ask(plan: u32) -> RowAsk<'static> {
    RowAsk { plan, ..RowAsk::GREEDY }
}

/// Every head alone on a row and on every batch around it: rows do not see each other.
#[test]
fn a_score_has_the_same_bits_in_every_batch() {
    let expected = Expected::read();
    let target = expected.target();
    let rows = expected.hidden.len() as u32;
    for (name, header) in [
        ("r2r", classifier(12, 120, &[17, 9, 33])),
        ("citer", layers(HeadKind::Citer, 12, &[24])),
        ("co-llm", layers(HeadKind::CoLlm, 12, &[])),
    ] {
        let mut header = header;
        header.model.vocabulary = Some(target.vocabulary);
        let head = Head::new(random(header, 3).unwrap(), target).unwrap();
        let alone: Vec<u32> = (0..rows)
            .map(|row| expected.scores(&head, &[row])[0].to_bits())
            .collect();
        assert!(
            alone.iter().any(|bits| *bits != alone[0]),
            "{name}: rows differ, and so must their scores"
        );
        for first in 0..rows {
            for end in first + 1..=rows {
                let range: Vec<u32> = (first..end).collect();
                let found: Vec<u32> = expected
                    .scores(&head, &range)
                    .iter()
                    .map(|score| score.to_bits())
                    .collect();
                assert_eq!(
                    found,
                    alone[first as usize..end as usize],
                    "{name}, rows {first}..{end}"
                );
            }
        }
        let backwards: Vec<u32> = (0..rows).rev().collect();
        let found: Vec<u32> = expected
            .scores(&head, &backwards)
            .iter()
            .map(|score| score.to_bits())
            .collect();
        assert!(found.iter().eq(alone.iter().rev()), "{name}, backwards");
    }
}

fn model() -> RandomModel {
    RandomModel::new(ODD, false, &mut Random::new(5))
}

fn runner(heads: &[(&str, HeadFile)]) -> DecoderRunner {
    let model = model();
    let mut runner = DecoderRunner::new(model.config(), &mut model.weights(), ModelIndex(0)).unwrap();
    for (name, head) in heads {
        runner.add_head(name, head.clone()).unwrap();
    }
    runner.allocate(16).unwrap();
    runner
}

fn batch() -> StepBatch {
    let mut batch = StepBatch::default();
    push_row(&mut batch, 1, 0, &[3, 4, 5], &blocks(0..1), 1);
    push_row(&mut batch, 2, 0, &[6, 7], &blocks(1..2), 2);
    push_row(&mut batch, 3, 0, &[8], &blocks(2..3), 0);
    push_row(&mut batch, 4, 0, &[9, 9, 2, 1], &blocks(3..4), 1);
    batch
}

/// A step's scores are those of the hidden states, candidates and logits of its rows; plans decide which rows get which, and
/// where they stand among the columns.
#[test]
fn a_step_gives_each_row_the_scores_that_its_plan_asks_for() {
    let (r2r, linear) = (
        random(classifier(HIDDEN, VOCABULARY, &[10, 20]), 1).unwrap(),
        random(
            {
                let mut header = layers(HeadKind::Linear, HIDDEN, &[]);
                header.model.vocabulary = None;
                header
            },
            2,
        )
        .unwrap(),
    );
    let mut runner = runner(&[("r2r", r2r.clone()), ("mine", linear.clone())]);
    let plans = [
        vec![Signal::Position, head("r2r")],
        vec![],
        vec![head("mine"), Signal::Entropy, head("r2r"), head("mine")],
    ];
    let (mut out, batch) = (StepOutput::default(), batch());
    runner
        .step(&batch, &[ask(0), ask(1), ask(2), ask(2)], &plans, &mut out)
        .unwrap();

    let model = model();
    let mut decoder = Decoder::new(&model.config(), &mut model.weights()).unwrap();
    let mut table = vec![0.0; VOCABULARY * HIDDEN];
    for (token, row) in (0..).zip(table.chunks_exact_mut(HIDDEN)) {
        decoder.embed(token, row);
    }
    let step = decoder.forward(&batch, &mut KvPool::new(&model.config(), 16).unwrap());
    let step = HeadStep {
        hidden: &Tensor::from_slice(step.hidden, (4, HIDDEN), &Device::Cpu).unwrap(),
        embedding: &Tensor::from_vec(table, (VOCABULARY, HIDDEN), &Device::Cpu).unwrap(),
        logits: step.logits,
        candidates: &out.candidates,
    };
    let target = HeadTarget {
        hidden_size: HIDDEN,
        vocabulary: VOCABULARY,
    };
    let scores = |file: &HeadFile| {
        Head::new(file.clone(), target)
            .unwrap()
            .scores(&step, &[0, 1, 2, 3])
            .unwrap()
    };
    let (r2r, mine) = (scores(&r2r), scores(&linear));
    assert_eq!(out.finite, [true; 4]);
    assert_eq!(out.row_signals(0), [3.0, r2r[0]]);
    assert!(out.row_signals(1).is_empty());
    for row in [2, 3] {
        let entropy = out.row_signals(row)[1];
        assert_eq!(out.row_signals(row), [mine[row], entropy, r2r[row], mine[row]]);
        assert!(entropy > 0.0);
    }
    // A second step starts afresh.
    runner.step(&batch, &[ask(1); 4], &plans, &mut out).unwrap();
    assert!(out.signals.is_empty());
}

/// Comparisons with what is not a number are false, so a request would never be handed over, without a sign.
#[test]
fn a_score_that_is_no_number_ends_its_row_and_no_other() {
    let weights = |value: f32| vec![value; HIDDEN];
    // |h| summed up to infinity in two units, and one taken from the other.
    let up = [weights(f32::MAX), weights(f32::MAX)].concat();
    let header = serde_json::json!({
        "format": 1, "kind": "mlp", "model": {"hidden_size": HIDDEN}, "inputs": ["hidden"],
        "network": {"type": "mlp", "dims": [2], "activation": "gelu"}, "trained": true, "source": "by hand",
    });
    let bytes = format::file(
        &header.to_string(),
        &[
            ("layers.0.weight", &[2, HIDDEN], &up),
            ("layers.0.bias", &[2], &[f32::MAX; 2]),
            ("layers.1.weight", &[1, 2], &[1.0, -1.0]),
            ("layers.1.bias", &[1], &[0.0]),
        ],
    );
    let head_file = HeadFile::parse(&bytes, "h.safetensors").unwrap();
    let mut runner = runner(&[("bad", head_file)]);
    let (mut out, batch) = (StepOutput::default(), batch());
    let plans = [vec![head("bad"), Signal::Entropy], vec![Signal::Entropy]];
    runner
        .step(&batch, &[ask(0), ask(1), ask(0), ask(1)], &plans, &mut out)
        .unwrap();
    assert_eq!(&out.finite[..2], [false, true]);
    assert!(out.finite[3]);
    assert_eq!((out.candidates[0], out.row_signals(0)), (0, &[0.0, 0.0][..]));
    assert!(out.row_signals(1)[0] > 0.0);
}
