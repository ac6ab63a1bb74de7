//! The weights of a decoder on a device.

use half::bf16;

use super::CudaError;
use super::matrix::Matrix;
use super::memory::Buffer;
use super::sizes::Sizes;
use super::stream::{Arguments, Stream};
use super::tensors::Tensors;
use crate::config::DecoderConfig;
use crate::decoder::Rotary;
use crate::error::ModelError;

/// One layer. Norms are f32, matrices bf16.
pub(super) struct Layer {
    pub(super) attention_norm: Buffer,
    /// Queries, keys and values, one above the other.
    pub(super) qkv: Matrix,
    pub(super) q_norm: Buffer,
    pub(super) k_norm: Buffer,
    pub(super) attention_out: Matrix,
    pub(super) feed_forward_norm: Buffer,
    /// Gate and up, tiles in turn.
    pub(super) gate_up: Matrix,
    pub(super) down: Matrix,
}

/// All of a decoder's weights.
pub(super) struct Weights {
    pub(super) embedding: Matrix,
    /// `None`: the embedding serves as the head.
    head: Option<Matrix>,
    pub(super) layers: Vec<Layer>,
    pub(super) norm: Buffer,
    /// Positions × head_dim / 2 of (cos, sin).
    pub(super) turns: Buffer,
}

impl Weights {
    /// The head: [vocabulary, hidden].
    pub(super) fn head(&self) -> &Matrix {
        self.head.as_ref().unwrap_or(&self.embedding)
    }

    /// Reads tensors one after the other and lays each out for the device.
    pub(super) fn load(stream: &Stream, config: &DecoderConfig, tensors: &Tensors) -> Result<Self, ModelError> {
        let sizes = Sizes::of(config)?;
        let (hidden, inner) = (sizes.hidden, sizes.inner);
        let norm = |name: &str, len: usize| -> Result<Buffer, ModelError> {
            Ok(Buffer::from_slice(stream, &tensors.f32(name, &[len])?, name)?)
        };
        let matrix = |name: &str, rows: usize, k: usize| -> Result<Matrix, ModelError> {
            Ok(Matrix::new(stream, &tensors.bf16(name, &[rows, k])?, k, name)?)
        };
        let layer = |index: usize| -> Result<Layer, ModelError> {
            let name = |part: &str| format!("model.layers.{index}.{part}.weight");
            let (q, kv) = (sizes.attention_width(), sizes.kv_heads * sizes.head_dim);
            let mut qkv: Vec<bf16> = Vec::with_capacity(sizes.qkv_width() * hidden);
            for (part, rows) in [("q_proj", q), ("k_proj", kv), ("v_proj", kv)] {
                qkv.extend(tensors.bf16(&name(&format!("self_attn.{part}")), &[rows, hidden])?);
            }
            let [gate, up] =
                ["gate_proj", "up_proj"].map(|part| tensors.bf16(&name(&format!("mlp.{part}")), &[inner, hidden]));
            Ok(Layer {
                attention_norm: norm(&name("input_layernorm"), hidden)?,
                qkv: Matrix::new(stream, &qkv, hidden, &name("self_attn.{q,k,v}_proj"))?,
                q_norm: norm(&name("self_attn.q_norm"), sizes.head_dim)?,
                k_norm: norm(&name("self_attn.k_norm"), sizes.head_dim)?,
                attention_out: matrix(&name("self_attn.o_proj"), hidden, q)?,
                feed_forward_norm: norm(&name("post_attention_layernorm"), hidden)?,
                gate_up: Matrix::in_turn(stream, &gate?, &up?, hidden, &name("mlp.{gate,up}_proj"))?,
                down: matrix(&name("mlp.down_proj"), hidden, inner)?,
            })
        };
        let head = match config.tie_word_embeddings {
            true => None,
            false => Some(matrix("lm_head.weight", sizes.vocabulary, hidden)?),
        };
        Ok(Self {
            embedding: matrix("model.embed_tokens.weight", sizes.vocabulary, hidden)?,
            head,
            layers: (0..sizes.layers).map(layer).collect::<Result<_, _>>()?,
            norm: norm("model.norm.weight", hidden)?,
            turns: turns(stream, config)?,
        })
    }

    /// Weights without meaning in the same shapes: matrices that keep the size of what they multiply, norms of 1.
    pub(super) fn random(stream: &Stream, config: &DecoderConfig, seed: u64) -> Result<Self, CudaError> {
        let sizes = Sizes::of(config)?;
        let (hidden, inner) = (sizes.hidden, sizes.inner);
        let mut next = seed;
        let mut matrix = |rows: usize, k: usize| {
            next = next.wrapping_add(1);
            // A uniform distribution in ±b has the variance b² / 3.
            Matrix::random(stream, rows, k, (3.0 / k as f32).sqrt(), next)
        };
        let ones = |len: usize| -> Result<Buffer, CudaError> {
            let buffer = Buffer::zeroed::<f32>(stream, len, "norms")?;
            let mut arguments = Arguments::new().buffer(&buffer).long(len as u64).float(1.0);
            stream.launch(stream.device().kernels.get("fill"), (8, 1, 1), 256, 0, &mut arguments)?;
            Ok(buffer)
        };
        let embedding = matrix(sizes.vocabulary, hidden)?;
        let head = match config.tie_word_embeddings {
            true => None,
            false => Some(matrix(sizes.vocabulary, hidden)?),
        };
        let mut layers = Vec::with_capacity(sizes.layers);
        for _ in 0..sizes.layers {
            layers.push(Layer {
                attention_norm: ones(hidden)?,
                qkv: matrix(sizes.qkv_width(), hidden)?,
                q_norm: ones(sizes.head_dim)?,
                k_norm: ones(sizes.head_dim)?,
                attention_out: matrix(hidden, sizes.attention_width())?,
                feed_forward_norm: ones(hidden)?,
                gate_up: matrix(2 * inner, hidden)?,
                down: matrix(hidden, inner)?,
            });
        }
        let weights = Self {
            embedding,
            head,
            layers,
            norm: ones(hidden)?,
            turns: turns(stream, config)?,
        };
        stream.wait()?;
        Ok(weights)
    }

    /// Bytes that a step reads of them, at least: all matrices but an embedding that is not the head.
    pub(super) fn streamed_bytes(&self) -> u64 {
        let layers = self
            .layers
            .iter()
            .flat_map(|it| [&it.qkv, &it.attention_out, &it.gate_up, &it.down]);
        layers
            .chain([self.head()])
            .map(|matrix| matrix.data.bytes() as u64)
            .sum()
    }
}

/// The CPU's own numbers, so that both turn alike.
fn turns(stream: &Stream, config: &DecoderConfig) -> Result<Buffer, CudaError> {
    let mut turns = Vec::new();
    Rotary::new(config).turns(0..config.max_position_embeddings as u32, &mut turns);
    let flat: Vec<f32> = turns.iter().flat_map(|(cos, sin)| [*cos, *sin]).collect();
    Buffer::from_slice(stream, &flat, "rotary positions")
}
