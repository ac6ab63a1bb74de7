//! How a decoder's matrices are held in memory.

use std::str::FromStr;

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
    /// types in 8 bits, bf16 as bf16 unless the model fits into a cache, and everything else in f32.
    #[default]
    Auto,
    /// Four bytes a number.
    F32,
    /// Two bytes a number, of which the products are those of f32. What the file has in more bits is rounded.
    Bf16,
    /// Blocks of 32 with a scale: 8.5 bits a number.
    #[serde(rename = "q8_0")]
    Q8,
    /// Blocks of 32 with a scale and an offset: 5 bits a number. The embedding and the head are held in 8 bits: they are where 4 bits
    /// cost most.
    Q4,
}

impl FromStr for WeightFormat {
    type Err = String;

    /// By the names that a deployment file has.
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "auto" => Ok(Self::Auto),
            "f32" => Ok(Self::F32),
            "bf16" => Ok(Self::Bf16),
            "q8_0" => Ok(Self::Q8),
            "q4" => Ok(Self::Q4),
            _ => Err(format!("weights \"{name}\": expected auto, f32, bf16, q8_0 or q4")),
        }
    }
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
    /// Whether the whole model fits into a cache when it is held in f32.
    pub(super) cached: bool,
}

/// Bytes of a model in f32 up to which it stays in a core's caches. In them, widening bf16 at every step costs a fifth at batch 1;
/// beyond, reading half as much doubles the speed there (a step of 5 M parameters, one thread). Either way the bits are the same.
pub(super) const CACHE_BYTES: u64 = 4 << 20;

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
            WeightFormat::Bf16 => Held::Bf16,
            WeightFormat::Q8 => Held::Q8,
            WeightFormat::Q4 if self.table => Held::Q8,
            WeightFormat::Q4 => Held::Q4,
            WeightFormat::Auto => {
                let four =
                    |part: &FileMatrix| matches!(part.element(), Element::Blocks(GgmlDType::Q4_0 | GgmlDType::Q4_1));
                let quantised = |part: &FileMatrix| matches!(part.element(), Element::Blocks(_));
                let brain = |part: &FileMatrix| part.element() == Element::Bf16;
                match () {
                    () if parts.iter().all(four) => Held::Q4,
                    () if parts.iter().any(quantised) => Held::Q8,
                    () if parts.iter().all(brain) && !self.cached => Held::Bf16,
                    () => Held::F32,
                }
            }
        }
    }
}
