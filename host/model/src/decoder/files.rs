//! A decoder's weights before they are laid out: every tensor found and its shape and type checked, the matrices not read yet.
//! A damaged download is refused here, before gigabytes of it have been converted.

use super::heads::HeadNorms;
use super::held::{CACHE_BYTES, Choice, Parts};
use super::shape::HeadShape;
use super::{CpuOptions, WeightFormat};
use crate::config::DecoderConfig;
use crate::error::ModelError;
use crate::matrix::Order;
use crate::weights::{FileMatrix, Weights};

/// All weights of a decoder, checked. Norms and biases are read, which are small.
#[derive(Debug)]
pub struct DecoderFiles {
    pub(super) embedding: Parts,
    /// `None`: the embedding serves as the head.
    pub(super) head: Option<Parts>,
    pub(super) layers: Vec<LayerFiles>,
    pub(super) norm: Vec<f32>,
}

/// The weights of one layer; fields as in [`super::layer::Layer`].
#[derive(Debug)]
pub(super) struct LayerFiles {
    pub(super) attention_norm: Vec<f32>,
    pub(super) qkv: Parts,
    pub(super) qkv_bias: Option<Vec<f32>>,
    pub(super) head_norms: Option<HeadNorms>,
    pub(super) attention_out: Parts,
    pub(super) attention_out_bias: Option<Vec<f32>>,
    pub(super) feed_forward_norm: Vec<f32>,
    pub(super) gate_up: Parts,
    pub(super) down: Parts,
}

impl DecoderFiles {
    /// Takes what a decoder needs out of `weights`.
    ///
    /// # Errors
    /// When a tensor is missing, of another shape than `config` says, or of a type that cannot be read.
    pub fn take(config: &DecoderConfig, weights: &mut Weights) -> Result<Self, ModelError> {
        let (vocabulary, hidden) = (config.vocab_size, config.hidden_size);
        let mut table = |name: &str| weights.take_matrix(name, vocabulary, hidden).map(one);
        let embedding = table("model.embed_tokens.weight")?;
        let head = match config.tie_word_embeddings {
            true => None,
            false => Some(table("lm_head.weight")?),
        };
        let layers = (0..config.num_hidden_layers).map(|index| LayerFiles::take(config, weights, index));
        Ok(Self {
            embedding,
            head,
            layers: layers.collect::<Result<_, _>>()?,
            norm: weights.take("model.norm.weight", &[hidden])?,
        })
    }

    /// Bytes that the decoder's matrices will take: what [`super::Decoder::held`] says once they are laid out.
    pub fn held_bytes(&self, options: CpuOptions) -> u64 {
        self.bytes_of(self.choices(options))
    }

    /// How matrices are held: the embedding and the head, and those of the layers.
    pub(super) fn choices(&self, options: CpuOptions) -> [Choice; 2] {
        let of = |format, cached| [true, false].map(|table| Choice { format, table, cached });
        let cached = self.bytes_of(of(WeightFormat::F32, false)) <= CACHE_BYTES;
        of(options.weights, cached)
    }

    fn bytes_of(&self, [of_tables, of_layers]: [Choice; 2]) -> u64 {
        let tables = [Some(&self.embedding), self.head.as_ref()].into_iter().flatten();
        let tables: u64 = tables.map(|matrix| of_tables.bytes(matrix)).sum();
        let layer = |layer: &LayerFiles| -> u64 {
            let matrices = [&layer.qkv, &layer.attention_out, &layer.gate_up, &layer.down];
            matrices.into_iter().map(|matrix| of_layers.bytes(matrix)).sum()
        };
        tables + self.layers.iter().map(layer).sum::<u64>()
    }
}

impl LayerFiles {
    fn take(config: &DecoderConfig, weights: &mut Weights, index: usize) -> Result<Self, ModelError> {
        let shape = HeadShape::of(config);
        let (hidden, inner) = (config.hidden_size, config.intermediate_size);
        let (q, kv) = (shape.q_width(), shape.kv_width());
        let name = |part: &str, kind: &str| format!("model.layers.{index}.{part}.{kind}");
        let mut vector = |part: &str, kind: &str, len: usize| weights.take(&name(part, kind), &[len]);
        let attention_norm = vector("input_layernorm", "weight", hidden)?;
        let feed_forward_norm = vector("post_attention_layernorm", "weight", hidden)?;
        let head_norms = match config.head_norms() {
            false => None,
            true => Some(HeadNorms {
                q: vector("self_attn.q_norm", "weight", shape.head_dim)?,
                k: vector("self_attn.k_norm", "weight", shape.head_dim)?,
            }),
        };
        let qkv_bias = match config.qkv_bias() {
            false => None,
            true => {
                let mut all = vector("self_attn.q_proj", "bias", q)?;
                all.extend(vector("self_attn.k_proj", "bias", kv)?);
                all.extend(vector("self_attn.v_proj", "bias", kv)?);
                Some(all)
            }
        };
        let attention_out_bias = match config.output_bias {
            false => None,
            true => Some(vector("self_attn.o_proj", "bias", hidden)?),
        };
        let mut matrix = |part: &str, rows: usize, k: usize| weights.take_matrix(&name(part, "weight"), rows, k);
        Ok(Self {
            attention_norm,
            qkv: Parts {
                parts: vec![
                    matrix("self_attn.q_proj", q, hidden)?,
                    matrix("self_attn.k_proj", kv, hidden)?,
                    matrix("self_attn.v_proj", kv, hidden)?,
                ],
                order: Order::Joined,
            },
            qkv_bias,
            head_norms,
            attention_out: one(matrix("self_attn.o_proj", hidden, q)?),
            attention_out_bias,
            feed_forward_norm,
            gate_up: Parts {
                parts: vec![
                    matrix("mlp.gate_proj", inner, hidden)?,
                    matrix("mlp.up_proj", inner, hidden)?,
                ],
                order: Order::InTurn,
            },
            down: one(matrix("mlp.down_proj", hidden, inner)?),
        })
    }
}

fn one(matrix: FileMatrix) -> Parts {
    Parts {
        parts: vec![matrix],
        order: Order::Joined,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoder::Decoder;
    use crate::source::{Embedded, Source};

    /// What is said before loading is what is held after it.
    #[test]
    fn the_bytes_are_known_before_they_are_held() {
        for model in Embedded::ALL {
            for weights in [
                WeightFormat::Auto,
                WeightFormat::F32,
                WeightFormat::Bf16,
                WeightFormat::Q8,
                WeightFormat::Q4,
            ] {
                let options = CpuOptions { threads: 1, weights };
                let source = Source::Embedded(model);
                let config = source.config().unwrap();
                let files = DecoderFiles::take(&config, &mut source.weights().unwrap()).unwrap();
                let planned = files.held_bytes(options);
                let decoder = Decoder::from_files(&config, files, options).unwrap();
                assert_eq!(planned, decoder.held().0, "{model:?} {weights:?}");
            }
        }
    }
}
