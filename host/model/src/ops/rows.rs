//! Choosing rows of a table: hidden states and token embeddings that a head reads.

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor, bail};

use super::elements;

/// The rows `indices` of a table, in their order: [n, width] gives [indices.len(), width].
pub(crate) fn rows(table: &Tensor, indices: &[u32]) -> Result<Tensor> {
    table.apply_op1_no_bwd(&Rows { indices })
}

struct Rows<'a> {
    indices: &'a [u32],
}

impl CustomOp1 for Rows<'_> {
    fn name(&self) -> &'static str {
        "rows"
    }

    fn cpu_fwd(&self, table: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (n, width) = layout.shape().dims2()?;
        let table = elements(table, layout)?;
        let mut out = Vec::with_capacity(self.indices.len() * width);
        for index in self.indices {
            let index = *index as usize;
            if index >= n {
                bail!("rows: row {index} of a table of {n} rows");
            }
            out.extend_from_slice(&table[index * width..(index + 1) * width]);
        }
        Ok((CpuStorage::F32(out), (self.indices.len(), width).into()))
    }
}
