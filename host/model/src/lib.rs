//! Language models: text to tokens and back, weights, decoders, KV pools, sampling and signals.
//!
//! An engine sees one trait, [`Runner`]: a step of ragged rows in, a candidate and the signals of each row out. Two things
//! serve it: [`DecoderRunner`], a decoder with weights, and [`NullRunner`], without weights, which draws its candidates and
//! checks that it is fed right.
//!
//! | module | what it knows |
//! |---|---|
//! | [`source`], [`config`], [`weights`] | where a model comes from, its sizes, its tensors |
//! | `gguf` | files that hold all of that |
//! | [`decoder`] | the forward pass over a ragged batch and a paged KV pool |
//! | `matrix`, `cpu` | its weight matrices, f32 or quantised; the threads and instructions that multiply with them |
//! | `ops` | the operations of heads, and reductions whose order of computation does not depend on the batch |
//! | [`sampler`], [`signals`] | from a row of logits to a candidate and to what a policy asked for |
//! | [`shaping`], [`logprobs`] | what a request does to the logits before the draw, and what it is told of them |
//! | [`heads`] | small networks whose scores a policy can ask for: their files, their evaluation, and checkpoints |
//! | [`grammar`] | answers in a format: which tokens may come next |
//! | [`runner`] | the trait and its types |
//! | [`cuda`] | the runner on an NVIDIA GPU |
//! | [`random`] | models with random weights, for checks |
//! | [`null`] | the runner without weights, and the ledger of what was fed |
//! | [`text`] | tokenizer, detokeniser, stop strings, chat templates |
#![deny(unsafe_code)]

mod check;
pub mod config;
mod cpu;
pub mod cuda;
pub mod decoder;
mod decoder_runner;
mod descending;
pub mod error;
mod gguf;
pub mod grammar;
pub mod heads;
pub mod logprobs;
mod matrix;
pub mod null;
mod ops;
pub mod random;
pub mod runner;
pub mod sampler;
pub mod shaping;
pub mod signals;
pub mod source;
pub mod text;
pub mod weights;

pub use decoder::{CpuOptions, WeightFormat};
pub use decoder_runner::DecoderRunner;
pub use error::ModelError;
pub use logprobs::TokenLogprob;
pub use null::NullRunner;
pub use runner::{ModelInfo, RowAsk, Runner, Sampling, StepOutput};
pub use shaping::{Penalties, Shaping};
pub use source::{Embedded, Source};
