//! Matrices in f32.

use pulp::{Arch, Simd, WithSimd};

use super::fill::fill;
use super::pack::{Order, lines};
use crate::cpu::PANEL;
use crate::error::ModelError;
use crate::ops::simd;
use crate::weights::FileMatrix;

/// All rows as `held` makes of them, and zeros up to a whole panel.
pub(super) fn read<T: Copy + Default + Send>(
    parts: &[FileMatrix],
    order: Order,
    held: impl Fn(f32) -> T + Sync,
) -> Result<Vec<T>, ModelError> {
    let k = parts.first().map_or(0, FileMatrix::k);
    let lines = lines(parts, order);
    let mut all = vec![T::default(); lines.len() * k];
    fill(&lines, &mut all, PANEL * k, |lines, all| {
        let mut row = Vec::with_capacity(k);
        for (line, to) in lines.iter().zip(all.chunks_exact_mut(k)) {
            let Some((part, index)) = line else { continue };
            parts[*part].read_row(*index, &mut row)?;
            to.iter_mut().zip(&row).for_each(|(to, number)| *to = held(*number));
        }
        Ok(())
    })?;
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
