//! Checkpoints in their published layouts with the scores they must give, as `tests/fixtures/heads/make.py` wrote them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use candle_core::{Device, Tensor};
use serde::Deserialize;
use tokenrouter_core::TokenId;
use tokenrouter_model::heads::checkpoint::Checkpoint;
use tokenrouter_model::heads::convert::{ConvertOptions, convert};
use tokenrouter_model::heads::{
    Activation, FORMAT, Head, HeadError, HeadFile, HeadHeader, HeadInput, HeadKind, HeadModel, HeadStep, HeadTarget,
    Network,
};

/// The rows that all fixtures are evaluated on, and the scores by file.
#[derive(Deserialize)]
pub struct Expected {
    pub embedding: Vec<Vec<f32>>,
    pub hidden: Vec<Vec<f32>>,
    pub tokens: Vec<TokenId>,
    pub logits: Vec<Vec<f32>>,
    pub scores: BTreeMap<String, Vec<f64>>,
}

impl Expected {
    pub fn read() -> Self {
        serde_json::from_str(include_str!("../../fixtures/heads/expected.json")).unwrap()
    }

    pub fn target(&self) -> HeadTarget {
        HeadTarget {
            hidden_size: self.hidden[0].len(),
            vocabulary: self.embedding.len(),
        }
    }

    /// The scores of `rows`, in one batch.
    pub fn scores(&self, head: &Head, rows: &[u32]) -> Vec<f32> {
        let logits = self.logits.concat();
        let step = HeadStep {
            hidden: &tensor(&self.hidden),
            embedding: &tensor(&self.embedding),
            logits: &logits,
            candidates: &self.tokens,
        };
        head.scores(&step, rows).unwrap()
    }
}

fn tensor(rows: &[Vec<f32>]) -> Tensor {
    Tensor::from_vec(rows.concat(), (rows.len(), rows[0].len()), &Device::Cpu).unwrap()
}

pub fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/fixtures/heads", name]
        .iter()
        .collect()
}

/// What a fixture's name says it is.
pub fn kind(name: &str) -> HeadKind {
    match name.split(['.', '-']).next().unwrap() {
        "r2r" => HeadKind::R2r,
        "citer" => HeadKind::Citer,
        "co" => HeadKind::CoLlm,
        "linear" => HeadKind::Linear,
        "mlp" => HeadKind::Mlp,
        other => panic!("no kind {other}"),
    }
}

/// Converts a fixture, with what is to be said of every fixture's model.
pub fn converted(name: &str) -> Result<HeadFile, HeadError> {
    let options = ConvertOptions {
        model: HeadModel {
            name: None,
            hidden_size: Some(12),
            vocabulary: Some(120),
        },
        row: None,
        activation: (kind(name) == HeadKind::Mlp).then_some(Activation::Gelu),
    };
    convert(&mut Checkpoint::open(&path(name))?, kind(name), &options)
}

/// A header of a classifier that reads everything, for a model of these sizes.
pub fn classifier(hidden_size: usize, vocabulary: usize, dims: &[usize]) -> HeadHeader {
    HeadHeader {
        format: FORMAT,
        kind: HeadKind::R2r,
        model: HeadModel {
            name: None,
            hidden_size: Some(hidden_size),
            vocabulary: Some(vocabulary),
        },
        inputs: vec![HeadInput::Hidden, HeadInput::Token, HeadInput::Logits],
        top_logits: Some(vocabulary.min(100)),
        network: Network::Classifier {
            dims: dims.to_vec(),
            expansion: 4,
            classes: 1,
            normalize_input: true,
        },
        threshold: None,
        trained: false,
        source: String::new(),
    }
}

/// A header of linear layers over the hidden state.
pub fn layers(kind: HeadKind, hidden_size: usize, dims: &[usize]) -> HeadHeader {
    HeadHeader {
        kind,
        inputs: vec![HeadInput::Hidden],
        top_logits: None,
        network: Network::Mlp {
            dims: dims.to_vec(),
            activation: (!dims.is_empty()).then_some(Activation::Relu),
        },
        ..classifier(hidden_size, 64, &[1])
    }
}
