//! Tests of the crate from outside. One binary, so that the tensor library is linked once.

mod allocations;
mod batch_invariance;
mod build;
mod gguf;
mod golden;
mod heads;
mod ledger;
mod reference;
mod runner;
mod sentencepiece;
mod source;
