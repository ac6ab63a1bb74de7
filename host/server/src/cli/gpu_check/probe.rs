//! A model on a device, fed by hand.

use tokenrouter_core::limits::KV_BLOCK_TOKENS;
use tokenrouter_core::signal::Signal;
use tokenrouter_core::step::{StepBatch, StepRow};
use tokenrouter_core::{BlockId, RequestId, TokenId};
use tokenrouter_model::cuda::CudaRunner;
use tokenrouter_model::{ModelError, RowAsk, Runner as _, StepOutput};

/// Appends a row that feeds `tokens` at `position` of the sequence with these blocks.
pub(super) fn push(batch: &mut StepBatch, position: usize, tokens: &[TokenId], blocks: &[BlockId], logits: usize) {
    let (first, start) = (batch.tokens.len() as u32, batch.blocks.len() as u32);
    batch.tokens.extend(tokens);
    batch
        .blocks
        .extend(&blocks[..(position + tokens.len()).div_ceil(KV_BLOCK_TOKENS)]);
    batch.rows.push(StepRow {
        request: RequestId(batch.rows.len() as u64),
        first,
        len: tokens.len() as u32,
        position: position as u32,
        logits: logits as u32,
        blocks: start..batch.blocks.len() as u32,
        shared: 0,
    });
}

/// A runner, its plans, and the result of its last step.
pub(super) struct Probe {
    pub(super) runner: CudaRunner,
    pub(super) plans: Vec<Vec<Signal>>,
    pub(super) out: StepOutput,
}

impl Probe {
    pub(super) fn new(runner: CudaRunner, plans: Vec<Vec<Signal>>) -> Self {
        Self {
            runner,
            plans,
            out: StepOutput::default(),
        }
    }

    /// A step whose rows of logits are all asked alike.
    pub(super) fn step(&mut self, batch: &StepBatch, ask: RowAsk<'_>) -> Result<(), ModelError> {
        self.runner
            .step(batch, &vec![ask; batch.logits_rows()], &self.plans, &mut self.out)
    }
}
