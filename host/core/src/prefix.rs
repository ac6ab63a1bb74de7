//! Which blocks of a KV pool hold which tokens, so that a request that begins like another one takes over its blocks instead
//! of computing them again.
//!
//! Only whole blocks are entered, and only once their tokens are committed and their KV is computed. What a block's KV is depends on
//! its tokens and on all before them, so an entry is found by both. A digest finds it fast, and the tokens themselves decide: two
//! prefixes of the same digest are never taken for each other.

mod retained;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash as _, Hasher as _};

use crate::ids::{BlockId, TokenId};
use crate::limits::KV_BLOCK_TOKENS;
use retained::Retained;

/// Whose prefixes a request may share: those of requests with the same salt, and of no others. How long an answer takes tells
/// whether somebody has asked for its beginning before, so those who must not learn that of each other need different salts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PrefixSalt(pub u128);

/// What is in a block.
pub(crate) type BlockTokens = [TokenId; KV_BLOCK_TOKENS];

/// The tokens of a sequence's `block`-th block, if it has all of them.
pub(crate) fn block_tokens(sequence: &[TokenId], block: u32) -> Option<&BlockTokens> {
    let start = block as usize * KV_BLOCK_TOKENS;
    sequence.get(start..start + KV_BLOCK_TOKENS)?.try_into().ok()
}

/// A prefix of whole blocks: all tokens from a sequence's beginning to a block's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    id: PrefixId,
    /// Of the salt and all its tokens.
    digest: u64,
}

/// Tells prefixes apart, those that were in the index before included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PrefixId {
    /// That of no tokens.
    Empty(PrefixSalt),
    /// One that was entered, in the order of entering.
    Entered(u64),
}

impl Prefix {
    /// The beginning of all prefixes with this salt.
    pub(crate) fn empty(salt: PrefixSalt) -> Self {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        Self {
            id: PrefixId::Empty(salt),
            digest: hasher.finish(),
        }
    }

    fn digest_with(&self, tokens: &BlockTokens) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.digest);
        tokens.hash(&mut hasher);
        hasher.finish()
    }
}

/// What a block holds: `tokens`, behind the prefix `before`.
#[derive(Clone, Copy, Debug)]
struct Entry {
    before: PrefixId,
    tokens: BlockTokens,
    prefix: Prefix,
}

/// The index of one pool: its blocks by what they hold, and the order in which those that nobody holds are given up.
#[derive(Debug)]
pub(crate) struct PrefixIndex {
    by_digest: HashMap<u64, BlockId, BuildHasherDefault<DefaultHasher>>,
    /// By block.
    entries: Vec<Option<Entry>>,
    entered: u64,
    retained: Retained,
}

