//! Training on examples whose rule is known.

use tokenrouter_core::draw::uniform_f32;

use super::*;
use crate::heads::train::{Example, Observation};
use crate::heads::{Activation, FORMAT, Head, HeadInput, HeadKind, HeadModel, HeadStep, HeadTarget, Network};

const HIDDEN: usize = 8;
const VOCABULARY: usize = 5;
const TOP: usize = 3;

fn header(kind: HeadKind) -> HeadHeader {
    let mlp = |dims: Vec<usize>| Network::Mlp {
        activation: (!dims.is_empty()).then_some(Activation::Relu),
        dims,
    };
    let classifier = Network::Classifier {
        dims: vec![12, 8],
        expansion: 2,
        classes: 1,
        normalize_input: true,
    };
    let all = kind == HeadKind::R2r;
    HeadHeader {
        format: FORMAT,
        kind,
        model: HeadModel {
            name: None,
            hidden_size: Some(HIDDEN),
            vocabulary: Some(VOCABULARY),
        },
        inputs: match all {
            true => vec![HeadInput::Hidden, HeadInput::Token, HeadInput::Logits],
            false => vec![HeadInput::Hidden],
        },
        top_logits: all.then_some(TOP),
        network: match kind {
            HeadKind::R2r => classifier,
            HeadKind::Citer => mlp(vec![16]),
            _ => mlp(Vec::new()),
        },
        threshold: None,
        trained: true,
        source: "a test".to_owned(),
    }
}

fn draws(seed: u64, position: usize, count: usize) -> Vec<f32> {
    let draw = |number| uniform_f32(seed, position as u64, Purpose::Policy(number as u32)) * 2.0 - 1.0;
    (0..count).map(draw).collect()
}

/// The row of the embedding table of a token.
fn embedding(token: usize) -> Vec<f32> {
    draws(99, token, HIDDEN)
}

/// Positive where the first number of the hidden state is above the second: layer norms keep that.
fn examples(seed: u64, count: usize) -> Vec<Example> {
    let example = |index: usize| {
        let (hidden, candidate) = (draws(seed, index, HIDDEN), index % VOCABULARY);
        let mut top_logits = draws(seed + 1, index, TOP);
        top_logits.sort_by(|a, b| b.total_cmp(a));
        Example {
            text: index / 10,
            positive: hidden[0] > hidden[1],
            observation: Observation {
                hidden,
                candidate: candidate as u32,
                embedding: embedding(candidate),
                top_logits,
            },
        }
    };
    (0..count).map(example).collect()
}

fn fitted(kind: HeadKind, epochs: usize, seed: u64, resume: Option<Checkpoint>) -> (Fitted, Vec<Checkpoint>) {
    let header = header(kind);
    let (training, held_out) = Examples::divide(&header, &examples(5, 1_200), 0.2, 0).unwrap();
    let options = FitOptions {
        epochs,
        batch: 64,
        // Few steps, and the fewer weights there are, the further each has to go.
        rate: match kind {
            HeadKind::R2r => 1e-2,
            HeadKind::Citer => 3e-2,
            _ => 1e-1,
        },
        seed,
        ..FitOptions::default()
    };
    let mut kept = Vec::new();
    let fitted = fit::<HeadError>(&header, (&training, &held_out), &options, resume, |checkpoint| {
        kept.push(checkpoint.clone());
        Ok(())
    });
    (fitted.unwrap(), kept)
}

