//! Models with random weights, for checks: the same on every machine, and small enough to be made on the fly.

use half::bf16;
use safetensors::tensor::{Dtype, TensorView, serialize};
use tokenrouter_core::draw::{Purpose, uniform_f32};

use crate::config::DecoderConfig;
use crate::error::ModelError;

/// Sizes of a model, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomSizes {
    /// Rows of the embedding table.
    pub vocabulary: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Width between the halves of a feed-forward network.
    pub inner: usize,
    /// Layers.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Most positions of a sequence.
    pub positions: usize,
    /// Whether the embedding serves as the head.
    pub tied: bool,
}

impl RandomSizes {
    /// Qwen3-0.6B.
    pub const QWEN3_0_6B: Self = Self {
        vocabulary: 151_936,
        hidden: 1_024,
        inner: 3_072,
        layers: 28,
        heads: 16,
        kv_heads: 8,
        head_dim: 128,
        positions: 40_960,
        tied: true,
    };

    /// Qwen3-32B.
    pub const QWEN3_32B: Self = Self {
        vocabulary: 151_936,
        hidden: 5_120,
        inner: 25_600,
        layers: 64,
        heads: 64,
        kv_heads: 8,
        head_dim: 128,
        positions: 40_960,
        tied: false,
    };

    /// The configuration of a Qwen3 model of these sizes, without tokens that begin or end a sequence.
    ///
    /// # Errors
    /// When the sizes contradict each other.
    pub fn config(&self) -> Result<DecoderConfig, ModelError> {
        let json = serde_json::json!({
            "model_type": "qwen3", "vocab_size": self.vocabulary, "hidden_size": self.hidden,
            "intermediate_size": self.inner, "num_hidden_layers": self.layers, "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads, "head_dim": self.head_dim,
            "max_position_embeddings": self.positions, "rope_theta": 1_000_000.0, "rms_norm_eps": 1e-6,
            "tie_word_embeddings": self.tied,
        });
        DecoderConfig::parse(json.to_string().as_bytes(), "random model")
    }

    /// A safetensors file of bf16 weights: matrices that keep the size of what they multiply, norms around 1.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn weights(&self, seed: u64) -> Result<Vec<u8>, ModelError> {
        let mut next = 0;
        let mut tensor = |shape: &[usize]| {
            let (base, scale) = match shape {
                [_, k] => (0.0, (3.0 / *k as f32).sqrt()),
                _ => (1.0, 0.3),
            };
            let bytes = (0..shape.iter().product::<usize>()).flat_map(|_| {
                next += 1;
                let draw = uniform_f32(seed, next, Purpose::Policy(0)) * 2.0 - 1.0;
                bf16::from_f32(base + scale * draw).to_le_bytes()
            });
            bytes.collect::<Vec<u8>>()
        };
        let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = self
            .shapes()
            .into_iter()
            .map(|(name, shape)| (name, shape.clone(), tensor(&shape)))
            .collect();
        let views: Result<Vec<_>, _> = tensors
            .iter()
            .map(|(name, shape, bytes)| TensorView::new(Dtype::BF16, shape.clone(), bytes).map(|view| (name, view)))
            .collect();
        let damaged = |error: safetensors::SafeTensorError| ModelError::Weights {
            file: "random model".to_owned(),
            what: error.to_string(),
        };
        serialize(views.map_err(damaged)?, None).map_err(damaged)
    }

    fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        let (hidden, inner, head_dim) = (self.hidden, self.inner, self.head_dim);
        let (q, kv) = (self.heads * head_dim, self.kv_heads * head_dim);
        let mut shapes = vec![("model.embed_tokens".to_owned(), vec![self.vocabulary, hidden])];
        for layer in 0..self.layers {
            let parts = [
                ("input_layernorm", vec![hidden]),
                ("self_attn.q_proj", vec![q, hidden]),
                ("self_attn.k_proj", vec![kv, hidden]),
                ("self_attn.v_proj", vec![kv, hidden]),
                ("self_attn.q_norm", vec![head_dim]),
                ("self_attn.k_norm", vec![head_dim]),
                ("self_attn.o_proj", vec![hidden, q]),
                ("post_attention_layernorm", vec![hidden]),
                ("mlp.gate_proj", vec![inner, hidden]),
                ("mlp.up_proj", vec![inner, hidden]),
                ("mlp.down_proj", vec![hidden, inner]),
            ];
            shapes.extend(parts.map(|(part, shape)| (format!("model.layers.{layer}.{part}"), shape)));
        }
        shapes.push(("model.norm".to_owned(), vec![hidden]));
        if !self.tied {
            shapes.push(("lm_head".to_owned(), vec![self.vocabulary, hidden]));
        }
        shapes
            .into_iter()
            .map(|(name, shape)| (format!("{name}.weight"), shape))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The models' own cards: 0.6 B and 32.8 B parameters.
    #[test]
    fn the_named_sizes_are_those_of_the_models() {
        let millions = |sizes: RandomSizes| sizes.config().unwrap().parameters() / 1_000_000;
        assert_eq!(millions(RandomSizes::QWEN3_0_6B), 596);
        assert_eq!(millions(RandomSizes::QWEN3_32B), 32_762);
    }
}
