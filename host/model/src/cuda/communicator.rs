//! Where several devices would share a model.
//!
//! Matrix products of a layer come in pairs: the first splits its rows over the ranks, the second its columns, so that each
//! rank ends with a part of the sum. The first rank adds its part to the residual stream, the others hold theirs alone, and
//! [`Communicator::sum`] makes the same stream of them everywhere. One rank is the only implementation.

use super::CudaError;

/// What the ranks of a model say to each other.
pub trait Communicator: Send {
    /// Which of the ranks this is, from 0.
    fn rank(&self) -> usize;

    /// How many ranks share the model.
    fn ranks(&self) -> usize;

    /// Puts on the model's stream: every rank's `count` floats at `address` become the sum over all ranks, in the ranks' order.
    ///
    /// # Errors
    /// When the devices cannot reach each other.
    fn sum(&self, address: u64, count: usize) -> Result<(), CudaError>;
}

/// A model on one device: nothing to say.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneRank;

impl Communicator for OneRank {
    fn rank(&self) -> usize {
        0
    }

    fn ranks(&self) -> usize {
        1
    }

    fn sum(&self, _: u64, _: usize) -> Result<(), CudaError> {
        Ok(())
    }
}
