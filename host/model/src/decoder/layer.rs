//! One layer of the decoder.

use candle_core::Tensor;

use super::{Step, head_shape, tensor};
use crate::config::Qwen3Config;
use crate::error::ModelError;
use crate::ops;
use crate::weights::Weights;

/// Weights of a layer. Projections of the same input are one tensor, so that the input is read once.
#[derive(Debug)]
pub(super) struct Layer {
    attention_norm: Tensor,
    /// Queries, keys, values: [(heads + 2 kv_heads) * head_dim, hidden].
    qkv: Tensor,
    q_norm: Tensor,
    k_norm: Tensor,
    /// [hidden, heads * head_dim].
    attention_out: Tensor,
    feed_forward_norm: Tensor,
    /// Gate, then up: [2 * intermediate, hidden].
    gate_up: Tensor,
    /// [hidden, intermediate].
    down: Tensor,
}

impl Layer {
    /// Takes layer `index` out of the weights.
    pub(super) fn new(config: &Qwen3Config, weights: &mut Weights, index: usize) -> Result<Self, ModelError> {
        let shape = head_shape(config);
        let (hidden, inner) = (config.hidden_size, config.intermediate_size);
        let (q, kv) = (shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim);
        let mut one = |name: &str, sizes: &[usize]| {
            tensor(
                weights.take(&format!("model.layers.{index}.{name}.weight"), sizes)?,
                sizes,
            )
        };
        let attention_norm = one("input_layernorm", &[hidden])?;
        let q_norm = one("self_attn.q_norm", &[shape.head_dim])?;
        let k_norm = one("self_attn.k_norm", &[shape.head_dim])?;
        let attention_out = one("self_attn.o_proj", &[hidden, q])?;
        let feed_forward_norm = one("post_attention_layernorm", &[hidden])?;
        let down = one("mlp.down_proj", &[hidden, inner])?;
        let mut joined = |parts: &[(&str, usize)]| {
            let rows = parts.iter().map(|(_, rows)| rows).sum();
            let mut all = Vec::with_capacity(rows * hidden);
            for (name, rows) in parts {
                all.extend(weights.take(&format!("model.layers.{index}.{name}.weight"), &[*rows, hidden])?);
            }
            tensor(all, &[rows, hidden])
        };
        let qkv = joined(&[
            ("self_attn.q_proj", q),
            ("self_attn.k_proj", kv),
            ("self_attn.v_proj", kv),
        ])?;
        let gate_up = joined(&[("mlp.gate_proj", inner), ("mlp.up_proj", inner)])?;
        Ok(Self {
            attention_norm,
            qkv,
            q_norm,
            k_norm,
            attention_out,
            feed_forward_norm,
            gate_up,
            down,
        })
    }

    /// Adds the layer's part to `x` ([tokens, hidden]) in place and writes the tokens' keys and values into `pool`.
    pub(super) fn forward(&self, x: &Tensor, pool: &Tensor, step: &Step<'_>) -> Result<(), ModelError> {
        let qkv = ops::linear(&ops::rms_norm(x, &self.attention_norm, step.eps)?, &self.qkv)?;
        let (shape, positions) = (step.shape, &step.positions);
        ops::norm_and_rotate(
            &qkv,
            &self.q_norm,
            &self.k_norm,
            step.eps,
            shape,
            step.rotary,
            positions,
        )?;
        ops::store_kv(pool, &qkv, step.batch, shape)?;
        ops::linear_add(x, &ops::attention(pool, &qkv, step.batch, shape)?, &self.attention_out)?;
        let gate_up = ops::linear(&ops::rms_norm(x, &self.feed_forward_norm, step.eps)?, &self.gate_up)?;
        ops::linear_add(x, &ops::swiglu(&gate_up)?, &self.down)?;
        Ok(())
    }
}
