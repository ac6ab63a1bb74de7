//! How a file writes the elements of a tensor.

use candle_core::Device;
use candle_core::quantized::{GgmlDType, ggml_file};
use half::{bf16, f16};
use safetensors::Dtype;

/// A type of elements that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    F32,
    Bf16,
    F16,
    /// Blocks of quantised numbers, as GGUF files have them.
    Blocks(GgmlDType),
}

impl Element {
    /// The type of a safetensors file's tensor, if it can be read.
    pub(super) fn of_safetensors(dtype: Dtype) -> Option<Self> {
        match dtype {
            Dtype::F32 => Some(Self::F32),
            Dtype::BF16 => Some(Self::Bf16),
            Dtype::F16 => Some(Self::F16),
            _ => None,
        }
    }

    /// The type of a GGUF file's tensor.
    pub(crate) fn of_gguf(dtype: GgmlDType) -> Self {
        match dtype {
            GgmlDType::F32 => Self::F32,
            GgmlDType::BF16 => Self::Bf16,
            GgmlDType::F16 => Self::F16,
            blocks => Self::Blocks(blocks),
        }
    }

    /// Bytes of a row of `k` elements; `None` when rows do not consist of whole blocks.
    pub(crate) fn row_bytes(self, k: usize) -> Option<usize> {
        let (elements, bytes) = match self {
            Self::F32 => (1, 4),
            Self::Bf16 | Self::F16 => (1, 2),
            Self::Blocks(dtype) => (dtype.block_size(), dtype.type_size()),
        };
        k.is_multiple_of(elements).then(|| k / elements * bytes)
    }

    /// Appends the elements that `bytes` hold, in f32: exactly, but for quantised blocks, whose definition is in f32.
    ///
    /// # Errors
    /// When the tensor library cannot take quantised blocks apart.
    pub(super) fn read(self, bytes: &[u8], out: &mut Vec<f32>) -> candle_core::Result<()> {
        match self {
            Self::F32 => out.extend(bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four))),
            Self::Bf16 => out.extend(
                bytes
                    .as_chunks::<2>()
                    .0
                    .iter()
                    .map(|two| bf16::from_le_bytes(*two).to_f32()),
            ),
            Self::F16 => out.extend(
                bytes
                    .as_chunks::<2>()
                    .0
                    .iter()
                    .map(|two| f16::from_le_bytes(*two).to_f32()),
            ),
            Self::Blocks(dtype) => {
                let elements = bytes.len() / dtype.type_size() * dtype.block_size();
                let blocks = ggml_file::qtensor_from_ggml(dtype, bytes, vec![elements], &Device::Cpu)?;
                out.extend(blocks.dequantize(&Device::Cpu)?.to_vec1::<f32>()?);
            }
        }
        Ok(())
    }
}
