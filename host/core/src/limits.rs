//! Every bound of the core in one place.

use crate::step::StepBatch;

/// Positions in one block of a KV pool. A request holds whole blocks.
pub const KV_BLOCK_TOKENS: usize = 16;

/// Most models in a deployment: a request keeps one counter for each, inline.
pub const MODELS_MAX: usize = 8;

/// Most heads in a deployment: a step looks through all of its model's.
pub const HEADS_MAX: usize = 16;

/// Most words of policy state that a request carries, inline.
pub const STATE_WORDS_MAX: usize = 16;

/// Most columns of signals that a policy may ask for at one model.
pub const SIGNAL_COLUMNS_MAX: usize = 1024;

/// Most candidates a request may have discarded one after the other; the next is kept whatever the policy says. Enough
/// for any policy that asks every model once.
pub const DISCARDS_RUNNING_MAX: u32 = MODELS_MAX as u32;

/// Most tokens that a model writes behind a candidate that is not settled.
pub const AHEAD_TOKENS_MAX: u32 = 64;

/// Bounds of a step and of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepLimits {
    /// Most requests in a step.
    pub rows_max: usize,
    /// Most tokens that long stretches (prompts) may add to a step, so that they do not stall decoding.
    pub long_tokens_max: usize,
    /// From how many unseen tokens on a request counts as a long stretch.
    pub long_tokens_min: usize,
    /// How long a request waits at most before its model launches, under the asynchronous rules.
    pub wait_us_max: u64,
}

impl StepLimits {
    /// A batch that no step within these limits outgrows, for a pool of `kv_blocks` blocks.
    pub fn batch(&self, kv_blocks: usize) -> StepBatch {
        // Short stretches are below the bound of long ones, each in its own row.
        let tokens = self.long_tokens_max + self.rows_max.saturating_mul(self.long_tokens_min.min(BATCH_ROW_TOKENS));
        StepBatch::with_capacity(self.rows_max, tokens, kv_blocks)
    }
}

/// Tokens a row that a batch has room for from the start, where the limits allow more.
const BATCH_ROW_TOKENS: usize = 256;

impl Default for StepLimits {
    fn default() -> Self {
        Self {
            rows_max: 64,
            long_tokens_max: 256,
            long_tokens_min: 64,
            wait_us_max: 200_000,
        }
    }
}
