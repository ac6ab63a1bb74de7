//! The sizes of a decoder as the kernels know them, and which ones they can take.

use tokenrouter_core::limits::KV_BLOCK_TOKENS;

use super::CudaError;
use crate::config::{Architecture, DecoderConfig};

/// Positions that one block of the attention kernel covers (`PARTITION` in `attention.cu`).
pub(super) const PARTITION_TOKENS: usize = 256;

/// Widths of a head that the attention kernel is compiled for.
const HEAD_DIMS: [usize; 3] = [32, 64, 128];

/// Sizes of a decoder, all in elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sizes {
    pub(super) vocabulary: usize,
    pub(super) hidden: usize,
    pub(super) inner: usize,
    pub(super) layers: usize,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) head_dim: usize,
    pub(super) positions: usize,
    pub(super) eps: f32,
}

impl Sizes {
    /// The sizes of a configuration.
    ///
    /// # Errors
    /// When a kernel could not take them: says which, and what would be right.
    pub(super) fn of(config: &DecoderConfig) -> Result<Self, CudaError> {
        let refuse = |what: String| Err(CudaError::Sizes(what));
        if config.architecture != Architecture::Qwen3 {
            return refuse(format!("model_type is {:?}, expected qwen3", config.architecture));
        }
        if !HEAD_DIMS.contains(&config.head_dim) {
            return refuse(format!("head_dim is {}, expected 32, 64 or 128", config.head_dim));
        }
        for (name, value) in [
            ("hidden_size", config.hidden_size),
            ("intermediate_size", config.intermediate_size),
        ] {
            if !value.is_multiple_of(32) {
                return refuse(format!("{name} is {value}, expected a multiple of 32"));
            }
        }
        Ok(Self {
            vocabulary: config.vocab_size,
            hidden: config.hidden_size,
            inner: config.intermediate_size,
            layers: config.num_hidden_layers,
            heads: config.num_attention_heads,
            kv_heads: config.num_key_value_heads,
            head_dim: config.head_dim,
            positions: config.max_position_embeddings,
            eps: config.rms_norm_eps as f32,
        })
    }

    /// Width of a row of logits: the vocabulary in whole tiles of 16.
    pub(super) fn logits_width(&self) -> usize {
        self.vocabulary.next_multiple_of(16)
    }

    /// Width of a row of queries, keys and values.
    pub(super) fn qkv_width(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_dim
    }

    /// Width of a row of all heads' results.
    pub(super) fn attention_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Elements of one block of a layer's pool: keys, then values.
    pub(super) fn block_len(&self) -> usize {
        2 * self.kv_heads * KV_BLOCK_TOKENS * self.head_dim
    }

    /// Bytes of the pool per position, all layers together: two a number.
    pub(super) fn kv_bytes_per_token(&self) -> u64 {
        (self.layers * self.block_len() / KV_BLOCK_TOKENS * 2) as u64
    }

    /// Query heads that one block of the attention kernel takes together: 2 or 8, whichever kernel fits the group.
    pub(super) fn heads_together(&self) -> usize {
        if self.heads / self.kv_heads <= 2 { 2 } else { 8 }
    }
}

/// Bytes of a model's KV pool per position on a device, all layers together.
///
/// # Errors
/// [`CudaError::Sizes`] when no kernel takes the model: says which size, and what would be right.
pub fn kv_bytes_per_token(config: &DecoderConfig) -> Result<u64, CudaError> {
    Ok(Sizes::of(config)?.kv_bytes_per_token())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(key: &str, value: usize) -> Result<Sizes, CudaError> {
        let text = include_str!("../../../../models/tiny/large/config.json");
        let mut json: serde_json::Value = serde_json::from_str(text).unwrap();
        json[key] = value.into();
        Sizes::of(&DecoderConfig::parse(json.to_string().as_bytes(), "config.json").unwrap())
    }

    #[test]
    fn what_the_kernels_cannot_take_is_refused_by_name() {
        for (key, value) in [("head_dim", 96), ("hidden_size", 264), ("intermediate_size", 760)] {
            let error = with(key, value).unwrap_err().to_string();
            assert!(error.contains(&format!("{key} is {value}, expected")), "{error}");
            assert!(error.contains("device = \"cpu\""), "{error}");
        }
    }

    /// 6 layers, keys and values of 2 heads of 64, two bytes each.
    #[test]
    fn a_token_takes_two_bytes_a_number() {
        assert_eq!(with("vocab_size", 64).unwrap().kv_bytes_per_token(), 6 * 2 * 2 * 64 * 2);
    }
}
