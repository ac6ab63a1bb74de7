//! The book of who wrote which tokens into which block, and the rules of feeding a model.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use tokenrouter_core::limits::KV_BLOCK_TOKENS;
use tokenrouter_core::step::{StepBatch, StepRow};
use tokenrouter_core::{BlockId, RequestId, TokenId};

use crate::error::ModelError;

/// For every block of a pool: which request wrote it, as which part of its sequence, and the tokens.
///
/// A step is right when each of its rows builds on blocks that this request itself wrote, in the order of its table,
/// without a hole and without feeding a position twice; when no block is in two rows' tables; and when no request has two
/// rows. A row at position 0 begins a sequence anew, as after preemption: what the request wrote before no longer
/// counts. Of the blocks that a row shares, whoever wrote them, each must be whole and have been written behind what the one before it
/// holds; a row that stands right behind them begins anew, too. With [`Ledger::going_back`] a position may be fed again, if all from there on
/// is.
#[derive(Debug, Default)]
pub struct Ledger {
    blocks: Vec<Block>,
    sequences: u64,
    /// The step in which a block was last in a table, to see that it is in one only.
    steps: u64,
    /// Whether a row may go back to a position that was fed, as when what was written ahead is dropped.
    goes_back: bool,
}

#[derive(Clone, Debug, Default)]
struct Block {
    owner: Option<Owner>,
    /// Of all tokens before the block when it was begun.
    digest_before: u64,
    tokens: Vec<TokenId>,
    seen_in_step: u64,
    /// Whether it was shared where it was seen last.
    seen_shared: bool,
}

impl Block {
    /// Of all tokens up to the block's end.
    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.digest_before, &self.tokens).hash(&mut hasher);
        hasher.finish()
    }
}

/// Digest of no tokens.
const EMPTY: u64 = 0;

/// Who wrote a block. `sequence` grows with every beginning at position 0 and tells a request's tries apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owner {
    request: RequestId,
    sequence: u64,
    /// The block's place in the request's table.
    place: usize,
}

impl Ledger {
    /// The book of an empty pool.
    pub fn new(blocks: usize) -> Self {
        Self {
            blocks: vec![Block::default(); blocks],
            ..Self::default()
        }
    }

    /// Lets rows go back to a position that was fed: what the request held from there on is forgotten.
    #[must_use]
    pub fn going_back(mut self, allowed: bool) -> Self {
        self.goes_back = allowed;
        self
    }

    /// How many blocks the pool has.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// The tokens that a request holds and has written itself: those of its latest sequence whose blocks nobody took since. Empty when
    /// it never wrote from the beginning, or when another request took its first block.
    pub fn tokens(&self, request: RequestId) -> Vec<TokenId> {
        let owned = |block: &&Block| block.owner.is_some_and(|owner| owner.request == request);
        let latest = self
            .blocks
            .iter()
            .filter(owned)
            .filter_map(|block| block.owner)
            .map(|owner| owner.sequence)
            .max();
        let Some(sequence) = latest else { return Vec::new() };
        let mut parts: Vec<(usize, &[TokenId])> = self
            .blocks
            .iter()
            .filter_map(|block| {
                block
                    .owner
                    .filter(|o| o.sequence == sequence)
                    .map(|o| (o.place, &block.tokens[..]))
            })
            .collect();
        parts.sort_unstable_by_key(|(place, _)| *place);
        let whole = parts
            .iter()
            .zip(0..)
            .take_while(|((place, _), expected)| place == expected);
        whole.flat_map(|((_, tokens), _)| tokens.iter().copied()).collect()
    }

