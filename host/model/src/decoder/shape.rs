//! The heads of an attention layer, and where the KV pool has them.
//!
//! A layer's pool is [blocks, 2, kv_heads, KV_BLOCK_TOKENS, head_dim]: of every block first the keys, then the values.

use tokenrouter_core::BlockId;
use tokenrouter_core::limits::KV_BLOCK_TOKENS;

use crate::config::DecoderConfig;

/// The heads of an attention layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeadShape {
    /// Query heads, a multiple of `kv_heads`.
    pub(super) heads: usize,
    /// Key and value heads.
    pub(super) kv_heads: usize,
    /// Width of each.
    pub(super) head_dim: usize,
}

impl HeadShape {
    pub(super) fn of(config: &DecoderConfig) -> Self {
        Self {
            heads: config.num_attention_heads,
            kv_heads: config.num_key_value_heads,
            head_dim: config.head_dim,
        }
    }

    /// Width of a row of queries.
    pub(super) fn q_width(self) -> usize {
        self.heads * self.head_dim
    }

    /// Width of a row of keys, or of values.
    pub(super) fn kv_width(self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// Width of a row of queries, keys and values.
    pub(super) fn qkv_width(self) -> usize {
        self.q_width() + 2 * self.kv_width()
    }

    /// Elements of one block of a layer's pool.
    pub(super) fn block_len(self) -> usize {
        2 * self.kv_width() * KV_BLOCK_TOKENS
    }

    /// Where, in a layer's pool, the first position of a block has its key (`part` 0) or value (`part` 1) of a head.
    pub(super) fn offset(self, block: BlockId, part: usize, kv_head: usize) -> usize {
        let heads = (block.0 as usize * 2 + part) * self.kv_heads + kv_head;
        heads * KV_BLOCK_TOKENS * self.head_dim
    }
}
