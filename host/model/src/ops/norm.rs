//! Root-mean-square norm.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor, bail};
use pulp::{Arch, Simd, WithSimd};

use super::{elements, simd};

/// `x / sqrt(mean(x^2) + eps) * weight` for every row: [rows, n] and [n] give [rows, n].
pub(crate) fn rms_norm(x: &Tensor, weight: &Tensor, eps: f32) -> Result<Tensor> {
    x.apply_op2_no_bwd(weight, &RmsNorm { eps })
}

struct RmsNorm {
    eps: f32,
}

/// Normalises one row in place.
#[inline(always)]
pub(super) fn normalise<S: Simd>(simd: S, row: &mut [f32], weight: &[f32], eps: f32) {
    let mean = simd::dot(simd, row, row) / row.len() as f32;
    let scale = 1.0 / (mean + eps).sqrt();
    for (value, weight) in row.iter_mut().zip(weight) {
        *value = *value * scale * weight;
    }
}

struct Kernel<'a> {
    rows: &'a mut [f32],
    weight: &'a [f32],
    eps: f32,
}

impl WithSimd for Kernel<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for row in self.rows.chunks_exact_mut(self.weight.len()) {
            normalise(simd, row, self.weight, self.eps);
        }
    }
}

impl CustomOp2 for RmsNorm {
    fn name(&self) -> &'static str {
        "rms_norm"
    }

    fn cpu_fwd(&self, x: &CpuStorage, lx: &Layout, w: &CpuStorage, lw: &Layout) -> Result<(CpuStorage, Shape)> {
        let (_, width) = lx.shape().dims2()?;
        if lw.shape().dims1()? != width {
            bail!("rms_norm: x has {width} columns, the weight has {:?}", lw.shape());
        }
        let mut rows = elements(x, lx)?.to_vec();
        Arch::new().dispatch(Kernel {
            rows: &mut rows,
            weight: elements(w, lw)?,
            eps: self.eps,
        });
        Ok((CpuStorage::F32(rows), lx.shape().clone()))
    }
}
