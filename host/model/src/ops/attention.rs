//! Attention over a paged KV pool, and writing into it.
//!
//! A layer's pool is [blocks, 2, kv_heads, KV_BLOCK_TOKENS, head_dim]: of every block first the keys, then the values.
//! A row's block table says which block holds which of its positions: block `i` of the table has positions
//! `i * KV_BLOCK_TOKENS..`. Each token attends to the positions up to its own, in their order, whatever else the step
//! feeds.

use candle_core::{CpuStorage, CustomOp2, InplaceOp2, Layout, Result, Shape, Tensor, bail};
use pulp::{Arch, Simd, WithSimd};
use tokenrouter_core::BlockId;
use tokenrouter_core::limits::KV_BLOCK_TOKENS;
use tokenrouter_core::step::StepBatch;

use super::{elements, elements_mut, simd};

/// The heads of an attention layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeadShape {
    /// Query heads, a multiple of `kv_heads`.
    pub(crate) heads: usize,
    /// Key and value heads.
    pub(crate) kv_heads: usize,
    /// Width of each.
    pub(crate) head_dim: usize,
}

impl HeadShape {
    /// Width of a row of queries, keys and values.
    pub(crate) fn qkv_width(self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_dim
    }

    /// Elements of one block of a layer's pool.
    pub(crate) fn block_len(self) -> usize {
        2 * self.kv_heads * KV_BLOCK_TOKENS * self.head_dim
    }

    /// Where, in a layer's pool, the first position of a block has its key (`part` 0) or value (`part` 1) of a head.
    fn offset(self, block: BlockId, part: usize, kv_head: usize) -> usize {
        let heads = (block.0 as usize * 2 + part) * self.kv_heads + kv_head;
        heads * KV_BLOCK_TOKENS * self.head_dim
    }
}

/// Writes the keys and values of all tokens of a step into their blocks. `qkv` is as for `norm_and_rotate`.
pub(crate) fn store_kv(pool: &Tensor, qkv: &Tensor, batch: &StepBatch, shape: HeadShape) -> Result<()> {
    pool.inplace_op2(qkv, &Paged { batch, shape })
}

/// Attention of all tokens of a step, which must have been stored: [tokens, heads * head_dim]. Scores are scaled by
/// 1 / sqrt(head_dim); softmax subtracts the largest score first.
pub(crate) fn attention(pool: &Tensor, qkv: &Tensor, batch: &StepBatch, shape: HeadShape) -> Result<Tensor> {
    pool.apply_op2_no_bwd(qkv, &Paged { batch, shape })
}

struct Paged<'a> {
    batch: &'a StepBatch,
    shape: HeadShape,
}

impl Paged<'_> {
    fn check(&self, pool: &Layout, qkv: &Layout) -> Result<()> {
        if qkv.shape().dims2()? != (self.batch.tokens.len(), self.shape.qkv_width()) {
            bail!("qkv is {:?} for {} tokens", qkv.shape(), self.batch.tokens.len());
        }
        if !pool.shape().elem_count().is_multiple_of(self.shape.block_len()) {
            bail!(
                "the KV pool {:?} does not consist of blocks of {}",
                pool.shape(),
                self.shape.block_len()
            );
        }
        Ok(())
    }
}

impl InplaceOp2 for Paged<'_> {
    fn name(&self) -> &'static str {
        "store_kv"
    }

    fn cpu_fwd(&self, pool: &mut CpuStorage, lp: &Layout, qkv: &CpuStorage, lq: &Layout) -> Result<()> {
        self.check(lp, lq)?;
        let (pool, qkv) = (elements_mut(pool, lp)?, elements(qkv, lq)?);
        let HeadShape {
            heads,
            kv_heads,
            head_dim,
        } = self.shape;
        for row in &self.batch.rows {
            let blocks = self.batch.row_blocks(row);
            for i in 0..row.len as usize {
                let position = row.position as usize + i;
                let (block, slot) = (blocks[position / KV_BLOCK_TOKENS], position % KV_BLOCK_TOKENS);
                let start = (row.first as usize + i) * self.shape.qkv_width() + heads * head_dim;
                let kv = &qkv[start..start + 2 * kv_heads * head_dim];
                for (h, values) in kv.chunks_exact(head_dim).enumerate() {
                    let to = self.shape.offset(block, h / kv_heads, h % kv_heads) + slot * head_dim;
                    pool[to..to + head_dim].copy_from_slice(values);
                }
            }
        }
        Ok(())
    }
}

