//! A stand-in for a model and its KV cache whose output depends on everything it was fed: position p of the cache holds a
//! hash of the tokens 0..=p, and a candidate is a function of the last one. A scheduler that feeds a token twice, leaves one
//! out, or reads a block that is not the request's gets another answer.

use tokenrouter_core::draw;
use tokenrouter_core::limits::KV_BLOCK_TOKENS;
use tokenrouter_core::step::{StepBatch, StepRow};
use tokenrouter_core::{ModelIndex, TokenId};

use super::agreement::Agreement;

/// Words of the simulated vocabulary.
const VOCABULARY: u32 = 1_024;

/// Hash of an empty sequence.
const EMPTY: u64 = 0x6b76;

/// A simulated model's cache.
#[derive(Debug)]
pub struct SimKv {
    model: ModelIndex,
    agreement: Agreement,
    hashes: Vec<u64>,
}

impl SimKv {
    pub(super) fn new(model: ModelIndex, agreement: Agreement, blocks: usize) -> Self {
        Self {
            model,
            agreement,
            hashes: vec![0; blocks * KV_BLOCK_TOKENS],
        }
    }

    /// Feeds a row and appends a candidate for each of its rows of logits. `seeds` has one for each.
    pub(super) fn feed(
        &mut self,
        batch: &StepBatch,
        row: &StepRow,
        mut seeds: impl FnMut() -> u64,
        candidates: &mut Vec<TokenId>,
    ) {
        let blocks = batch.row_blocks(row);
        let place = |position: usize| {
            blocks[position / KV_BLOCK_TOKENS].0 as usize * KV_BLOCK_TOKENS + position % KV_BLOCK_TOKENS
        };
        let start = row.position as usize;
        let mut hash = if start == 0 {
            EMPTY
        } else {
            self.hashes[place(start - 1)]
        };
        let silent = (row.len - row.logits) as usize;
        for (offset, &token) in batch.row_tokens(row).iter().enumerate() {
            hash = extend(hash, token);
            self.hashes[place(start + offset)] = hash;
            if offset >= silent {
                let position = row.position + offset as u32 + 1;
                candidates.push(candidate(hash, seeds(), position, self.model, &self.agreement));
            }
        }
    }
}

fn extend(hash: u64, token: TokenId) -> u64 {
    draw::bits(hash, u64::from(token), draw::Purpose::Admission)
}

/// All models write the same where they agree.
fn candidate(hash: u64, seed: u64, position: u32, model: ModelIndex, agreement: &Agreement) -> TokenId {
    let (key, position) = (seed ^ hash, u64::from(position));
    let by = if agreement.holds(seed, key, position) {
        ModelIndex(0)
    } else {
        model
    };
    draw::token(key, position, by, VOCABULARY)
}

/// What a simulated model writes after `tokens`, computed from scratch: the definition that the simulation's caches are held
/// against. `agreement` says where models agree.
pub fn next_token(tokens: &[TokenId], seed: u64, model: ModelIndex, agreement: &Agreement) -> TokenId {
    let hash = tokens.iter().fold(EMPTY, |hash, &token| extend(hash, token));
    candidate(hash, seed, tokens.len() as u32, model, agreement)
}
