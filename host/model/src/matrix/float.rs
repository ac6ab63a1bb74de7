//! Matrices in f32.

use pulp::{Arch, Simd, WithSimd};

use super::pack::{Order, lines};
use crate::cpu::PANEL;
use crate::error::ModelError;
use crate::ops::simd;
use crate::weights::FileMatrix;

/// All rows, and zeros up to a whole panel.
pub(super) fn read(parts: &[FileMatrix], order: Order) -> Result<Vec<f32>, ModelError> {
    let k = parts.first().map_or(0, FileMatrix::k);
    let lines = lines(parts, order);
    let (mut all, mut row) = (Vec::with_capacity(lines.len() * k), Vec::with_capacity(k));
    for line in lines {
        match line {
            Some((part, index)) => parts[part].read_row(index, &mut row)?,
            None => {
                row.clear();
                row.resize(k, 0.0);
            }
        }
        all.extend_from_slice(&row);
    }
    Ok(all)
}

struct Tile<'a> {
    x: &'a [f32],
    w: &'a [f32],
    k: usize,
    out: &'a mut [[f32; PANEL]],
}

impl WithSimd for Tile<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        simd::dots(simd, self.x, self.w, self.k, self.out.as_flattened_mut(), PANEL, false);
    }
}

/// Products of rows `x` ([out.len(), k]) with a panel `w` ([PANEL, k]).
pub(super) fn tile(x: &[f32], w: &[f32], k: usize, out: &mut [[f32; PANEL]]) {
    Arch::new().dispatch(Tile { x, w, k, out });
}
