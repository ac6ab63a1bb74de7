//! What happens to queries and keys between their projection and attention: a norm per head where the model has one, then
//! rotation by position.

use pulp::{Arch, Simd, WithSimd};

use super::norm::normalise;
use super::shape::HeadShape;
use crate::cpu::Pool;

/// Weights of the norms of query heads and key heads, [head_dim] each.
#[derive(Debug)]
pub(super) struct HeadNorms {
    pub(super) q: Vec<f32>,
    pub(super) k: Vec<f32>,
}

/// What prepares the heads of a layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prepare<'a> {
    pub(super) shape: HeadShape,
    pub(super) norms: Option<&'a HeadNorms>,
    pub(super) eps: f32,
    /// (cosine, sine) of each token, head_dim / 2 of them.
    pub(super) turns: &'a [(f32, f32)],
}

impl Prepare<'_> {
    /// `qkv` is [tokens, (heads + 2 kv_heads) * head_dim]: queries, keys, values; values stay.
    pub(super) fn run<S: Send>(self, pool: &mut Pool, qkv: &mut [f32], scratch: &mut [S]) {
        let width = self.shape.qkv_width();
        pool.chunks(qkv, width, 4 * width, scratch, |token, _, row| {
            Arch::new().dispatch(Token {
                prepare: self,
                token,
                row,
            });
        });
    }
}

struct Token<'a> {
    prepare: Prepare<'a>,
    token: usize,
    row: &'a mut [f32],
}

impl WithSimd for Token<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Prepare {
            shape,
            norms,
            eps,
            turns,
        } = self.prepare;
        let half = shape.head_dim / 2;
        let turns = &turns[self.token * half..(self.token + 1) * half];
        let heads = self
            .row
            .chunks_exact_mut(shape.head_dim)
            .take(shape.heads + shape.kv_heads);
        for (h, head) in heads.enumerate() {
            if let Some(norms) = norms {
                let weight = if h < shape.heads { &norms.q } else { &norms.k };
                normalise(simd, head, weight, eps);
            }
            let (low, high) = head.split_at_mut(half);
            for ((low, high), (cos, sin)) in low.iter_mut().zip(high).zip(turns) {
                (*low, *high) = (*low * cos - *high * sin, *low * sin + *high * cos);
            }
        }
    }
}
