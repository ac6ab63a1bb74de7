//! From the bytes of a tensor to f32.

use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors};

use super::pickle::TensorInfo;
use super::zip_file::ZipFile;

/// How the elements of a tensor are written.
#[derive(Clone, Copy)]
enum Element {
    F32,
    F64,
    F16,
    Bf16,
}

impl Element {
    fn bytes(self) -> usize {
        match self {
            Element::F64 => 8,
            Element::F32 => 4,
            Element::F16 | Element::Bf16 => 2,
        }
    }

    /// The element at `index` of bytes that have been checked to hold it.
    fn at(self, bytes: &[u8], index: usize) -> f32 {
        fn array<const N: usize>(bytes: &[u8], index: usize) -> [u8; N] {
            let mut array = [0; N];
            array.copy_from_slice(&bytes[index * N..(index + 1) * N]);
            array
        }
        match self {
            Element::F32 => f32::from_le_bytes(array(bytes, index)),
            Element::F64 => f64::from_le_bytes(array(bytes, index)) as f32,
            Element::F16 => f16::from_le_bytes(array(bytes, index)).to_f32(),
            Element::Bf16 => bf16::from_le_bytes(array(bytes, index)).to_f32(),
        }
    }
}

/// A tensor of a PyTorch file, or one of its rows.
pub(super) fn torch(zip: &mut ZipFile, info: &TensorInfo, row: Option<usize>) -> Result<Vec<f32>, String> {
    let element = match info.storage.dtype {
        "Float" => Element::F32,
        "Double" => Element::F64,
        "Half" => Element::F16,
        "BFloat16" => Element::Bf16,
        other => {
            return Err(format!(
                "elements of type {other}; supported: Float, Double, Half, BFloat16"
            ));
        }
    };
    let too_large = || {
        format!(
            "shape {:?} does not fit its storage of {} elements",
            info.shape, info.storage.elements
        )
    };
    if info.shape.len() != info.strides.len() {
        return Err(format!("{} sizes and {} strides", info.shape.len(), info.strides.len()));
    }
    let elements = info
        .shape
        .iter()
        .try_fold(1usize, |product, size| product.checked_mul(*size));
    // Strides of 0 make any number of elements out of one; weights are never saved so.
    let elements = elements
        .filter(|elements| *elements <= info.storage.elements)
        .ok_or_else(too_large)?;
    let last = info
        .shape
        .iter()
        .zip(&info.strides)
        .try_fold(info.offset, |sum, (size, stride)| {
            sum.checked_add(size.saturating_sub(1).checked_mul(*stride)?)
        });
    if elements > 0 && last.is_none_or(|last| last >= info.storage.elements) {
        return Err(too_large());
    }
    let len = (info.storage.elements as u64)
        .checked_mul(element.bytes() as u64)
        .ok_or_else(too_large)?;
    let bytes = zip.storage(&info.storage.key, len)?;
    let range = rows(&info.shape, elements, row)?;
    let place = |mut index: usize| {
        let mut at = info.offset;
        for (size, stride) in info.shape.iter().zip(&info.strides).rev() {
            at += index % size * stride;
            index /= size;
        }
        at
    };
    Ok(range.map(|index| element.at(&bytes, place(index))).collect())
}

/// A tensor of a safetensors file, or one of its rows.
pub(super) fn safetensors(bytes: &[u8], name: &str, row: Option<usize>) -> Result<Vec<f32>, String> {
    let parsed = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
    let view = parsed.tensor(name).map_err(|error| error.to_string())?;
    let element = match view.dtype() {
        Dtype::F32 => Element::F32,
        Dtype::F64 => Element::F64,
        Dtype::F16 => Element::F16,
        Dtype::BF16 => Element::Bf16,
        other => return Err(format!("elements of type {other:?}; supported: F32, F64, F16, BF16")),
    };
    let elements = view.data().len() / element.bytes();
    let range = rows(view.shape(), elements, row)?;
    Ok(range.map(|index| element.at(view.data(), index)).collect())
}

/// The elements, row-major, of a whole tensor or of one row.
fn rows(shape: &[usize], elements: usize, row: Option<usize>) -> Result<std::ops::Range<usize>, String> {
    match (row, shape) {
        (None, _) => Ok(0..elements),
        (Some(row), [rows, width]) if row < *rows => Ok(row * width..(row + 1) * width),
        (Some(row), _) => Err(format!("there is no row {row} in shape {shape:?}")),
    }
}
