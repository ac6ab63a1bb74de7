//! Every bound of the core in one place.

/// Positions in one block of a KV pool. A request holds whole blocks.
pub const KV_BLOCK_TOKENS: usize = 16;

/// Most models in a deployment: a request keeps one counter for each, inline.
pub const MODELS_MAX: usize = 8;

/// Most words of policy state that a request carries, inline.
pub const STATE_WORDS_MAX: usize = 16;

/// Most columns of signals that a policy may ask for at one model.
pub const SIGNAL_COLUMNS_MAX: usize = 1024;

/// Most candidates a request may have discarded one after the other; the next is kept whatever the policy says. Enough
/// for any policy that asks every model once.
pub const DISCARDS_RUNNING_MAX: u32 = MODELS_MAX as u32;
