//! Heads: small networks whose scores a policy can ask for, evaluated beside their model as part of its step.
//!
//! Invariant: a row's score is the same bits whatever other rows the step has. It follows from the invariant of `ops` and
//! from there being nothing else that mixes rows.
//!
//! | file | what it knows |
//! |---|---|
//! | `header` | what a head is: kind, inputs, network |
//! | `layout` | which tensors follow from a header |
//! | `file` | the format: safetensors with the header in the metadata |
//! | `network`, `head` | the computation |
//! | [`checkpoint`] | PyTorch checkpoints, read without executing what they contain |
//! | [`convert`] | from the published checkpoints to the format |
//! | `random` | heads with random weights |
//! | `train` | training: examples, gradients, held-out scores |

pub mod checkpoint;
pub mod convert;
mod error;
mod file;
mod head;
mod header;
mod layout;
mod network;
mod random;
pub mod train;

pub use error::HeadError;
pub use file::{HEADER_KEY, HeadFile};
pub use head::{Head, HeadStep, HeadTarget};
pub use header::{Activation, FORMAT, HeadHeader, HeadInput, HeadKind, HeadModel, LAYERS_MAX, Network, WIDTH_MAX};
pub(crate) use layout::norm_name;
pub(crate) use network::{LAYER_NORM_EPS, Shaped};
pub use random::random;

use tokenrouter_core::signal::Signal;

use crate::descending::Descending;
use crate::error::ModelError;
use crate::runner::RowAsk;

/// The heads of one model, and their scores of the last step. Buffers are kept.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    loaded: Vec<Loaded>,
    tokens: Descending,
}

#[derive(Debug)]
struct Loaded {
    name: String,
    head: Head,
    /// The rows of the step that ask for the score.
    rows: Vec<u32>,
    /// Their scores, in the same order.
    scores: Vec<f32>,
}

impl Heads {
    pub(crate) fn add(&mut self, name: &str, head: Head) {
        self.loaded.push(Loaded {
            name: name.to_owned(),
            head,
            rows: Vec::new(),
            scores: Vec::new(),
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.loaded.is_empty()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.loaded.iter().any(|loaded| loaded.name == name)
    }

    /// Evaluates every head that the step asks for, once, over the rows that ask for it and whose logits are finite.
    pub(crate) fn evaluate(
        &mut self,
        step: &HeadStep<'_>,
        asks: &[RowAsk<'_>],
        plans: &[Vec<Signal>],
        finite: &[bool],
    ) -> Result<(), ModelError> {
        for loaded in &mut self.loaded {
            let asked = |plan: &[Signal]| {
                plan.iter()
                    .any(|signal| matches!(signal, Signal::HeadScore(name) if *name == loaded.name))
            };
            loaded.rows.clear();
            loaded.scores.clear();
            for ((row, ask), finite) in (0..).zip(asks).zip(finite) {
                if *finite && asked(&plans[ask.plan as usize]) {
                    loaded.rows.push(row);
                }
            }
            if !loaded.rows.is_empty() {
                loaded
                    .head
                    .evaluate(step, &loaded.rows, &mut self.tokens, &mut loaded.scores)?;
            }
        }
        Ok(())
    }

    /// Whether every score of a row is a number. Weights are finite, but what they are applied to may overflow.
    pub(crate) fn finite(&self, row: usize) -> bool {
        self.loaded
            .iter()
            .filter_map(|loaded| loaded.score(row))
            .all(f32::is_finite)
    }

    /// The score of a row of the last step; 0 where it was not evaluated.
    pub(crate) fn score(&self, name: &str, row: usize) -> f32 {
        let loaded = self.loaded.iter().find(|loaded| loaded.name == name);
        loaded.and_then(|loaded| loaded.score(row)).unwrap_or(0.0)
    }
}

impl Loaded {
    fn score(&self, row: usize) -> Option<f32> {
        let place = self.rows.binary_search(&(row as u32)).ok()?;
        Some(self.scores[place])
    }
}
