//! Root-mean-square norm.

use pulp::{Arch, Simd, WithSimd};

use crate::cpu::Pool;
use crate::ops::simd;

/// Replaces `out` by `x / sqrt(mean(x^2) + eps) * weight` for every row of `x`, which is [rows, weight.len()].
pub(super) fn rms_norm<S: Send>(
    pool: &mut Pool,
    x: &[f32],
    weight: &[f32],
    eps: f32,
    scratch: &mut [S],
    out: &mut Vec<f32>,
) {
    let width = weight.len();
    out.resize(x.len(), 0.0);
    pool.chunks(out, width, 2 * width, scratch, |row, _, out| {
        out.copy_from_slice(&x[row * width..(row + 1) * width]);
        Arch::new().dispatch(Normalise { row: out, weight, eps });
    });
}

struct Normalise<'a> {
    row: &'a mut [f32],
    weight: &'a [f32],
    eps: f32,
}

impl WithSimd for Normalise<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        normalise(simd, self.row, self.weight, self.eps);
    }
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
