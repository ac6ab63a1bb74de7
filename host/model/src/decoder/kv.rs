//! The KV pool of a decoder. Who holds which block is the scheduler's business; here are only the numbers.

use tokenrouter_core::limits::KV_BLOCK_TOKENS;

use super::shape::HeadShape;
use crate::config::DecoderConfig;
use crate::error::ModelError;

/// Keys and values of every layer, in blocks, written in place.
#[derive(Debug)]
pub struct KvPool {
    /// One a layer: [blocks, 2, kv_heads, KV_BLOCK_TOKENS, head_dim], 2 for keys and values.
    pub(super) layers: Vec<Vec<f32>>,
    blocks: usize,
}

impl KvPool {
    /// A pool of `blocks` blocks of [`KV_BLOCK_TOKENS`] positions.
    ///
    /// # Errors
    /// When it does not fit in memory.
    pub fn new(config: &DecoderConfig, blocks: usize) -> Result<Self, ModelError> {
        let layers = config.num_hidden_layers;
        let bytes = (blocks as u64)
            .saturating_mul(KV_BLOCK_TOKENS as u64)
            .saturating_mul(Self::bytes_per_token(config));
        let too_large = || ModelError::Pool { blocks, bytes };
        // Zeroed memory comes from the system untouched and a failure there ends the process, so ask first.
        let floats = usize::try_from(bytes / 4).map_err(|_| too_large())?;
        Vec::<f32>::new().try_reserve_exact(floats).map_err(|_| too_large())?;
        let shape = HeadShape::of(config);
        Ok(Self {
            layers: (0..layers).map(|_| vec![0.0; blocks * shape.block_len()]).collect(),
            blocks,
        })
    }

    /// How many blocks it has.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Bytes per position, all layers together.
    pub fn bytes_per_token(config: &DecoderConfig) -> u64 {
        let shape = HeadShape::of(config);
        let floats = (config.num_hidden_layers * shape.block_len() / KV_BLOCK_TOKENS) as u64;
        floats * size_of::<f32>() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Embedded, Source};

    #[test]
    fn sizes_are_counted_and_an_impossible_pool_is_refused() {
        let config = Source::Embedded(Embedded::Large).config().unwrap();
        // 6 layers, keys and values, 2 heads of 64, 4 bytes each.
        assert_eq!(KvPool::bytes_per_token(&config), 6 * 2 * 2 * 64 * 4);
        for blocks in [usize::MAX, usize::MAX / 65_536] {
            let error = KvPool::new(&config, blocks).unwrap_err().to_string();
            assert!(error.contains("does not fit in memory"), "{error}");
        }
    }
}
