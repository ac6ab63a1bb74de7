//! What the CPU path needs `unsafe` for, and nothing else: products of 8-bit and 4-bit numbers with the processor's own
//! instructions, a pool of threads that work on parts of one buffer, and memory-mapped files.
//!
//! Everything that leaves this module is safe to call. Each way to compute a product gives the same bits, because the sums
//! of a block are integers and floats are combined in one order; [`plain`] is that order in plain Rust, and the tests hold
//! the others against it.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod columns;
mod map;
mod plain;
mod pool;
mod tile;

pub(crate) use columns::Columns;
pub(crate) use map::map;
pub(crate) use pool::Pool;
pub(crate) use tile::{ActivationBlock, BLOCK, Instructions, PANEL, Q4_BLOCK_BYTES, Q8_BLOCK_BYTES, q4_tile, q8_tile};
