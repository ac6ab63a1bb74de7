//! A step as the scheduler asks for it: requests' unseen tokens, packed into one ragged batch.

use std::ops::Range;

use crate::ids::{BlockId, RequestId, TokenId};

/// One request's part of a step. It feeds `len` tokens at positions `position..position + len`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepRow {
    /// Whose tokens these are.
    pub request: RequestId,
    /// First of the row's tokens in [`StepBatch::tokens`].
    pub first: u32,
    /// How many tokens, at least one. One: a decode; more: an extend.
    pub len: u32,
    /// Position of the first token: what the model held of this request before the step.
    pub position: u32,
    /// How many of the row's last positions need logits: 0 in the middle of a long prompt, else 1.
    pub logits: u32,
    /// The row's KV blocks in [`StepBatch::blocks`], in the order of positions, enough for `position + len`.
    pub blocks: Range<u32>,
    /// How many of its first blocks other rows may have in their tables too. They are whole and only read: `position` lies behind
    /// them.
    pub shared: u32,
}

/// A step's input. The vectors are kept and refilled, so a steady load allocates nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepBatch {
    /// All rows' tokens, one row after the other.
    pub tokens: Vec<TokenId>,
    /// The rows.
    pub rows: Vec<StepRow>,
    /// All rows' block tables, one row after the other.
    pub blocks: Vec<BlockId>,
}

impl StepBatch {
    /// An empty batch with room for so many rows, tokens and blocks.
    pub fn with_capacity(rows: usize, tokens: usize, blocks: usize) -> Self {
        Self {
            tokens: Vec::with_capacity(tokens),
            rows: Vec::with_capacity(rows),
            blocks: Vec::with_capacity(blocks),
        }
    }

    /// Empties the batch and keeps its memory.
    pub fn clear(&mut self) {
        self.tokens.clear();
        self.rows.clear();
        self.blocks.clear();
    }

    /// The tokens of a row.
    pub fn row_tokens(&self, row: &StepRow) -> &[TokenId] {
        &self.tokens[row.first as usize..(row.first + row.len) as usize]
    }

    /// The block table of a row.
    pub fn row_blocks(&self, row: &StepRow) -> &[BlockId] {
        &self.blocks[row.blocks.start as usize..row.blocks.end as usize]
    }

    /// How many logits rows the step produces.
    pub fn logits_rows(&self) -> usize {
        self.rows.iter().map(|row| row.logits as usize).sum()
    }
}
