//! How a decoder's matrices are held in memory.

use candle_core::quantized::GgmlDType;
use serde::Deserialize;

use crate::error::ModelError;
use crate::matrix::{Held, Matrix, Order};
use crate::weights::{Element, FileMatrix};

/// What a deployment asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WeightFormat {
    /// As the file has them: 4-bit blocks of types Q4_0 and Q4_1 and 8-bit blocks of type Q8_0 bit by bit, other quantised
    /// types in 8 bits, and everything else in f32.
    #[default]
    Auto,
    /// Four bytes a number.
    F32,
    /// Blocks of 32 with a scale: 8.5 bits a number.
    #[serde(rename = "q8_0")]
    Q8,
    /// Blocks of 32 with a scale and an offset: 5 bits a number. The embedding and the head are held in 8 bits: they are where 4 bits
    /// cost most.
    Q4,
}

/// How a model runs on the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuOptions {
    /// Threads of a step, the calling one among them.
    pub threads: usize,
    /// How its matrices are held.
    pub weights: WeightFormat,
}

impl Default for CpuOptions {
    /// One thread, weights as the file has them.
    fn default() -> Self {
        Self {
            threads: 1,
            weights: WeightFormat::Auto,
        }
    }
}

/// A matrix of the decoder that still lies in its file, or several that become one.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) parts: Vec<FileMatrix>,
    pub(super) order: Order,
}

/// The choice for one group of matrices.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub(super) format: WeightFormat,
    /// Whether the matrix is the embedding or the head.
    pub(super) table: bool,
}

impl Choice {
    pub(super) fn matrix(self, matrix: &Parts) -> Result<Matrix, ModelError> {
        Matrix::new(&matrix.parts, matrix.order, self.held(&matrix.parts))
    }

    /// Bytes that [`Choice::matrix`] will hold.
    pub(super) fn bytes(self, matrix: &Parts) -> u64 {
        Matrix::planned_bytes(&matrix.parts, matrix.order, self.held(&matrix.parts))
    }

    fn held(self, parts: &[FileMatrix]) -> Held {
        match self.format {
            WeightFormat::F32 => Held::F32,
            WeightFormat::Q8 => Held::Q8,
            WeightFormat::Q4 if self.table => Held::Q8,
            WeightFormat::Q4 => Held::Q4,
            WeightFormat::Auto => {
                let four =
                    |part: &FileMatrix| matches!(part.element(), Element::Blocks(GgmlDType::Q4_0 | GgmlDType::Q4_1));
                let quantised = |part: &FileMatrix| matches!(part.element(), Element::Blocks(_));
                match (parts.iter().all(four), parts.iter().any(quantised)) {
                    (true, _) => Held::Q4,
                    (false, true) => Held::Q8,
                    (false, false) => Held::F32,
                }
            }
        }
    }
}