#[test]
fn a_rule_is_learnt_and_held_out_examples_show_it() {
    for kind in [HeadKind::R2r, HeadKind::Citer, HeadKind::CoLlm] {
        let (fitted, _) = fitted(kind, 12, 1, None);
        let loss = fitted.held_out.loss();
        // Ignorance costs ln 2 = 0.69.
        assert!(loss < 0.4, "{kind}: {:?}", fitted.epochs);
        let best = fitted
            .epochs
            .iter()
            .map(|epoch| epoch.held_out)
            .fold(f64::MAX, f64::min);
        assert!((loss - best).abs() < 1e-6, "{kind}: {loss}, the best epoch has {best}");
        let found = fitted.held_out.for_recall(0.95).unwrap();
        assert!(found.recall >= 0.95 && found.precision > 0.75, "{kind}: {found:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_file_and_another_seed_another() {
    let bytes = |seed| fitted(HeadKind::R2r, 2, seed, None).0.head.to_bytes().unwrap();
    assert_eq!(bytes(1), bytes(1));
    assert_ne!(bytes(1), bytes(2));
}

#[test]
fn training_goes_on_from_a_checkpoint_as_if_it_had_not_stopped() {
    let (whole, kept) = fitted(HeadKind::Citer, 4, 1, None);
    // Written and read back, as a file is.
    let text = serde_json::to_string(&kept[1]).unwrap();
    let (resumed, later) = fitted(HeadKind::Citer, 4, 1, Some(serde_json::from_str(&text).unwrap()));
    assert_eq!(later.len(), 2);
    assert_eq!(resumed.epochs, whole.epochs);
    assert_eq!(resumed.head.to_bytes().unwrap(), whole.head.to_bytes().unwrap());
}

#[test]
fn scores_of_the_trained_file_are_those_of_the_training() {
    for kind in [HeadKind::R2r, HeadKind::Citer, HeadKind::CoLlm] {
        let (fitted, _) = fitted(kind, 2, 3, None);
        let header = header(kind);
        let examples = examples(8, 40);
        let (all, _) = Examples::divide(&header, &examples, 0.0, 0).unwrap();
        let weights = Weights::new(&header, &fitted.head.clone().into_values()).unwrap();
        let expected = probabilities(&weights, &header, &all).unwrap();

        let target = HeadTarget {
            hidden_size: HIDDEN,
            vocabulary: VOCABULARY,
        };
        let head = Head::new(
            HeadFile::parse(&fitted.head.to_bytes().unwrap(), "test").unwrap(),
            target,
        )
        .unwrap();
        let rows: Vec<f32> = examples.iter().flat_map(|it| it.observation.hidden.clone()).collect();
        let hidden = Tensor::from_vec(rows, (examples.len(), HIDDEN), &Device::Cpu).unwrap();
        let table: Vec<f32> = (0..VOCABULARY).flat_map(embedding).collect();
        let table = Tensor::from_vec(table, (VOCABULARY, HIDDEN), &Device::Cpu).unwrap();
        let logits: Vec<f32> = examples
            .iter()
            .flat_map(|it| {
                it.observation
                    .top_logits
                    .iter()
                    .copied()
                    .chain([-50.0; VOCABULARY - TOP])
            })
            .collect();
        let candidates: Vec<u32> = examples.iter().map(|it| it.observation.candidate).collect();
        let step = HeadStep {
            hidden: &hidden,
            embedding: &table,
            logits: &logits,
            candidates: &candidates,
        };
        let all: Vec<u32> = (0..examples.len() as u32).collect();
        for (found, expected) in head.scores(&step, &all).unwrap().iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-5, "{kind}: {found}, expected {expected}");
        }
    }
}

#[test]
fn examples_of_one_kind_are_refused() {
    let header = header(HeadKind::CoLlm);
    let mut examples = examples(5, 200);
    examples.iter_mut().for_each(|example| example.positive = false);
    let (training, held_out) = Examples::divide(&header, &examples, 0.2, 0).unwrap();
    let both = (&training, &held_out);
    let error = fit::<HeadError>(&header, both, &FitOptions::default(), None, |_| Ok(())).unwrap_err();
    assert!(error.to_string().contains("0 of"), "{error}");
}

#[test]
fn a_text_is_held_out_as_a_whole() {
    let header = header(HeadKind::CoLlm);
    let examples = examples(5, 2_000);
    let (training, held_out) = Examples::divide(&header, &examples, 0.25, 7).unwrap();
    assert_eq!(training.len() + held_out.len(), examples.len());
    // Texts have ten examples each.
    assert!(
        held_out.len().is_multiple_of(10) && (30..=70).contains(&(held_out.len() / 10)),
        "{}",
        held_out.len()
    );
}
