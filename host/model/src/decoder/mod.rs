//! The Qwen3 decoder (Yang et al., "Qwen3 technical report", 2025): a pre-norm transformer with grouped-query
//! attention, a norm per query and key head, rotary positions and gated feed-forward networks.
//!
//! Invariant: the logits of a position are the same bits whatever else the step feeds, however the sequence was cut into
//! steps, and whichever blocks hold it. It follows from the invariant of `ops` and from there being nothing but `ops` here.

mod kv;
mod layer;

pub use kv::KvPool;

use candle_core::{Device, Tensor};
use tokenrouter_core::step::StepBatch;

use crate::config::Qwen3Config;
use crate::error::ModelError;
use crate::ops::{self, HeadShape, Rotary};
use crate::weights::Weights;
use layer::Layer;

/// What a step gives for each position that needs logits.
#[derive(Debug)]
pub struct Outputs {
    /// Hidden states after the final norm: [rows, hidden_size].
    pub hidden: Tensor,
    /// [rows, vocabulary].
    pub logits: Tensor,
}

/// Weights of a decoder, ready to run.
#[derive(Debug)]
pub struct Decoder {
    embedding: Tensor,
    layers: Vec<Layer>,
    norm: Tensor,
    head: Tensor,
    rotary: Rotary,
    shape: HeadShape,
    eps: f32,
}

impl Decoder {
    /// Builds a decoder from its weights, which are taken out of `weights`.
    ///
    /// # Errors
    /// When a tensor is missing, of another shape than `config` says, or of a type that cannot be read.
    pub fn new(config: &Qwen3Config, weights: &mut Weights) -> Result<Self, ModelError> {
        let (vocabulary, hidden) = (config.vocab_size, config.hidden_size);
        let table = [vocabulary, hidden];
        let embedding = tensor(weights.take("model.embed_tokens.weight", &table)?, &table)?;
        let head = match config.tie_word_embeddings {
            true => embedding.clone(),
            false => tensor(weights.take("lm_head.weight", &table)?, &table)?,
        };
        let layers = (0..config.num_hidden_layers).map(|index| Layer::new(config, weights, index));
        Ok(Self {
            embedding,
            layers: layers.collect::<Result<_, _>>()?,
            norm: tensor(weights.take("model.norm.weight", &[hidden])?, &[hidden])?,
            head,
            rotary: Rotary::new(config.head_dim, config.max_position_embeddings, config.rope_theta),
            shape: head_shape(config),
            eps: config.rms_norm_eps as f32,
        })
    }

    /// The input embedding table: [vocabulary, hidden_size].
    pub fn embedding(&self) -> &Tensor {
        &self.embedding
    }

    /// Feeds a step's tokens, writes their keys and values into `kv`, and returns hidden states and logits of the positions
    /// that need them, [`StepBatch::logits_rows`] rows; `None` when none does.
    ///
    /// # Errors
    /// When a tensor operation fails.
    ///
    /// # Panics
    /// May panic when the batch contradicts itself, the model or the pool: [`crate::DecoderRunner`] checks it first.
    pub fn forward(&self, batch: &StepBatch, kv: &KvPool) -> Result<Option<Outputs>, ModelError> {
        if batch.tokens.is_empty() {
            return Ok(None);
        }
        let step = Step {
            batch,
            positions: positions(batch),
            rotary: &self.rotary,
            shape: self.shape,
            eps: self.eps,
        };
        let x = ops::rows(&self.embedding, &batch.tokens)?;
        for (layer, pool) in self.layers.iter().zip(&kv.layers) {
            layer.forward(&x, pool, &step)?;
        }
        let wanted = logits_positions(batch);
        if wanted.is_empty() {
            return Ok(None);
        }
        let hidden = ops::rms_norm(&ops::rows(&x, &wanted)?, &self.norm, self.eps)?;
        let logits = ops::linear(&hidden, &self.head)?;
        Ok(Some(Outputs { hidden, logits }))
    }
}

/// What all layers need to know of a step.
struct Step<'a> {
    batch: &'a StepBatch,
    /// Of every token.
    positions: Vec<u32>,
    rotary: &'a Rotary,
    shape: HeadShape,
    eps: f32,
}

fn positions(batch: &StepBatch) -> Vec<u32> {
    batch
        .rows
        .iter()
        .flat_map(|row| row.position..row.position + row.len)
        .collect()
}

/// Which of the batch's tokens need logits.
fn logits_positions(batch: &StepBatch) -> Vec<u32> {
    batch
        .rows
        .iter()
        .flat_map(|row| row.first + row.len - row.logits..row.first + row.len)
        .collect()
}

fn head_shape(config: &Qwen3Config) -> HeadShape {
    let (heads, kv_heads) = (config.num_attention_heads, config.num_key_value_heads);
    HeadShape {
        heads,
        kv_heads,
        head_dim: config.head_dim,
    }
}

fn tensor(data: Vec<f32>, shape: &[usize]) -> Result<Tensor, ModelError> {
    Ok(Tensor::from_vec(data, shape, &Device::Cpu)?)
}
