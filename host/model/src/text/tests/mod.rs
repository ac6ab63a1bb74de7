//! What must hold for text, over the kinds of tokenizer that language models have.

mod encoding;
mod fixtures;
mod reported;
mod stopping;
mod streaming;
