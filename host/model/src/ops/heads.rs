//! What happens to queries and keys between their projection and attention: a norm per head, then rotation by
//! position.

use candle_core::{CpuStorage, InplaceOp3, Layout, Result, Tensor, bail};
use pulp::{Arch, Simd, WithSimd};

use super::attention::HeadShape;
use super::norm::normalise;
use super::{elements, elements_mut};

/// Cosines and sines of every position, for rotary position embeddings (Su et al., "RoFormer", 2021) in the layout of
/// Hugging Face's models: element i turns with element i + head_dim / 2.
#[derive(Debug)]
pub(crate) struct Rotary {
    /// positions × head_dim / 2 of (cos, sin).
    turns: Vec<(f32, f32)>,
    half: usize,
}

impl Rotary {
    /// For positions below `positions`. The angle of element i at position p is p / theta^(2 i / head_dim), rounded to f32
    /// where candle and PyTorch round it, so that their results can be compared.
    pub(crate) fn new(head_dim: usize, positions: usize, theta: f64) -> Self {
        let half = head_dim / 2;
        let speed = |i: usize| 1.0 / theta.powf((2 * i) as f64 / head_dim as f64) as f32;
        let speeds: Vec<f32> = (0..half).map(speed).collect();
        let turn = |p: usize, speed: f32| {
            let angle = p as f32 * speed;
            (angle.cos(), angle.sin())
        };
        let turns = (0..positions)
            .flat_map(|p| speeds.iter().map(move |speed| turn(p, *speed)))
            .collect();
        Self { turns, half }
    }

    /// All of them, position after position.
    pub(crate) fn turns(&self) -> &[(f32, f32)] {
        &self.turns
    }

    fn at(&self, position: u32) -> &[(f32, f32)] {
        let start = position as usize * self.half;
        &self.turns[start..start + self.half]
    }
}

/// Normalises every head of the queries with `q_norm` and of the keys with `k_norm` ([head_dim] each) and turns it by its
/// token's position. `qkv` is [tokens, (heads + 2 kv_heads) * head_dim]: queries, keys, values; values stay.
pub(crate) fn norm_and_rotate(
    qkv: &Tensor,
    q_norm: &Tensor,
    k_norm: &Tensor,
    eps: f32,
    shape: HeadShape,
    rotary: &Rotary,
    positions: &[u32],
) -> Result<()> {
    qkv.inplace_op3(
        q_norm,
        k_norm,
        &NormAndRotate {
            eps,
            shape,
            rotary,
            positions,
        },
    )
}

struct NormAndRotate<'a> {
    eps: f32,
    shape: HeadShape,
    rotary: &'a Rotary,
    positions: &'a [u32],
}

struct Kernel<'a> {
    op: &'a NormAndRotate<'a>,
    qkv: &'a mut [f32],
    q_norm: &'a [f32],
    k_norm: &'a [f32],
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
        let token = self.op.shape.qkv_width();
        for (row, position) in self.qkv.chunks_exact_mut(token).zip(self.op.positions) {
            let turns = self.op.rotary.at(*position);
            for (h, head) in row.chunks_exact_mut(head_dim).take(heads + kv_heads).enumerate() {
                let weight = if h < heads { self.q_norm } else { self.k_norm };
                normalise(simd, head, weight, self.op.eps);
                let (low, high) = head.split_at_mut(head_dim / 2);
                for ((low, high), (cos, sin)) in low.iter_mut().zip(high).zip(turns) {
                    (*low, *high) = (*low * cos - *high * sin, *low * sin + *high * cos);
                }
            }
        }
    }
}

impl InplaceOp3 for NormAndRotate<'_> {
    fn name(&self) -> &'static str {
        "norm_and_rotate"
    }

    fn cpu_fwd(
        &self,
        qkv: &mut CpuStorage,
        l: &Layout,
        q_norm: &CpuStorage,
        lq: &Layout,
        k_norm: &CpuStorage,
        lk: &Layout,
    ) -> Result<()> {
        if l.shape().dims2()? != (self.positions.len(), self.shape.qkv_width()) {
            bail!(
                "norm_and_rotate: qkv is {:?} for {} tokens",
                l.shape(),
                self.positions.len()
            );
        }
        let (q_norm, k_norm) = (elements(q_norm, lq)?, elements(k_norm, lk)?);
        Arch::new().dispatch(Kernel {
            op: self,
            qkv: elements_mut(qkv, l)?,
            q_norm,
            k_norm,
        });
        Ok(())
    }
}
