//! What a pool promises about room and about whose KV is whose.

use super::*;
use crate::ids::TokenId;

#[test]
fn older_requests_take_from_the_youngest_and_never_the_other_way() {
    let mut pool = KvPool::new(4);
    let seats: Vec<_> = (0..3).map(|id| pool.sit(RequestId(id), 64, None)).collect();
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
    let (old, young) = (pool.sit(RequestId(1), 32, None), pool.sit(RequestId(2), 32, None));
    assert!(pool.reserve(young, 32));
    assert!(!pool.reserve(old, 16));
    pool.unpin(young);
    assert!(pool.reserve(old, 16));
}

#[test]
fn a_pool_that_lost_everything_has_all_blocks_free_and_all_seats_taken() {
    let mut pool = KvPool::new(4);
    let seats: Vec<_> = (0..2).map(|id| pool.sit(RequestId(id), 64, None)).collect();
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
    let seat = pool.sit(RequestId(1), 64, None);
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

const SALT: Option<PrefixSalt> = Some(PrefixSalt(1));

fn sequence(length: usize) -> Vec<TokenId> {
    (0..length as TokenId).collect()
}

/// A request computes the first `fed` tokens of `tokens` and shares them.
fn computed(pool: &mut KvPool, id: u64, salt: Option<PrefixSalt>, tokens: &[TokenId], fed: usize) -> SeatIndex {
    let seat = pool.sit(RequestId(id), tokens.len(), salt);
    assert!(pool.reserve(seat, fed));
    pool.set_fed(seat, fed as u32);
    pool.unpin(seat);
    pool.share(seat, tokens);
    seat
}

#[test]
fn whole_blocks_are_taken_over_from_running_and_from_finished_requests() {
    let (mut pool, tokens) = (KvPool::new(8), sequence(60));
    let first = computed(&mut pool, 1, SALT, &tokens, 40);
    let second = pool.sit(RequestId(2), 60, SALT);
    assert_eq!(pool.adopt(second, &tokens), 0..32, "the third block is not whole");
    assert_eq!(pool.blocks(second), &pool.blocks(first)[..2]);
    assert_eq!(pool.blocks_free(), 5, "what two hold counts once");
    pool.leave(first);
    assert_eq!(
        (pool.blocks_free(), pool.blocks_retained()),
        (6, 0),
        "the second still holds them"
    );
    pool.leave(second);
    assert_eq!((pool.blocks_free(), pool.blocks_retained()), (8, 2));
    let third = pool.sit(RequestId(3), 60, SALT);
    assert_eq!(pool.adopt(third, &tokens), 0..32);
    assert_eq!(
        pool.prefix_counts(),
        PrefixCounts {
            hits: 2,
            tokens: 64,
            given_up: 0
        }
    );
}

/// vllm#17999, vllm#11186: a prompt that is held whole leaves nothing to compute, and its logits are wanted all the same.
#[test]
fn the_last_token_is_always_left_to_be_fed() {
    let (mut pool, tokens) = (KvPool::new(8), sequence(33));
    computed(&mut pool, 1, SALT, &tokens, 33);
    for (length, adopted) in [(1, 0), (16, 0), (17, 16), (32, 16), (33, 32)] {
        let seat = pool.sit(RequestId(2), length, SALT);
        assert_eq!(pool.adopt(seat, &tokens[..length]), 0..adopted, "{length} tokens");
        pool.leave(seat);
    }
}

/// CVE-2025-46570: how long an answer takes must not tell what others have asked.
#[test]
fn nothing_is_shared_across_salts_nor_without_one() {
    let (mut pool, tokens) = (KvPool::new(8), sequence(40));
    let mine = computed(&mut pool, 1, SALT, &tokens, 40);
    let alone = computed(&mut pool, 2, None, &tokens, 40);
    pool.leave(mine);
    pool.leave(alone);
    assert_eq!(pool.blocks_retained(), 2, "who does not share leaves nothing");
    for (salt, adopted) in [(None, 0), (Some(PrefixSalt(2)), 0), (SALT, 32)] {
        let seat = pool.sit(RequestId(3), 40, salt);
        assert_eq!(pool.adopt(seat, &tokens), 0..adopted, "{salt:?}");
        pool.leave(seat);
    }
}

#[test]
fn retained_blocks_are_given_up_before_anybody_loses_anything_the_oldest_first_and_ends_before_beginnings() {
    let mut pool = KvPool::new(6);
    let (old, new): (Vec<_>, Vec<_>) = (sequence(32), (100..132).collect());
    for (id, tokens) in [(1, &old), (2, &new)] {
        let seat = computed(&mut pool, id, SALT, tokens, 32);
        pool.leave(seat);
    }
    let young = computed(&mut pool, 9, None, &old, 32);
    let elder = pool.sit(RequestId(3), 64, None);
    assert!(pool.reserve(elder, 16), "of the old prefix, the end goes");
    let (asks_old, asks_new) = (pool.sit(RequestId(4), 33, SALT), pool.sit(RequestId(5), 33, SALT));
    let longer = |tokens: &[TokenId]| [tokens, &[7]].concat();
    assert_eq!(pool.adopt(asks_old, &longer(&old)), 0..16);
    assert_eq!(pool.adopt(asks_new, &longer(&new)), 0..32);
    assert_eq!((pool.evictions(), pool.fed(young)), (0, 32));
    assert_eq!(pool.prefix_counts().given_up, 1);
}

/// vllm#10507: blocks that were found were given away before they were held.
#[test]
fn what_a_request_has_taken_over_is_not_given_up_for_its_own_next_block() {
    let (mut pool, tokens) = (KvPool::new(2), sequence(48));
    let seat = computed(&mut pool, 1, SALT, &tokens, 32);
    pool.leave(seat);
    let seat = pool.sit(RequestId(2), 48, SALT);
    assert_eq!(pool.adopt(seat, &tokens), 0..32);
    assert!(!pool.reserve(seat, 48), "there are two blocks, and it holds both");
    assert_eq!(pool.fed(seat), 32);
}

#[test]
fn a_victim_gives_only_what_nobody_else_holds() {
    let (mut pool, tokens) = (KvPool::new(4), sequence(64));
    let elder = computed(&mut pool, 1, SALT, &tokens, 32);
    let young = pool.sit(RequestId(2), 64, SALT);
    pool.adopt(young, &tokens);
    assert!(pool.reserve(young, 48));
    pool.unpin(young);
    assert!(!pool.reserve(elder, 96), "four blocks are all there are");
    assert_eq!(pool.fed(young), 32, "a refused reservation changes nothing");
    assert!(pool.reserve(elder, 64));
    assert_eq!((pool.evictions(), pool.fed(young), pool.fed(elder)), (1, 0, 32));
}

/// What a request computes itself, loses and finds again is not what others have saved it (as in LMCache#3269, where it made a
/// counter go down).
#[test]
fn what_is_found_again_after_a_preemption_is_not_found_for_the_first_time() {
    let (mut pool, tokens) = (KvPool::new(3), sequence(48));
    let young = computed(&mut pool, 2, SALT, &tokens, 40);
    let elder = pool.sit(RequestId(1), 16, None);
    assert!(pool.reserve(elder, 16));
    assert_eq!(pool.fed(young), 0);
    assert_eq!(pool.adopt(young, &tokens), 40..40);
    assert_eq!(pool.fed(young), 32, "what was retained of its own");
    assert_eq!(pool.prefix_counts().hits, 0);
}

/// vllm#49449: a sequence went on differently, and its old blocks were still found under their old contents.
#[test]
fn a_shared_block_is_never_written_again() {
    let (mut pool, tokens) = (KvPool::new(8), sequence(48));
    let seat = computed(&mut pool, 1, SALT, &tokens, 40);
    let before = pool.blocks(seat).to_vec();
    pool.truncate(seat, 20);
    assert_eq!(
        (pool.fed(seat), pool.blocks(seat)),
        (16, &before[..1]),
        "of the second block, nothing is kept"
    );
    let mut other = tokens.clone();
    other[18] = 1_000;
    assert!(pool.reserve(seat, 40));
    assert!(!pool.blocks(seat).contains(&before[1]), "{:?}", pool.blocks(seat));
    pool.set_fed(seat, 40);
    pool.unpin(seat);
    pool.share(seat, &other);
    for (tokens, block) in [(&tokens, before[1]), (&other, pool.blocks(seat)[1])] {
        let reader = pool.sit(RequestId(2), 48, SALT);
        assert_eq!(pool.adopt(reader, tokens), 0..32);
        assert_eq!(pool.blocks(reader)[1], block);
        pool.leave(reader);
    }
}

#[test]
fn a_request_that_failed_leaves_nothing_that_it_alone_held() {
    let (mut pool, tokens) = (KvPool::new(8), sequence(64));
    let good = computed(&mut pool, 1, SALT, &tokens, 32);
    let bad = pool.sit(RequestId(2), 64, SALT);
    pool.adopt(bad, &tokens);
    assert!(pool.reserve(bad, 64));
    pool.set_fed(bad, 64);
    pool.unpin(bad);
    pool.share(bad, &tokens);
    pool.leave_nothing(bad);
    pool.leave(good);
    assert_eq!((pool.blocks_free(), pool.blocks_retained()), (8, 2));
}

#[test]
fn a_pool_that_lost_everything_shares_nothing() {
    let (mut pool, tokens) = (KvPool::new(8), sequence(40));
    let (gone, stays) = (
        computed(&mut pool, 1, SALT, &tokens, 40),
        pool.sit(RequestId(2), 40, SALT),
    );
    pool.leave(gone);
    pool.adopt(stays, &tokens);
    pool.lose_all();
    assert_eq!((pool.blocks_free(), pool.blocks_retained(), pool.fed(stays)), (8, 0, 0));
    assert_eq!(pool.adopt(stays, &tokens), 32..32);
    assert_eq!(pool.fed(stays), 0);
    pool.leave(stays);
    assert_eq!(pool.blocks_free(), 8);
}
