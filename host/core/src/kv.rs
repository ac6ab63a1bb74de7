//! Bookkeeping of one model's KV pool: which blocks are free, and which request's prefix the others hold. The numbers
//! themselves (the cache) live with the model's runner.

use crate::ids::{BlockId, RequestId};
use crate::limits::KV_BLOCK_TOKENS;
use crate::request::SeatIndex;

/// What a model keeps of one request: KV of the first `fed` tokens of its committed sequence.
#[derive(Debug)]
struct Seat {
    request: RequestId,
    fed: u32,
    blocks: Vec<BlockId>,
    /// In the step that is being put together or runs: not to be evicted.
    pinned: bool,
    taken: bool,
}

/// Seats and blocks of one model.
#[derive(Debug)]
pub struct KvPool {
    blocks_total: usize,
    free: Vec<BlockId>,
    seats: Vec<Seat>,
    seats_free: Vec<SeatIndex>,
    evictions: u64,
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
            blocks_total: blocks,
            free,
            seats: Vec::new(),
            seats_free: Vec::new(),
            evictions: 0,
        }
    }

    /// Blocks that no request holds.
    pub fn blocks_free(&self) -> usize {
        self.free.len()
    }

    /// Blocks of the pool.
    pub fn blocks_total(&self) -> usize {
        self.blocks_total
    }

    /// Requests that have a seat.
    pub fn seats_taken(&self) -> usize {
        self.seats.len() - self.seats_free.len()
    }

    /// How often a request's KV was dropped to make room for an older one's.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// A seat for a request that comes for the first time. `length_max` is the longest it can get, in tokens.
    pub fn sit(&mut self, request: RequestId, length_max: usize) -> SeatIndex {
        let index = self.seats_free.pop().unwrap_or_else(|| {
            self.seats.push(Seat {
                request,
                fed: 0,
                blocks: Vec::new(),
                pinned: false,
                taken: false,
            });
            SeatIndex(self.seats.len() as u32 - 1)
        });
        let seat = &mut self.seats[index.0 as usize];
        debug_assert!(!seat.taken && seat.blocks.is_empty());
        seat.blocks.reserve(blocks_for(length_max));
        seat.request = request;
        seat.fed = 0;
        seat.taken = true;
        index
    }

    /// The request has ended: its blocks and its seat are free again.
    pub fn leave(&mut self, index: SeatIndex) {
        let seat = &mut self.seats[index.0 as usize];
        debug_assert!(
            seat.taken && !seat.pinned,
            "only a request that is not in a step can leave"
        );
        seat.taken = false;
        self.free.append(&mut seat.blocks);
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
    }

    /// Forgets all positions from `length` on and frees the blocks that held only those.
    pub fn truncate(&mut self, index: SeatIndex, length: u32) {
        let seat = &mut self.seats[index.0 as usize];
        seat.fed = seat.fed.min(length);
        let keep = blocks_for(seat.fed as usize);
        self.free.extend(seat.blocks.drain(keep.min(seat.blocks.len())..));
    }

    /// What the pool held is lost, as when its model had to be started anew: every request keeps its seat and computes
    /// its KV again when it comes back.
    pub fn lose_all(&mut self) {
        for seat in &mut self.seats {
            seat.fed = 0;
            seat.blocks.clear();
            seat.pinned = false;
        }
        self.free.clear();
        self.free.extend((0..self.blocks_total as u32).rev().map(BlockId));
    }

    /// Gives the seat room for `length` positions and pins it until [`KvPool::unpin`]. Where blocks are short, the
    /// youngest unpinned requests that are younger than this one lose their KV (they compute it again when they
    /// come back). Older requests never lose anything to younger ones, so the oldest always gets through and no two
    /// requests can wait for each other. Returns false, with nothing changed, if there is no room.
    pub fn reserve(&mut self, index: SeatIndex, length: usize) -> bool {
        let (request, held) = {
            let seat = &self.seats[index.0 as usize];
            (seat.request, seat.blocks.len())
        };
        let wanted = blocks_for(length).saturating_sub(held);
        if wanted > self.free.len() && !self.evict_younger(request, wanted) {
            return false;
        }
        let seat = &mut self.seats[index.0 as usize];
        for _ in 0..wanted {
            seat.blocks.extend(self.free.pop());
        }
        seat.pinned = true;
        true
    }

    /// The same for work that may be in vain: takes only blocks that are free.
    pub fn reserve_free(&mut self, index: SeatIndex, length: usize) -> bool {
        let held = self.seats[index.0 as usize].blocks.len();
        blocks_for(length).saturating_sub(held) <= self.free.len() && self.reserve(index, length)
    }

    /// Allows eviction again.
    pub fn unpin(&mut self, index: SeatIndex) {
        self.seats[index.0 as usize].pinned = false;
    }

    /// Frees blocks until `wanted` are free, or leaves everything as it is and returns false.
    fn evict_younger(&mut self, request: RequestId, wanted: usize) -> bool {
        let evictable = |seat: &Seat| seat.taken && !seat.pinned && seat.request > request && !seat.blocks.is_empty();
        let obtainable: usize = self
            .seats
            .iter()
            .filter(|seat| evictable(seat))
            .map(|seat| seat.blocks.len())
            .sum();
        if self.free.len() + obtainable < wanted {
            return false;
        }
        while self.free.len() < wanted {
            let Some(victim) = self
                .seats
                .iter_mut()
                .filter(|seat| evictable(seat))
                .max_by_key(|seat| seat.request)
            else {
                return false;
            };
            victim.fed = 0;
            self.free.append(&mut victim.blocks);
            self.evictions += 1;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_requests_take_from_the_youngest_and_never_the_other_way() {
        let mut pool = KvPool::new(4);
        let seats: Vec<_> = (0..3).map(|id| pool.sit(RequestId(id), 64)).collect();
        for (&seat, tokens) in seats.iter().zip([16, 16, 32]) {
            assert!(pool.reserve(seat, tokens));
            pool.set_fed(seat, tokens as u32);
            pool.unpin(seat);
        }
        assert!(!pool.reserve(seats[2], 33), "the youngest has nobody to take from");
        assert_eq!(pool.fed(seats[2]), 32, "a refused reservation changes nothing");
        assert!(pool.reserve(seats[0], 17));
        assert_eq!((pool.fed(seats[1]), pool.fed(seats[2])), (16, 0), "the youngest pays");
        assert_eq!((pool.evictions(), pool.blocks_free()), (1, 1));
    }

    #[test]
    fn a_pinned_seat_is_never_evicted() {
        let mut pool = KvPool::new(2);
        let (old, young) = (pool.sit(RequestId(1), 32), pool.sit(RequestId(2), 32));
        assert!(pool.reserve(young, 32));
        assert!(!pool.reserve(old, 16));
        pool.unpin(young);
        assert!(pool.reserve(old, 16));
    }

    #[test]
    fn a_pool_that_lost_everything_has_all_blocks_free_and_all_seats_taken() {
        let mut pool = KvPool::new(4);
        let seats: Vec<_> = (0..2).map(|id| pool.sit(RequestId(id), 64)).collect();
        assert!(pool.reserve(seats[0], 33));
        pool.set_fed(seats[0], 33);
        pool.lose_all();
        assert_eq!((pool.fed(seats[0]), pool.blocks_free(), pool.seats_taken()), (0, 4, 2));
        assert!(pool.reserve(seats[1], 64), "nothing is pinned any more");
        pool.unpin(seats[1]);
        pool.leave(seats[0]);
        pool.leave(seats[1]);
        assert_eq!((pool.blocks_free(), pool.seats_taken()), (4, 0));
    }

    #[test]
    fn truncation_frees_whole_blocks_and_leaving_frees_all() {
        let mut pool = KvPool::new(4);
        let seat = pool.sit(RequestId(1), 64);
        assert!(pool.reserve(seat, 50));
        pool.set_fed(seat, 50);
        pool.truncate(seat, 17);
        assert_eq!(
            (pool.fed(seat), pool.blocks(seat).len(), pool.blocks_free()),
            (17, 2, 2)
        );
        pool.unpin(seat);
        pool.leave(seat);
        assert_eq!((pool.blocks_free(), pool.seats_taken()), (4, 0));
    }
}
