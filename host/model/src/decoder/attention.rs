//! Attention over a paged KV pool, and writing into it.
//!
//! A row's block table says which block holds which of its positions: block `i` of the table has positions
//! `i * KV_BLOCK_TOKENS..`. Each token attends to the positions up to its own, in their order, whatever else the step
//! feeds. Scores are scaled by 1 / sqrt(head_dim); softmax subtracts the largest score first.

use pulp::{Arch, Simd, WithSimd};
use tokenrouter_core::BlockId;
use tokenrouter_core::limits::KV_BLOCK_TOKENS;
use tokenrouter_core::step::StepBatch;

use super::scratch::Scratch;
use super::shape::HeadShape;
use crate::cpu::Pool;
use crate::ops::{exp, simd};

/// Writes the keys and values of all tokens of a step into their blocks of a layer's pool. `qkv` is
/// [tokens, qkv_width].
pub(super) fn store_kv(layer: &mut [f32], qkv: &[f32], batch: &StepBatch, shape: HeadShape) {
    let HeadShape { kv_heads, head_dim, .. } = shape;
    for row in &batch.rows {
        let blocks = batch.row_blocks(row);
        for i in 0..row.len as usize {
            let position = row.position as usize + i;
            let (block, slot) = (blocks[position / KV_BLOCK_TOKENS], position % KV_BLOCK_TOKENS);
            let start = (row.first as usize + i) * shape.qkv_width() + shape.q_width();
            let kv = &qkv[start..start + 2 * shape.kv_width()];
            for (h, values) in kv.chunks_exact(head_dim).enumerate() {
                let to = shape.offset(block, h / kv_heads, h % kv_heads) + slot * head_dim;
                layer[to..to + head_dim].copy_from_slice(values);
            }
        }
    }
}

/// Attention of all tokens of a step, which must have been stored, into `scratch.attended`.
pub(super) fn attention(pool: &mut Pool, layer: &[f32], batch: &StepBatch, shape: HeadShape, scratch: &mut Scratch) {
    let Scratch {
        qkv,
        attended,
        positions,
        rows,
        scores,
        ..
    } = scratch;
    attended.resize(positions.len() * shape.q_width(), 0.0);
    let group = shape.heads / shape.kv_heads * shape.head_dim;
    let span_max = positions.iter().max().map_or(0, |position| *position as usize + 1);
    // The heads that share a key head, token after token: pieces of `attended` that follow each other.
    pool.chunks(attended, group, 2 * span_max * group, scores, |index, scores, out| {
        let (token, kv_head) = (index / shape.kv_heads, index % shape.kv_heads);
        let span = positions[token] as usize + 1;
        scores.resize(scores.len().max(shape.heads / shape.kv_heads * span), 0.0);
        let start = token * shape.qkv_width() + kv_head * group;
        Arch::new().dispatch(Attend {
            shape,
            layer,
            blocks: batch.row_blocks(&batch.rows[rows[token] as usize]),
            kv_head,
            q: &qkv[start..start + group],
            scores: &mut scores[..shape.heads / shape.kv_heads * span],
            out,
        });
    });
}

/// One token's query heads that share a key head: `q` and `out` are [heads / kv_heads, head_dim], `scores`
/// [heads / kv_heads, span].
struct Attend<'a> {
    shape: HeadShape,
    layer: &'a [f32],
    blocks: &'a [BlockId],
    kv_head: usize,
    q: &'a [f32],
    scores: &'a mut [f32],
    out: &'a mut [f32],
}

impl WithSimd for Attend<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let head_dim = self.shape.head_dim;
        let span = self.scores.len() * head_dim / self.q.len();
        let scale = 1.0 / (head_dim as f32).sqrt();
        for (start, block) in (0..span).step_by(KV_BLOCK_TOKENS).zip(self.blocks) {
            let held = KV_BLOCK_TOKENS.min(span - start) * head_dim;
            let keys = &self.layer[self.shape.offset(*block, 0, self.kv_head)..][..held];
            simd::dots(simd, self.q, keys, head_dim, &mut self.scores[start..], span, false);
        }
        for (scores, out) in self
            .scores
            .chunks_exact_mut(span)
            .zip(self.out.chunks_exact_mut(head_dim))
        {
            let sum = weigh(scores, scale);
            out.fill(0.0);
            for (weights, block) in scores.chunks(KV_BLOCK_TOKENS).zip(self.blocks) {
                let start = self.shape.offset(*block, 1, self.kv_head);
                let values = &self.layer[start..][..weights.len() * head_dim];
                simd::add_weighted(simd, weights, values, out);
            }
            for value in out {
                *value /= sum;
            }
        }
    }
}

/// Scores become weights e^(scale (score - largest)); returns their sum, of eight partial sums.
#[inline(always)]
fn weigh(scores: &mut [f32], scale: f32) -> f32 {
    let max = scores.iter().fold(f32::NEG_INFINITY, |max, score| max.max(*score));
    for score in scores.iter_mut() {
        *score = exp((*score - max) * scale);
    }
    let mut sums = [0.0; 8];
    let (eights, rest) = scores.as_chunks::<8>();
    for eight in eights {
        sums.iter_mut().zip(eight).for_each(|(sum, score)| *sum += score);
    }
    sums.iter_mut().zip(rest).for_each(|(sum, score)| *sum += score);
    sums.iter().sum()
}
