//! The buffers of heads. Those between operations are shared: heads run one after the other.

use half::bf16;

use crate::cuda::CudaError;
use crate::cuda::memory::{Buffer, Pinned};
use crate::cuda::stream::Stream;

/// Columns of the widest row that a head leaves in each buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Widths {
    pub(super) inputs: usize,
    pub(super) layer: usize,
    pub(super) product: usize,
    pub(super) residual: usize,
}

impl Widths {
    /// What is wide enough for both.
    pub(super) fn max(self, other: Self) -> Self {
        Self {
            inputs: self.inputs.max(other.inputs),
            layer: self.layer.max(other.layer),
            product: self.product.max(other.product),
            residual: self.residual.max(other.residual),
        }
    }
}

/// Buffers for so many rows, on the device unless they are called host.
pub(super) struct Scratch {
    pub(super) rows_max: usize,
    /// What a head reads, side by side, bf16.
    pub(super) inputs: Buffer,
    /// What the next product takes, bf16.
    pub(super) layer: Buffer,
    /// What the last product left, f32.
    pub(super) product: Buffer,
    /// The residual stream, f32; the other one where a block changes its width.
    pub(super) residual: [Buffer; 2],
    pub(super) scores: Buffer,
    pub(super) scores_host: Pinned<f32>,
    /// Candidates that the host has drawn.
    pub(super) drawn: Buffer,
    pub(super) drawn_host: Pinned<u32>,
}

impl Scratch {
    /// `rows` is a whole number of the widest product's token tiles, which it reads whole.
    pub(super) fn new(stream: &Stream, widths: Widths, rows: usize, heads: usize) -> Result<Self, CudaError> {
        let halves = |width: usize| Buffer::zeroed::<bf16>(stream, rows * width, "activations of heads");
        let floats = |width: usize| Buffer::zeroed::<f32>(stream, rows * width, "activations of heads");
        Ok(Self {
            rows_max: rows,
            inputs: halves(widths.inputs)?,
            layer: halves(widths.layer)?,
            product: floats(widths.product)?,
            residual: [floats(widths.residual)?, floats(widths.residual)?],
            scores: floats(heads)?,
            scores_host: Pinned::new(stream.device(), rows * heads, "scores of heads")?,
            drawn: Buffer::zeroed::<u32>(stream, rows, "candidates")?,
            drawn_host: Pinned::new(stream.device(), rows, "candidates")?,
        })
    }
}
