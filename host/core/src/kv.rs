//! Bookkeeping of one model's KV pool: which blocks are free, and which request's prefix the others hold. The numbers
//! themselves (the cache) live with the model's runner.
//!
//! Whole blocks of committed tokens are shared: requests whose sequences begin alike hold the same blocks ([`crate::prefix`]).
//! When the last of them lets go, the block is *retained*: it counts as free, and keeps what it holds until its memory is needed.
//! A shared block is never written again.

#[cfg(test)]
mod schedules;
mod sharing;
#[cfg(test)]
mod tests;

use crate::ids::{BlockId, RequestId};
use crate::limits::KV_BLOCK_TOKENS;
use crate::prefix::{Prefix, PrefixIndex, PrefixSalt};
use crate::request::SeatIndex;
pub use sharing::PrefixCounts;

/// What a model keeps of one request: KV of the first `fed` tokens of its committed sequence.
#[derive(Debug)]
struct Seat {
    request: RequestId,
    fed: u32,
    /// The most that `fed` ever was.
    fed_max: u32,
    blocks: Vec<BlockId>,
    /// Whose prefixes it shares; `None`: nobody's.
    salt: Option<PrefixSalt>,
    /// How many of the first blocks are in the index; what they hold.
    shared: u32,
    prefix: Option<Prefix>,
    /// In the step that is being put together or runs: not to be evicted.
    pinned: bool,
    taken: bool,
}

impl Seat {
    /// Holds nothing any more; its blocks have been dealt with.
    fn forget(&mut self) {
        self.fed = 0;
        self.blocks.clear();
        self.shared = 0;
        self.prefix = self.salt.map(Prefix::empty);
    }
}

/// Seats and blocks of one model.
#[derive(Debug)]
pub struct KvPool {
    free: Vec<BlockId>,
    /// Of each block, how many seats hold it.
    holders: Vec<u32>,
    index: PrefixIndex,
    seats: Vec<Seat>,
    seats_free: Vec<SeatIndex>,
    evictions: u64,
    counts: PrefixCounts,
    /// Of each block, how many evictable seats hold it; all 0 but while evictions are worked out.
    evictable: Vec<u32>,
}

/// Blocks that hold `tokens` positions.
pub fn blocks_for(tokens: usize) -> usize {
    tokens.div_ceil(KV_BLOCK_TOKENS)
}

impl KvPool {
    /// A pool of `blocks` blocks, all free.
    pub fn new(blocks: usize) -> Self {
        let free = (0..blocks as u32).rev().map(BlockId).collect();
        Self {
            free,
            holders: vec![0; blocks],
            index: PrefixIndex::new(blocks),
            seats: Vec::new(),
            seats_free: Vec::new(),
            evictions: 0,
            counts: PrefixCounts::default(),
            evictable: vec![0; blocks],
        }
    }

    /// Blocks that no request holds, retained ones included.
    pub fn blocks_free(&self) -> usize {
        self.free.len() + self.index.retained()
    }

    /// Blocks that no request holds and that keep what they hold, for requests to come.
    pub fn blocks_retained(&self) -> usize {
        self.index.retained()
    }

    /// Blocks of the pool.
    pub fn blocks_total(&self) -> usize {
        self.holders.len()
    }

    /// Requests that have a seat.
    pub fn seats_taken(&self) -> usize {
        self.seats.len() - self.seats_free.len()
    }

    /// How often a request's KV was dropped to make room for an older one's.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// What has come of sharing prefixes.
    pub fn prefix_counts(&self) -> PrefixCounts {
        self.counts
    }

    /// A seat for a request that comes for the first time. `length_max` is the longest it can get, in tokens. With a salt, it
    /// shares prefixes with requests of the same salt.
    pub fn sit(&mut self, request: RequestId, length_max: usize, salt: Option<PrefixSalt>) -> SeatIndex {
        let index = self.seats_free.pop().unwrap_or_else(|| {
            self.seats.push(Seat {
                request,
                fed: 0,
                fed_max: 0,
                blocks: Vec::new(),
                salt,
                shared: 0,
                prefix: None,
                pinned: false,
                taken: false,
            });
            SeatIndex(self.seats.len() as u32 - 1)
        });
        let seat = &mut self.seats[index.0 as usize];
        debug_assert!(!seat.taken && seat.blocks.is_empty());
        seat.blocks.reserve(blocks_for(length_max));
        seat.request = request;
        seat.salt = salt;
        seat.fed_max = 0;
        seat.forget();
        seat.taken = true;
        index
    }

    /// The request has ended: its seat is free again, and so are its blocks, of which the shared ones are retained.
    pub fn leave(&mut self, index: SeatIndex) {
        debug_assert!(
            self.seats[index.0 as usize].taken && !self.seats[index.0 as usize].pinned,
            "only a request that is not in a step can leave"
        );
        self.drop_blocks(index, 0);
        let seat = &mut self.seats[index.0 as usize];
        seat.forget();
        seat.taken = false;
        self.seats_free.push(index);
    }

