//! A head as the operations that compute it, and their launches.

use crate::cuda::CudaError;
use crate::cuda::forward::Network;
use crate::cuda::kernels::{Kernel, Kernels};
use crate::cuda::matrix::{End, Matrix};
use crate::cuda::memory::Buffer;
use crate::cuda::scratch::Scratch as StepScratch;
use crate::cuda::stream::{Arguments, Stream};
use crate::heads::{Activation, LAYER_NORM_EPS};

use super::HeadBucket;
use super::scratch::Scratch;

/// The kernels of `heads.cu`.
pub(super) struct Named {
    input: Kernel,
    logits: Kernel,
    bias: Kernel,
    norm: Kernel,
    scores: Kernel,
}

impl Named {
    pub(super) fn new(kernels: &Kernels) -> Self {
        Self {
            input: kernels.get("head_input"),
            logits: kernels.get("head_logits"),
            bias: kernels.get("head_bias"),
            norm: kernels.get("head_norm"),
            scores: kernels.get("head_scores"),
        }
    }
}

/// Buffers of rows in bf16, as products take them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Halves {
    Inputs,
    Layer,
}

/// Buffers of rows in f32, as products leave them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Floats {
    Product,
    /// The first or second residual stream.
    Residual(usize),
}

/// Columns of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) halves: Halves,
    /// Columns of a row.
    pub(super) stride: usize,
    /// The first column.
    pub(super) at: usize,
    /// Columns that are written: values, then zeros.
    pub(super) fill: usize,
}

/// Weights of a layer norm, f32.
pub(super) struct Norm {
    pub(super) weight: Buffer,
    pub(super) bias: Buffer,
}

/// What is done to all rows.
pub(super) enum Op {
    /// The hidden state, or the candidate's embedding.
    Input { token: bool, norm: Option<Norm>, to: Place },
    /// The largest logits, in two parts each, or their probabilities.
    Logits { top: usize, probabilities: bool, to: Place },
    Product {
        matrix: Matrix,
        from: Halves,
        to: Floats,
        end: End,
    },
    /// activation(x + bias), rounded to a place, or where it is without one. Without a bias: the rounding alone.
    Bias {
        of: Floats,
        bias: Option<Buffer>,
        width: usize,
        activation: Option<Activation>,
        to: Option<Place>,
    },
    /// Into [`Halves::Layer`].
    Norm {
        norm: Norm,
        of: Floats,
        width: usize,
        stride: usize,
    },
    /// From the last product.
    Scores {
        bias: Buffer,
        classes: usize,
        stride: usize,
    },
}

/// What a program runs on.
pub(super) struct Rows<'a> {
    pub(super) stream: &'a Stream,
    pub(super) network: &'a Network,
    pub(super) step: &'a StepScratch,
    pub(super) scratch: &'a Scratch,
    pub(super) named: &'a Named,
    pub(super) bucket: HeadBucket,
    /// The column of the scores, and how many there are.
    pub(super) slot: usize,
    pub(super) slots: usize,
}

impl Rows<'_> {
    fn halves(&self, halves: Halves) -> &Buffer {
        match halves {
            Halves::Inputs => &self.scratch.inputs,
            Halves::Layer => &self.scratch.layer,
        }
    }

    fn floats(&self, floats: Floats) -> &Buffer {
        match floats {
            Floats::Product => &self.scratch.product,
            Floats::Residual(which) => &self.scratch.residual[which],
        }
    }

    /// The arguments of an operation that begin with where it writes.
    fn to(&self, to: Place) -> Arguments {
        Arguments::new()
            .buffer(self.halves(to.halves))
            .number(to.stride)
            .number(to.at)
            .number(to.fill)
    }

    /// A block a row.
    fn launch(&self, kernel: Kernel, block: usize, arguments: &mut Arguments) -> Result<(), CudaError> {
        let grid = (self.bucket.rows, 1, 1);
        self.stream.launch(kernel, grid, block, 0, arguments)
    }
}

/// The operations of a head, in order.
pub(super) struct Program(pub(super) Vec<Op>);

impl Program {
    pub(super) fn enqueue(&self, rows: &Rows<'_>) -> Result<(), CudaError> {
        self.0.iter().try_for_each(|op| op.enqueue(rows))
    }
}

impl Op {
    fn enqueue(&self, rows: &Rows<'_>) -> Result<(), CudaError> {
        let address = |buffer: Option<&Buffer>| buffer.map_or(0, Buffer::address);
        match self {
            Self::Input { token, norm, to } => {
                let (sizes, step) = (&rows.network.sizes, rows.step);
                let mut arguments = rows
                    .to(*to)
                    .address(address((!token).then_some(&step.last)))
                    .buffer(&rows.network.weights.embedding.data)
                    .buffer(&step.rows)
                    .address(address(rows.bucket.drawn.then_some(&rows.scratch.drawn)))
                    .number(sizes.vocabulary)
                    .address(address(norm.as_ref().map(|norm| &norm.weight)))
                    .address(address(norm.as_ref().map(|norm| &norm.bias)))
                    .number(sizes.hidden)
                    .float(LAYER_NORM_EPS as f32);
                rows.launch(rows.named.input, 256, &mut arguments)
            }
            Self::Logits { top, probabilities, to } => {
                let ranks = rows.step.largest(&rows.network.sizes);
                let mut arguments = rows
                    .to(*to)
                    .buffer(ranks)
                    .number(*top)
                    .number(usize::from(*probabilities));
                rows.launch(rows.named.logits, 128, &mut arguments)
            }
            Self::Product { matrix, from, to, end } => {
                let (x, y) = (rows.halves(*from).address(), rows.floats(*to).address());
                let products = &rows.network.products;
                products.launch(rows.stream, matrix, x, y, rows.bucket.rows, *end)
            }
            Self::Bias {
                of,
                bias,
                width,
                activation,
                to,
            } => {
                let mut arguments = Arguments::new()
                    .buffer(rows.floats(*of))
                    .address(address(bias.as_ref()))
                    .number(*width)
                    .number(number(*activation))
                    .address(address(to.map(|to| rows.halves(to.halves))))
                    .number(to.map_or(0, |to| to.stride))
                    .number(to.map_or(0, |to| to.at));
                rows.launch(rows.named.bias, 256, &mut arguments)
            }
            Self::Norm {
                norm,
                of,
                width,
                stride,
            } => {
                let mut arguments = Arguments::new()
                    .buffer(rows.halves(Halves::Layer))
                    .buffer(rows.floats(*of))
                    .buffer(&norm.weight)
                    .buffer(&norm.bias)
                    .number(*width)
                    .number(*stride)
                    .float(LAYER_NORM_EPS as f32);
                rows.launch(rows.named.norm, 256, &mut arguments)
            }
            Self::Scores { bias, classes, stride } => {
                let mut arguments = Arguments::new()
                    .buffer(&rows.scratch.scores)
                    .number(rows.slots)
                    .number(rows.slot)
                    .buffer(rows.floats(Floats::Product))
                    .buffer(bias)
                    .number(*classes)
                    .number(*stride)
                    .number(rows.bucket.rows);
                let grid = (rows.bucket.rows.div_ceil(32), 1, 1);
                rows.stream.launch(rows.named.scores, grid, 32, 0, &mut arguments)
            }
        }
    }
}

/// What `heads.cu` calls an activation.
fn number(activation: Option<Activation>) -> usize {
    match activation {
        None => 0,
        Some(Activation::Relu) => 1,
        Some(Activation::Gelu) => 2,
        Some(Activation::Silu) => 3,
    }
}
