//! Blocks that nobody holds, in the order in which they were let go of: a list whose links lie in one table, so that a block is
//! taken out of its middle at once and nothing allocates.

use crate::ids::BlockId;

/// The neighbours of a block in the list.
#[derive(Clone, Copy, Debug, Default)]
struct Links {
    older: Option<BlockId>,
    newer: Option<BlockId>,
}

/// The list.
#[derive(Debug)]
pub(super) struct Retained {
    /// By block.
    links: Vec<Links>,
    oldest: Option<BlockId>,
    newest: Option<BlockId>,
    len: usize,
}

impl Retained {
    /// An empty list of a pool of `blocks` blocks.
    pub(super) fn new(blocks: usize) -> Self {
        Self {
            links: vec![Links::default(); blocks],
            oldest: None,
            newest: None,
            len: 0,
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Empties it.
    pub(super) fn clear(&mut self) {
        (self.oldest, self.newest, self.len) = (None, None, 0);
    }

    /// Adds a block that is not in it, as the newest.
    pub(super) fn push(&mut self, block: BlockId) {
        let older = self.newest.replace(block);
        self.links[block.0 as usize] = Links { older, newer: None };
        match older {
            Some(older) => self.links[older.0 as usize].newer = Some(block),
            None => self.oldest = Some(block),
        }
        self.len += 1;
    }

    /// Takes out a block that is in it.
    pub(super) fn remove(&mut self, block: BlockId) {
        let Links { older, newer } = self.links[block.0 as usize];
        match older {
            Some(older) => self.links[older.0 as usize].newer = newer,
            None => self.oldest = newer,
        }
        match newer {
            Some(newer) => self.links[newer.0 as usize].older = older,
            None => self.newest = older,
        }
        self.len -= 1;
    }

    /// Takes out the oldest.
    pub(super) fn pop(&mut self) -> Option<BlockId> {
        let oldest = self.oldest?;
        self.remove(oldest);
        Some(oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_comes_first_whichever_were_taken_out() {
        let ids = [0, 1, 2, 3, 4].map(BlockId);
        let mut list = Retained::new(5);
        ids.iter().for_each(|&id| list.push(id));
        for id in [ids[2], ids[0], ids[4]] {
            list.remove(id);
        }
        list.push(ids[0]);
        assert_eq!(list.len(), 3);
        let order: Vec<_> = std::iter::from_fn(|| list.pop()).collect();
        assert_eq!(order, [ids[1], ids[3], ids[0]]);
        assert_eq!((list.len(), list.pop()), (0, None));
        list.push(ids[2]);
        list.clear();
        assert_eq!((list.len(), list.pop()), (0, None));
    }
}
