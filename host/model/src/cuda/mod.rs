//! Models on an NVIDIA GPU: a runner whose kernels are this crate's own (`host/model/kernels`), compiled ahead to PTX, so that
//! building needs no CUDA toolkit and running needs nothing but the driver, which is loaded when the first device is opened.
//!
//! Weights, keys and values are bf16; sums, the residual stream, queries and logits are f32. Every sum has an order that
//! depends on the model's sizes and a token's position alone, so a row's bits do not depend on the rest of its step, as on
//! the CPU. They are not the CPU's bits: activations are rounded to bf16 before every matrix product.
//!
//! | file | what it knows |
//! |---|---|
//! | `device` | opening a device; what it has |
//! | `memory`, `stream`, `kernels` | buffers, launches and graphs, the kernels by name |
//! | `sizes`, `tensors`, `matrix`, `weights` | what can run, reading tensors one at a time, their layout on the device |
//! | `bucket`, `metadata`, `graphs` | a step's padded sizes, its input in one copy, which captures are kept |
//! | `scratch`, `forward` | the buffers of a step, and its launches |
//! | `heads` | the same for the heads of the model |
//! | `readout`, `runner` | from results to candidates and signals; the [`crate::Runner`] |
//! | `budget` | how much KV a device has room for |
//! | `check` | every variant of the matrix product against sums in f64 |
//! | `communicator` | where several devices would share a model |
//!
//! `unsafe` is allowed here and nowhere else in this crate: a driver's functions take raw addresses. What makes each use sound
//! is that buffers are freed only by their owners, that every launch is checked against the buffers it is given before it
//! is made, and that a step waits for its stream before host memory of the stream is touched again.
#![allow(unsafe_code)]

mod bucket;
pub mod budget;
pub mod check;
pub mod communicator;
mod device;
mod error;
mod forward;
mod graphs;
mod heads;
mod kernels;
mod matrix;
mod memory;
mod metadata;
mod readout;
mod runner;
mod scratch;
mod sizes;
mod stream;
mod tensors;
mod weights;

pub use bucket::GraphLimits;
pub use device::Device;
pub use error::CudaError;
pub use runner::{CudaOptions, CudaRunner};
pub use sizes::kv_bytes_per_token;
pub use tensors::Tensors;
