//! The operations that heads are made of, as candle custom operations, and the reductions that decoders share with them.
//!
//! Invariant: on the CPU every output element is computed in an order that depends on nothing but the sizes of the
//! model: not on how many rows stand beside it, nor on where they stand. General matrix kernels choose their order by
//! the shape of the whole product, so that a request's logits would change with its neighbours; hence these.
//!
//! Everything runs on the calling thread. Other devices can join at each function of this module, by the device of its
//! tensors; today all have CPU kernels only, and candle's error names the operation elsewhere.
//!
//! Tensors are f32, contiguous and row-major; one row a token.

mod bias;
mod exp;
mod layer_norm;
mod linear;
mod rows;
pub(crate) mod simd;

pub use bias::Activation;
pub(crate) use bias::add_bias;
pub(crate) use exp::exp;
pub(crate) use layer_norm::layer_norm;
pub(crate) use linear::{linear, linear_add};
pub(crate) use rows::rows;

use candle_core::{CpuStorage, Layout, Result, bail};

/// The elements of a contiguous f32 operand.
fn elements<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(&storage.as_slice::<f32>()?[start..end]),
        None => bail!("operand is not contiguous"),
    }
}

/// The elements of a contiguous f32 operand that is written in place.
fn elements_mut<'a>(storage: &'a mut CpuStorage, layout: &Layout) -> Result<&'a mut [f32]> {
    match (storage, layout.contiguous_offsets()) {
        (CpuStorage::F32(all), Some((start, end))) => Ok(&mut all[start..end]),
        (_, None) => bail!("operand is not contiguous"),
        (_, _) => bail!("operand is not f32"),
    }
}