    /// How many tokens of the request's sequence the model holds: c_m.
    pub fn fed(&self, index: SeatIndex) -> u32 {
        self.seats[index.0 as usize].fed
    }

    /// The seat's blocks, in the order of positions.
    pub fn blocks(&self, index: SeatIndex) -> &[BlockId] {
        &self.seats[index.0 as usize].blocks
    }

    /// Notes that the model now holds the first `fed` tokens.
    pub fn set_fed(&mut self, index: SeatIndex, fed: u32) {
        let seat = &mut self.seats[index.0 as usize];
        debug_assert!(fed as usize <= seat.blocks.len() * KV_BLOCK_TOKENS);
        seat.fed = fed;
        seat.fed_max = seat.fed_max.max(fed);
    }

    /// Forgets all positions from `length` on and frees the blocks that held only those. Of a shared block that would have to be
    /// written again, all positions are forgotten.
    pub fn truncate(&mut self, index: SeatIndex, length: u32) {
        let seat = &mut self.seats[index.0 as usize];
        seat.fed = seat.fed.min(length);
        let whole = seat.fed / KV_BLOCK_TOKENS as u32;
        if whole < seat.shared {
            (seat.fed, seat.shared) = (whole * KV_BLOCK_TOKENS as u32, whole);
            let before = whole.checked_sub(1).map(|last| seat.blocks[last as usize]);
            seat.prefix = match before {
                Some(block) => self.index.prefix(block),
                None => seat.salt.map(Prefix::empty),
            };
        }
        let keep = blocks_for(seat.fed as usize);
        self.drop_blocks(index, keep);
    }

    /// What the pool held is lost, as when its model had to be started anew: every request keeps its seat and computes
    /// its KV again when it comes back.
    pub fn lose_all(&mut self) {
        for seat in &mut self.seats {
            seat.forget();
            seat.pinned = false;
        }
        self.index.clear();
        self.holders.fill(0);
        self.free.clear();
        self.free.extend((0..self.holders.len() as u32).rev().map(BlockId));
    }

    /// Gives the seat room for `length` positions and pins it until [`KvPool::unpin`]. Where blocks are short, those that were
    /// retained longest are given up first; then the youngest unpinned requests that are younger than this one lose their KV (they
    /// compute it again when they come back). Older requests never lose anything to younger ones, so the oldest always gets
    /// through and no two requests can wait for each other. Returns false, with nothing changed, if there is no room.
    pub fn reserve(&mut self, index: SeatIndex, length: usize) -> bool {
        let (request, held) = {
            let seat = &self.seats[index.0 as usize];
            (seat.request, seat.blocks.len())
        };
        let wanted = blocks_for(length).saturating_sub(held);
        if wanted > self.blocks_free() && !self.evict_younger(request, wanted) {
            return false;
        }
        for _ in 0..wanted {
            let block = self.take_block();
            self.seats[index.0 as usize].blocks.extend(block);
        }
        self.seats[index.0 as usize].pinned = true;
        true
    }

    /// The same for work that may be in vain: takes only blocks that nobody holds.
    pub fn reserve_free(&mut self, index: SeatIndex, length: usize) -> bool {
        let held = self.seats[index.0 as usize].blocks.len();
        blocks_for(length).saturating_sub(held) <= self.blocks_free() && self.reserve(index, length)
    }

    /// Allows eviction again.
    pub fn unpin(&mut self, index: SeatIndex) {
        self.seats[index.0 as usize].pinned = false;
    }

    /// Frees blocks until `wanted` are free, or leaves everything as it is and returns false.
    fn evict_younger(&mut self, request: RequestId, wanted: usize) -> bool {
        let evictable = |seat: &Seat| seat.taken && !seat.pinned && seat.request > request && !seat.blocks.is_empty();
        let mut obtainable = self.blocks_free();
        for block in self
            .seats
            .iter()
            .filter(|seat| evictable(seat))
            .flat_map(|seat| &seat.blocks)
        {
            let losing = &mut self.evictable[block.0 as usize];
            *losing += 1;
            obtainable += usize::from(*losing == self.holders[block.0 as usize]);
        }
        for block in self
            .seats
            .iter()
            .filter(|seat| evictable(seat))
            .flat_map(|seat| &seat.blocks)
        {
            self.evictable[block.0 as usize] = 0;
        }
        if obtainable < wanted {
            return false;
        }
        while self.blocks_free() < wanted {
            let seats = self.seats.iter().enumerate().filter(|(_, seat)| evictable(seat));
            let Some((victim, _)) = seats.max_by_key(|(_, seat)| seat.request) else {
                return false;
            };
            self.drop_blocks(SeatIndex(victim as u32), 0);
            self.seats[victim].forget();
            self.evictions += 1;
        }
        true
    }
}
