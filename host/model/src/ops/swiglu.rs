//! The gate of a feed-forward network.

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor};

use super::elements;

/// `silu(gate) * up` of rows that hold gate and up side by side: [rows, 2 n] gives [rows, n]. silu(v) = v / (1 + e^-v).
pub(crate) fn swiglu(gate_up: &Tensor) -> Result<Tensor> {
    gate_up.apply_op1_no_bwd(&SwiGlu)
}

struct SwiGlu;

impl CustomOp1 for SwiGlu {
    fn name(&self) -> &'static str {
        "swiglu"
    }

    fn cpu_fwd(&self, gate_up: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (rows, width) = layout.shape().dims2()?;
        let n = width / 2;
        let mut out = Vec::with_capacity(rows * n);
        for row in elements(gate_up, layout)?.chunks_exact(width) {
            let (gate, up) = row.split_at(n);
            out.extend(gate.iter().zip(up).map(|(gate, up)| gate / (1.0 + (-gate).exp()) * up));
        }
        Ok((CpuStorage::F32(out), (rows, n).into()))
    }
}