impl CustomOp2 for Paged<'_> {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn cpu_fwd(&self, pool: &CpuStorage, lp: &Layout, qkv: &CpuStorage, lq: &Layout) -> Result<(CpuStorage, Shape)> {
        self.check(lp, lq)?;
        let width = self.shape.heads * self.shape.head_dim;
        let tokens = self.batch.tokens.len();
        let mut out = vec![0.0; tokens * width];
        let (pool, qkv) = (elements(pool, lp)?, elements(qkv, lq)?);
        Arch::new().dispatch(Kernel {
            op: self,
            pool,
            qkv,
            out: &mut out,
        });
        Ok((CpuStorage::F32(out), (tokens, width).into()))
    }
}

struct Kernel<'a> {
    op: &'a Paged<'a>,
    pool: &'a [f32],
    qkv: &'a [f32],
    out: &'a mut [f32],
}

impl WithSimd for Kernel<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let HeadShape {
            heads,
            kv_heads,
            head_dim,
        } = self.op.shape;
        let (width, qkv_width, group) = (heads * head_dim, self.op.shape.qkv_width(), heads / kv_heads * head_dim);
        let rows = &self.op.batch.rows;
        let span_max = rows
            .iter()
            .map(|row| (row.position + row.len) as usize)
            .max()
            .unwrap_or(0);
        let mut scores = vec![0.0; heads / kv_heads * span_max];
        for row in rows {
            let blocks = self.op.batch.row_blocks(row);
            for i in 0..row.len as usize {
                let token = row.first as usize + i;
                let span = row.position as usize + i + 1;
                let queries = &self.qkv[token * qkv_width..token * qkv_width + width];
                let out = &mut self.out[token * width..(token + 1) * width];
                for (kv_head, (q, out)) in queries.chunks_exact(group).zip(out.chunks_exact_mut(group)).enumerate() {
                    attend(
                        simd,
                        self.op.shape,
                        self.pool,
                        blocks,
                        kv_head,
                        span,
                        q,
                        &mut scores,
                        out,
                    );
                }
            }
        }
    }
}

/// One token's query heads that share a key head: `q` and `out` are [heads / kv_heads, head_dim].
#[inline(always)]
#[allow(clippy::too_many_arguments)] // A kernel's operands; a struct would only be taken apart again.
fn attend<S: Simd>(
    simd: S,
    shape: HeadShape,
    pool: &[f32],
    blocks: &[BlockId],
    kv_head: usize,
    span: usize,
    q: &[f32],
    scores: &mut [f32],
    out: &mut [f32],
) {
    let head_dim = shape.head_dim;
    let scale = 1.0 / (head_dim as f32).sqrt();
    for (start, block) in (0..span).step_by(KV_BLOCK_TOKENS).zip(blocks) {
        let held = KV_BLOCK_TOKENS.min(span - start) * head_dim;
        let keys = &pool[shape.offset(*block, 0, kv_head)..][..held];
        simd::dots(simd, q, keys, head_dim, &mut scores[start..], span, false);
    }
    for (scores, out) in scores.chunks_exact_mut(span).zip(out.chunks_exact_mut(head_dim)) {
        let max = scores.iter().fold(f32::NEG_INFINITY, |max, score| max.max(*score));
        let mut sum = 0.0;
        for score in scores.iter_mut() {
            *score = ((*score - max) * scale).exp();
            sum += *score;
        }
        out.fill(0.0);
        for (weights, block) in scores.chunks(KV_BLOCK_TOKENS).zip(blocks) {
            let values = &pool[shape.offset(*block, 1, kv_head)..][..weights.len() * head_dim];
            simd::add_weighted(simd, weights, values, out);
        }
        for value in out {
            *value /= sum;
        }
    }
}
