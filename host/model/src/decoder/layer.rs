//! One layer of the decoder.

use tokenrouter_core::step::StepBatch;

use super::attention::{attention, store_kv};
use super::files::LayerFiles;
use super::heads::{HeadNorms, Prepare};
use super::held::Choice;
use super::norm::rms_norm;
use super::scratch::Scratch;
use super::shape::HeadShape;
use crate::cpu::{ActivationBlock, Pool};
use crate::error::ModelError;
use crate::matrix::{Input, Matrix, Then, quantise};

/// Weights of a layer. Projections of the same input are one matrix, so that the input is read once.
#[derive(Debug)]
pub(super) struct Layer {
    attention_norm: Vec<f32>,
    /// Queries, keys, values: [(heads + 2 kv_heads) * head_dim, hidden].
    qkv: Matrix,
    qkv_bias: Option<Vec<f32>>,
    head_norms: Option<HeadNorms>,
    /// [hidden, heads * head_dim].
    attention_out: Matrix,
    attention_out_bias: Option<Vec<f32>>,
    feed_forward_norm: Vec<f32>,
    /// Gate and up in turn, [2 * intermediate, hidden].
    gate_up: Matrix,
    /// [hidden, intermediate].
    down: Matrix,
}

/// What all layers need to know of a step.
pub(super) struct Step<'a> {
    pub(super) batch: &'a StepBatch,
    pub(super) shape: HeadShape,
    pub(super) eps: f32,
}

impl Layer {
    /// Lays a layer's matrices out.
    pub(super) fn new(files: LayerFiles, choice: Choice) -> Result<Self, ModelError> {
        Ok(Self {
            qkv: choice.matrix(&files.qkv)?,
            attention_out: choice.matrix(&files.attention_out)?,
            gate_up: choice.matrix(&files.gate_up)?,
            down: choice.matrix(&files.down)?,
            attention_norm: files.attention_norm,
            qkv_bias: files.qkv_bias,
            head_norms: files.head_norms,
            attention_out_bias: files.attention_out_bias,
            feed_forward_norm: files.feed_forward_norm,
        })
    }

    /// The layer's matrices.
    pub(super) fn matrices(&self) -> [&Matrix; 4] {
        [&self.qkv, &self.attention_out, &self.gate_up, &self.down]
    }

    /// Adds the layer's part to `scratch.x` and writes the tokens' keys and values into `kv`, the layer's pool.
    pub(super) fn forward(&self, pool: &mut Pool, kv: &mut [f32], step: &Step<'_>, scratch: &mut Scratch) {
        let (shape, eps, tokens) = (step.shape, step.eps, scratch.positions.len());
        rms_norm(
            pool,
            &scratch.x,
            &self.attention_norm,
            eps,
            &mut scratch.scores,
            &mut scratch.normed,
        );
        scratch.qkv.resize(tokens * shape.qkv_width(), 0.0);
        let then = self.qkv_bias.as_deref().map_or(Then::Store, Then::Bias);
        let blocks = (&mut scratch.scores, &mut scratch.blocks);
        product(&self.qkv, pool, &scratch.normed, blocks, &mut scratch.qkv, then);
        let prepare = Prepare {
            shape,
            norms: self.head_norms.as_ref(),
            eps,
            turns: &scratch.turns,
        };
        prepare.run(pool, &mut scratch.qkv, &mut scratch.scores);
        store_kv(kv, &scratch.qkv, step.batch, shape);
        attention(pool, kv, step.batch, shape, scratch);
        let then = self.attention_out_bias.as_deref().map_or(Then::Add, Then::AddBias);
        let blocks = (&mut scratch.scores, &mut scratch.blocks);
        product(
            &self.attention_out,
            pool,
            &scratch.attended,
            blocks,
            &mut scratch.x,
            then,
        );
        rms_norm(
            pool,
            &scratch.x,
            &self.feed_forward_norm,
            eps,
            &mut scratch.scores,
            &mut scratch.normed,
        );
        scratch.inner.resize(tokens * self.gate_up.rows() / 2, 0.0);
        let blocks = (&mut scratch.scores, &mut scratch.blocks);
        product(
            &self.gate_up,
            pool,
            &scratch.normed,
            blocks,
            &mut scratch.inner,
            Then::SwiGlu,
        );
        let blocks = (&mut scratch.scores, &mut scratch.blocks);
        product(&self.down, pool, &scratch.inner, blocks, &mut scratch.x, Then::Add);
    }
}

/// A product whose input is quantised first if the matrix is. `buffers` are the threads' scratch, which is not read here,
/// and where the quantised input goes.
pub(super) fn product<S: Send>(
    matrix: &Matrix,
    pool: &mut Pool,
    values: &[f32],
    buffers: (&mut Vec<S>, &mut Vec<ActivationBlock>),
    out: &mut [f32],
    then: Then<'_>,
) {
    let (threads, blocks) = buffers;
    blocks.clear();
    if matrix.held().quantised() {
        quantise(pool, values, matrix.k(), threads, blocks);
    }
    matrix.product(pool, Input { values, blocks }, out, then);
}
