//! Random schedules of a pool, beside a model's memory that knows what was written into each block, and by whom.

use super::*;
use crate::draw::{Purpose, bits};
use crate::ids::TokenId;

const BLOCKS: usize = 12;
const LENGTH_MAX: usize = 100;

/// A request of the test: what it is to hold, and its seat.
struct Sitting {
    seat: SeatIndex,
    tokens: Vec<TokenId>,
    salt: Option<PrefixSalt>,
}

/// What was written into a block: the tokens, by a request with this salt.
#[derive(Clone, Default)]
struct Memory {
    tokens: Vec<TokenId>,
    salt: Option<PrefixSalt>,
}

struct Schedule {
    seed: u64,
    draws: u64,
    pool: KvPool,
    memory: Vec<Memory>,
    sitting: Vec<Sitting>,
    next_id: u64,
}

impl Schedule {
    fn below(&mut self, n: usize) -> usize {
        self.draws += 1;
        (bits(self.seed, self.draws, Purpose::Admission) % n as u64) as usize
    }

    /// A request that begins as one of two documents and goes on by itself.
    fn sit(&mut self) {
        let (document, common, length) = (self.below(2), self.below(LENGTH_MAX), 1 + self.below(LENGTH_MAX));
        let own = 1_000 * self.next_id as TokenId;
        let token = |at| if at < common { 500 * document } else { own as usize } + at;
        let tokens: Vec<_> = (0..length).map(|at| token(at) as TokenId).collect();
        let salt = [None, Some(PrefixSalt(1)), Some(PrefixSalt(2))][self.below(3)];
        let seat = self.pool.sit(RequestId(self.next_id), length, salt);
        self.next_id += 1;
        self.sitting.push(Sitting { seat, tokens, salt });
    }

    /// A step of one request: it takes over what there is, gets room, is fed, and shares. It may also find that what it wrote last
    /// is not what is wanted.
    fn step(&mut self, index: usize) {
        let (more, back) = (1 + self.below(40), self.below(6) * self.below(8));
        let Sitting { seat, tokens, salt } = &self.sitting[index];
        let (seat, salt) = (*seat, *salt);
        self.pool.adopt(seat, tokens);
        let fed = self.pool.fed(seat) as usize;
        let to = tokens.len().min(fed + more);
        if fed == to || !self.pool.reserve(seat, to) {
            return;
        }
        let table = self.pool.blocks(seat).to_vec();
        for at in fed..to {
            let block = table[at / KV_BLOCK_TOKENS];
            let holders = self
                .sitting
                .iter()
                .filter(|other| self.pool.blocks(other.seat).contains(&block));
            assert_eq!(holders.count(), 1, "a block that is written has one holder");
            let memory = &mut self.memory[block.0 as usize];
            if at % KV_BLOCK_TOKENS == 0 {
                *memory = Memory {
                    tokens: Vec::new(),
                    salt,
                };
            }
            memory.tokens.truncate(at % KV_BLOCK_TOKENS);
            memory.tokens.push(tokens[at]);
        }
        self.pool.set_fed(seat, to as u32);
        self.pool.unpin(seat);
        self.pool.share(seat, tokens);
        if back > 0 {
            self.pool.truncate(seat, (to - back.min(to)) as u32);
        }
    }

    fn happen(&mut self) {
        let choice = self.below(100);
        if self.sitting.is_empty() || (choice < 20 && self.sitting.len() < 8) {
            return self.sit();
        }
        let index = self.below(self.sitting.len());
        match choice {
            20..30 => {
                let gone = self.sitting.swap_remove(index);
                self.pool.leave(gone.seat);
            }
            30..33 => {
                let failed = self.sitting.swap_remove(index);
                self.pool.leave_nothing(failed.seat);
            }
            33 => self.pool.lose_all(),
            _ => self.step(index),
        }
    }

    /// Every request reads its own sequence, from its own blocks or those of requests with its salt; and no block is lost.
    fn check(&self) {
        let mut held = [false; BLOCKS];
        for Sitting { seat, tokens, salt } in &self.sitting {
            let (fed, table) = (self.pool.fed(*seat) as usize, self.pool.blocks(*seat));
            assert!(self.pool.shared(*seat) as usize * KV_BLOCK_TOKENS <= fed);
            for (expected, block) in tokens[..fed].chunks(KV_BLOCK_TOKENS).zip(table) {
                let memory = &self.memory[block.0 as usize];
                assert!(
                    memory.tokens.starts_with(expected),
                    "{expected:?} from {:?}",
                    memory.tokens
                );
                assert_eq!(memory.salt, *salt);
            }
            table.iter().for_each(|block| held[block.0 as usize] = true);
        }
        let held = held.iter().filter(|held| **held).count();
        assert_eq!(held + self.pool.blocks_free(), BLOCKS, "held or free");
        assert_eq!(self.pool.seats_taken(), self.sitting.len());
    }
}

fn run(seed: u64) -> PrefixCounts {
    let mut schedule = Schedule {
        seed,
        draws: 0,
        pool: KvPool::new(BLOCKS),
        memory: vec![Memory::default(); BLOCKS],
        sitting: Vec::new(),
        next_id: 0,
    };
    for _ in 0..200 {
        schedule.happen();
        schedule.check();
    }
    while let Some(gone) = schedule.sitting.pop() {
        schedule.pool.leave(gone.seat);
    }
    schedule.check();
    schedule.pool.prefix_counts()
}

#[test]
fn requests_that_share_blocks_read_what_they_would_have_written() {
    let mut counts = PrefixCounts::default();
    for seed in 0..500 {
        let result = std::panic::catch_unwind(|| run(seed));
        counts = counts + result.unwrap_or_else(|_| panic!("seed {seed}"));
    }
    assert!(
        counts.hits > 2_000 && counts.tokens > 50_000 && counts.given_up > 5_000,
        "{counts:?}"
    );
}