    /// Writes a step's tokens after checking that it feeds every row right. The batch itself must be in order.
    pub(super) fn feed(&mut self, batch: &StepBatch) -> Result<(), ModelError> {
        self.steps += 1;
        let mut requests: Vec<RequestId> = batch.rows.iter().map(|row| row.request).collect();
        requests.sort_unstable();
        if let Some(pair) = requests.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(ModelError::Step(format!("request {} has two rows", pair[0].0)));
        }
        for row in &batch.rows {
            let (tokens, table) = (batch.row_tokens(row), batch.row_blocks(row));
            self.feed_row(row, tokens, table)
                .map_err(|what| ModelError::Step(format!("request {} at {}: {what}", row.request.0, row.position)))?;
        }
        Ok(())
    }

    fn feed_row(&mut self, row: &StepRow, tokens: &[TokenId], table: &[BlockId]) -> Result<(), String> {
        let shared = row.shared as usize;
        for (place, block) in table.iter().enumerate() {
            let is_shared = place < shared;
            let block_seen = &mut self.blocks[block.0 as usize];
            if block_seen.seen_in_step == self.steps && !(is_shared && block_seen.seen_shared) {
                return Err(format!("block {} is in two places of the step's tables", block.0));
            }
            (block_seen.seen_in_step, block_seen.seen_shared) = (self.steps, is_shared);
        }
        let position = row.position as usize;
        if shared > table.len() || position < shared * KV_BLOCK_TOKENS {
            return Err(format!("it writes into the {shared} blocks that it shares"));
        }
        self.check_shared(&table[..shared])?;
        let sequence = if position == shared * KV_BLOCK_TOKENS {
            self.sequences += 1;
            self.sequences
        } else {
            if self.goes_back {
                self.forget(row.request, position, table);
            }
            self.held_sequence(row.request, position, table, shared)?
        };
        for (at, token) in (position..).zip(tokens) {
            let place = at / KV_BLOCK_TOKENS;
            if at % KV_BLOCK_TOKENS == 0 {
                let digest_before = self.digest_before(table, place);
                let block = &mut self.blocks[table[place].0 as usize];
                block.owner = Some(Owner {
                    request: row.request,
                    sequence,
                    place,
                });
                block.digest_before = digest_before;
                block.tokens.clear();
            }
            self.blocks[table[place].0 as usize].tokens.push(*token);
        }
        Ok(())
    }

    /// Takes out what `request` has written from `position` on.
    fn forget(&mut self, request: RequestId, position: usize, table: &[BlockId]) {
        for (place, id) in table.iter().enumerate().skip(position / KV_BLOCK_TOKENS) {
            let block = &mut self.blocks[id.0 as usize];
            if block
                .owner
                .is_some_and(|owner| owner.request == request && owner.place == place)
            {
                block.tokens.truncate(position.saturating_sub(place * KV_BLOCK_TOKENS));
                if block.tokens.is_empty() {
                    block.owner = None;
                }
            }
        }
    }

    /// The digest of all tokens before a place of a table.
    fn digest_before(&self, table: &[BlockId], place: usize) -> u64 {
        match place {
            0 => EMPTY,
            _ => self.blocks[table[place - 1].0 as usize].digest(),
        }
    }

    fn check_shared(&self, table: &[BlockId]) -> Result<(), String> {
        for (place, id) in table.iter().enumerate() {
            let block = &self.blocks[id.0 as usize];
            let is_there = block.owner.is_some_and(|owner| owner.place == place);
            let is_whole = block.tokens.len() == KV_BLOCK_TOKENS;
            if !is_there || !is_whole || block.digest_before != self.digest_before(table, place) {
                let (found, held) = (said(block.owner), block.tokens.len());
                return Err(format!(
                    "shared block {} at place {place} {found} and holds {held} tokens, expected a whole one behind those before it",
                    id.0
                ));
            }
        }
        Ok(())
    }

    /// The sequence that `request` has written up to exactly `position` into the blocks of `table` behind the `shared` first.
    fn held_sequence(
        &self,
        request: RequestId,
        position: usize,
        table: &[BlockId],
        shared: usize,
    ) -> Result<u64, String> {
        let block = |place: usize| &self.blocks[table[place].0 as usize];
        let sequence = match block(shared).owner {
            Some(owner) if owner.request == request => owner.sequence,
            other => return Err(format!("its first block {} {}", table[shared].0, said(other))),
        };
        let held = position.div_ceil(KV_BLOCK_TOKENS);
        for (place, id) in table.iter().enumerate().take(held).skip(shared) {
            if block(place).owner
                != Some(Owner {
                    request,
                    sequence,
                    place,
                })
            {
                let found = said(block(place).owner);
                return Err(format!(
                    "block {} at place {place} {found}, expected its own sequence {sequence}",
                    id.0
                ));
            }
            let (held, expected) = (
                block(place).tokens.len(),
                KV_BLOCK_TOKENS.min(position - place * KV_BLOCK_TOKENS),
            );
            if held != expected {
                return Err(format!(
                    "block {} at place {place} holds {held} tokens, expected {expected}",
                    id.0
                ));
            }
        }
        // At a block's border the next block must not have been begun, or the row feeds positions again.
        let next = position / KV_BLOCK_TOKENS;
        if position.is_multiple_of(KV_BLOCK_TOKENS)
            && block(next).owner
                == Some(Owner {
                    request,
                    sequence,
                    place: next,
                })
        {
            return Err(format!("block {} at place {next} was begun before", table[next].0));
        }
        Ok(sequence)
    }
}

fn said(owner: Option<Owner>) -> String {
    match owner {
        None => "was never written".to_owned(),
        Some(Owner {
            request,
            sequence,
            place,
        }) => {
            format!(
                "was written by request {} (sequence {sequence}, place {place})",
                request.0
            )
        }
    }
}
