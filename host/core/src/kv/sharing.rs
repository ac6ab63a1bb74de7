//! Which blocks several requests hold, who takes over what, and what stays when the last one lets go.

use std::ops::Range;

use super::KvPool;
use crate::ids::{BlockId, TokenId};
use crate::limits::KV_BLOCK_TOKENS;
use crate::prefix::{PrefixIndex, block_tokens};
use crate::request::SeatIndex;

/// What has come of sharing prefixes, all told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefixCounts {
    /// Requests that found a part of their sequence when they came to the model.
    pub hits: u64,
    /// Tokens that were not fed, because blocks that hold them were taken over.
    pub tokens: u64,
    /// Retained blocks that were given up because their memory was needed.
    pub given_up: u64,
}

impl std::ops::Add for PrefixCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            hits: self.hits + other.hits,
            tokens: self.tokens + other.tokens,
            given_up: self.given_up + other.given_up,
        }
    }
}

impl KvPool {
    /// How many of the seat's first blocks are shared, or may be. They are whole, and never written again.
    pub fn shared(&self, index: SeatIndex) -> u32 {
        self.seats[index.0 as usize].shared
    }

    /// The request has failed: what it alone holds may be why, and is not retained.
    pub fn leave_nothing(&mut self, index: SeatIndex) {
        let seat = &self.seats[index.0 as usize];
        for block in &seat.blocks[..seat.shared as usize] {
            if self.holders[block.0 as usize] == 1 {
                self.index.remove(*block);
            }
        }
        self.leave(index);
    }

    /// Takes over the blocks that hold what comes next of `tokens`, the request's committed sequence. At least its last token is left
    /// to be fed, because the logits behind it are wanted. Returns the positions that the seat holds for the first time by that.
    pub fn adopt(&mut self, index: SeatIndex, tokens: &[TokenId]) -> Range<u32> {
        let seat = &mut self.seats[index.0 as usize];
        let (before, known) = (seat.fed, seat.fed_max);
        let sought = &tokens[..tokens.len().saturating_sub(1)];
        // In the middle of a block, the rest of it is the seat's own.
        while seat.fed as usize == seat.shared as usize * KV_BLOCK_TOKENS
            && let Some(prefix) = seat.prefix
            && let Some(next) = block_tokens(sought, seat.shared)
            && let Some((block, prefix)) = self.index.find(prefix, next)
        {
            hold(&mut self.holders, &mut self.index, block);
            match seat.blocks.get_mut(seat.shared as usize) {
                Some(empty) => {
                    let empty = std::mem::replace(empty, block);
                    release(&mut self.holders, &mut self.index, &mut self.free, empty);
                }
                None => seat.blocks.push(block),
            }
            seat.prefix = Some(prefix);
            seat.shared += 1;
            seat.fed += KV_BLOCK_TOKENS as u32;
        }
        seat.fed_max = known.max(seat.fed);
        self.counts.tokens += u64::from(seat.fed - before);
        self.counts.hits += u64::from(known == 0 && seat.fed > 0);
        known..seat.fed_max
    }

    /// Shares the seat's whole blocks. `tokens` is the request's committed sequence.
    pub fn share(&mut self, index: SeatIndex, tokens: &[TokenId]) {
        let seat = &mut self.seats[index.0 as usize];
        let held = &tokens[..tokens.len().min(seat.fed as usize)];
        while let Some(prefix) = seat.prefix
            && let Some(next) = block_tokens(held, seat.shared)
        {
            let own = &mut seat.blocks[seat.shared as usize];
            // Where two requests have computed the same, bit for bit, one block is enough. So who holds a block of a prefix
            // holds all blocks before it, and those retained longest are always the ends of prefixes.
            let shared = match self.index.find(prefix, next) {
                Some((block, prefix)) => {
                    hold(&mut self.holders, &mut self.index, block);
                    let own = std::mem::replace(own, block);
                    release(&mut self.holders, &mut self.index, &mut self.free, own);
                    Some(prefix)
                }
                None => self.index.enter(*own, prefix, next),
            };
            let Some(prefix) = shared else { return };
            seat.prefix = Some(prefix);
            seat.shared += 1;
        }
    }

    /// A block that nobody holds, for a seat.
    pub(super) fn take_block(&mut self) -> Option<BlockId> {
        let block = self.free.pop().or_else(|| {
            let block = self.index.give_up()?;
            self.counts.given_up += 1;
            Some(block)
        })?;
        self.holders[block.0 as usize] = 1;
        Some(block)
    }

    /// The seat lets go of its blocks from the `keep`-th on, the last first: what is retained of a prefix is of use only together
    /// with all before it.
    pub(super) fn drop_blocks(&mut self, index: SeatIndex, keep: usize) {
        let blocks = &mut self.seats[index.0 as usize].blocks;
        while blocks.len() > keep
            && let Some(block) = blocks.pop()
        {
            release(&mut self.holders, &mut self.index, &mut self.free, block);
        }
    }
}

/// One seat more holds the block.
fn hold(holders: &mut [u32], index: &mut PrefixIndex, block: BlockId) {
    let holders = &mut holders[block.0 as usize];
    if *holders == 0 {
        index.reclaim(block);
    }
    *holders += 1;
}

/// One seat less holds the block.
fn release(holders: &mut [u32], index: &mut PrefixIndex, free: &mut Vec<BlockId>, block: BlockId) {
    let holders = &mut holders[block.0 as usize];
    debug_assert!(*holders > 0, "a block is let go of once by each that holds it");
    *holders -= 1;
    match *holders {
        0 if index.has(block) => index.retain(block),
        0 => free.push(block),
        _ => {}
    }
}