impl PrefixIndex {
    /// An empty index of a pool of `blocks` blocks.
    pub(crate) fn new(blocks: usize) -> Self {
        Self {
            // A map grows when it is full of places that were taken once. With twice the room it tidies up in place instead.
            by_digest: HashMap::with_capacity_and_hasher(2 * blocks, BuildHasherDefault::default()),
            entries: vec![None; blocks],
            entered: 0,
            retained: Retained::new(blocks),
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.by_digest.clear();
        self.entries.fill(None);
        self.retained.clear();
    }

    /// Whether the block is in the index.
    pub(crate) fn has(&self, block: BlockId) -> bool {
        self.entries[block.0 as usize].is_some()
    }

    /// The prefix that ends with the block, if that is in the index.
    pub(crate) fn prefix(&self, block: BlockId) -> Option<Prefix> {
        self.entries[block.0 as usize].map(|entry| entry.prefix)
    }

    /// The block that holds `tokens` behind `before`, and the prefix that ends with it.
    pub(crate) fn find(&self, before: Prefix, tokens: &BlockTokens) -> Option<(BlockId, Prefix)> {
        let block = *self.by_digest.get(&before.digest_with(tokens))?;
        let entry = self.entries[block.0 as usize].as_ref()?;
        (entry.before == before.id && entry.tokens == *tokens).then_some((block, entry.prefix))
    }

    /// Enters a block that holds `tokens` behind `before` and returns the prefix that ends with it. `None`, and nothing is entered, if
    /// another prefix has the same digest: then neither this one nor what is behind it is shared.
    pub(crate) fn enter(&mut self, block: BlockId, before: Prefix, tokens: &BlockTokens) -> Option<Prefix> {
        debug_assert!(!self.has(block), "a block holds one thing");
        let digest = before.digest_with(tokens);
        if self.by_digest.contains_key(&digest) {
            return None;
        }
        self.by_digest.insert(digest, block);
        self.entered += 1;
        let id = PrefixId::Entered(self.entered);
        let prefix = Prefix { id, digest };
        self.entries[block.0 as usize] = Some(Entry {
            before: before.id,
            tokens: *tokens,
            prefix,
        });
        Some(prefix)
    }

    /// Takes a block out that is held.
    pub(crate) fn remove(&mut self, block: BlockId) {
        if let Some(entry) = self.entries[block.0 as usize].take() {
            self.by_digest.remove(&entry.prefix.digest);
        }
    }

    /// Nobody holds the block any more: it stays until its memory is needed.
    pub(crate) fn retain(&mut self, block: BlockId) {
        self.retained.push(block);
    }

    /// Somebody holds the block again.
    pub(crate) fn reclaim(&mut self, block: BlockId) {
        self.retained.remove(block);
    }

    /// Blocks that nobody holds.
    pub(crate) fn retained(&self) -> usize {
        self.retained.len()
    }

    /// Takes out the block that nobody has held for the longest time.
    pub(crate) fn give_up(&mut self) -> Option<BlockId> {
        let block = self.retained.pop()?;
        self.remove(block);
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: PrefixSalt = PrefixSalt(7);

    fn tokens(first: TokenId) -> BlockTokens {
        std::array::from_fn(|i| first + i as TokenId)
    }

    #[test]
    fn a_block_is_found_by_its_tokens_all_before_them_and_the_salt() {
        let mut index = PrefixIndex::new(8);
        let start = Prefix::empty(SALT);
        let first = index.enter(BlockId(3), start, &tokens(0)).unwrap();
        let second = index.enter(BlockId(5), first, &tokens(100)).unwrap();
        assert_eq!(index.find(start, &tokens(0)), Some((BlockId(3), first)));
        assert_eq!(index.find(first, &tokens(100)), Some((BlockId(5), second)));
        assert_eq!(index.find(start, &tokens(100)), None, "the same tokens elsewhere");
        assert_eq!(index.find(first, &tokens(101)), None, "other tokens there");
        assert_eq!(
            index.find(Prefix::empty(PrefixSalt(8)), &tokens(0)),
            None,
            "another salt"
        );
    }

    /// vLLM's advisory GHSA-rm76-4mrf-v9r8: prompts made to collide in their hash got each other's KV.
    #[test]
    fn a_digest_alone_decides_nothing() {
        let mut index = PrefixIndex::new(8);
        let start = Prefix::empty(SALT);
        index.enter(BlockId(0), start, &tokens(0)).unwrap();
        let collides = Prefix {
            id: PrefixId::Entered(99),
            digest: start.digest,
        };
        assert_eq!(index.find(collides, &tokens(0)), None);
        assert_eq!(index.enter(BlockId(1), collides, &tokens(0)), None);
        assert!(!index.has(BlockId(1)));
        assert!(index.find(start, &tokens(0)).is_some(), "the first stays");
    }

    #[test]
    fn what_is_behind_a_prefix_that_was_given_up_is_not_found_behind_its_successor() {
        let mut index = PrefixIndex::new(8);
        let start = Prefix::empty(SALT);
        let first = index.enter(BlockId(0), start, &tokens(0)).unwrap();
        index.enter(BlockId(1), first, &tokens(16)).unwrap();
        index.retain(BlockId(0));
        assert_eq!(index.give_up(), Some(BlockId(0)));
        assert_eq!(index.find(start, &tokens(0)), None);
        let again = index.enter(BlockId(2), start, &tokens(0)).unwrap();
        assert_ne!(again.id, first.id);
        assert_eq!(index.find(again, &tokens(16)), None);
    }

    #[test]
    fn the_index_never_grows() {
        let mut index = PrefixIndex::new(64);
        let room = index.by_digest.capacity();
        for first in 0..10_000 {
            let block = BlockId(first % 64);
            if index.has(block) {
                index.remove(block);
            }
            index.enter(block, Prefix::empty(SALT), &tokens(first)).unwrap();
        }
        assert_eq!(index.by_digest.len(), 64);
        assert_eq!(index.by_digest.capacity(), room);
    }
}
