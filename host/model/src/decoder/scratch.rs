//! Memory of a step, kept from one to the next.

use tokenrouter_core::step::StepBatch;

use crate::cpu::ActivationBlock;

/// Buffers that grow to the largest step and stay.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// The residual stream: [tokens, hidden].
    pub(super) x: Vec<f32>,
    /// What a matrix reads, normalised.
    pub(super) normed: Vec<f32>,
    /// What a matrix reads, quantised.
    pub(super) blocks: Vec<ActivationBlock>,
    /// Queries, keys, values.
    pub(super) qkv: Vec<f32>,
    /// Results of attention: [tokens, heads * head_dim].
    pub(super) attended: Vec<f32>,
    /// Between the halves of a feed-forward network: [tokens, intermediate].
    pub(super) inner: Vec<f32>,
    /// Position of each token.
    pub(super) positions: Vec<u32>,
    /// Row of the batch of each token.
    pub(super) rows: Vec<u32>,
    /// Cosines and sines of each token.
    pub(super) turns: Vec<(f32, f32)>,
    /// Scores of attention, one buffer a thread.
    pub(super) scores: Vec<Vec<f32>>,
    /// Hidden states after the final norm of the positions that need logits.
    pub(super) hidden: Vec<f32>,
    pub(super) logits: Vec<f32>,
}

impl Scratch {
    pub(super) fn new(threads: usize) -> Self {
        Self {
            scores: vec![Vec::new(); threads],
            ..Self::default()
        }
    }

    /// Lists the tokens of a batch.
    pub(super) fn list(&mut self, batch: &StepBatch) {
        self.positions.clear();
        self.rows.clear();
        for (index, row) in (0..).zip(&batch.rows) {
            self.positions.extend(row.position..row.position + row.len);
            self.rows.extend((0..row.len).map(|_| index));
        }
    }
}
