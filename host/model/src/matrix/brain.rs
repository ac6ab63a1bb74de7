//! Matrices in bf16: the upper half of an f32, so a product over them has the bits of one over the same numbers in f32.

use std::cell::RefCell;

use half::bf16;
use pulp::{Arch, Simd, WithSimd};

use super::float;
use crate::cpu::PANEL;

thread_local! {
    /// A panel in f32, which stays in the second cache while it is multiplied. It grows to the widest panel of the thread's
    /// model, once.
    static PANEL_F32: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// Products of rows `x` ([out.len(), k]) with a panel `w` ([PANEL, k]).
pub(super) fn tile(x: &[f32], w: &[bf16], k: usize, out: &mut [[f32; PANEL]]) {
    PANEL_F32.with_borrow_mut(|panel| {
        panel.resize(w.len().max(panel.len()), 0.0);
        let panel = &mut panel[..w.len()];
        widen(w, panel);
        float::tile(x, panel, k, out);
    });
}

/// The same numbers in f32.
pub(super) fn widen(from: &[bf16], to: &mut [f32]) {
    struct Widen<'a>(&'a [bf16], &'a mut [f32]);

    impl WithSimd for Widen<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) {
            for (from, to) in self.0.iter().zip(self.1) {
                *to = f32::from_bits(u32::from(from.to_bits()) << 16);
            }
        }
    }

    Arch::new().dispatch(Widen(from, to));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_widened_to_itself() {
        let all: Vec<bf16> = (0..=u16::MAX).map(bf16::from_bits).collect();
        let mut wide = vec![0.0; all.len()];
        widen(&all, &mut wide);
        for (narrow, wide) in all.iter().zip(&wide) {
            assert_eq!(wide.to_bits(), u32::from(narrow.to_bits()) << 16);
            assert!(narrow.to_f32() == *wide || wide.is_nan());
        }
    }
}
