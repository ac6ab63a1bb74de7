//! The gate of a feed-forward network.

use pulp::{Arch, Simd, WithSimd};

use crate::cpu::PANEL;
use crate::ops::exp;

/// `gate = silu(gate) * up`, with silu(v) = v / (1 + e^-v).
pub(super) fn swiglu(gate: &mut [[f32; PANEL]], up: &[[f32; PANEL]]) {
    Arch::new().dispatch(SwiGlu { gate, up });
}

struct SwiGlu<'a> {
    gate: &'a mut [[f32; PANEL]],
    up: &'a [[f32; PANEL]],
}

impl WithSimd for SwiGlu<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (gate, up) in self.gate.iter_mut().zip(self.up) {
            for (gate, up) in gate.iter_mut().zip(up) {
                *gate = *gate / (1.0 + exp(-*gate)) * up;
            }
        }
    }
}
