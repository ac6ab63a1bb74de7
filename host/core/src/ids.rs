//! Names for the things that are counted.

/// A token of the vocabulary that all models of a deployment share.
pub type TokenId = u32;

/// A model's place in the deployment's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelIndex(pub u32);

impl ModelIndex {
    /// The same number, to index with.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A request, unique in the life of an engine and growing in the order of admission, so that the smaller id is the
/// older request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// One block of a model's KV pool: room for [`crate::limits::KV_BLOCK_TOKENS`] positions of every layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u32);
