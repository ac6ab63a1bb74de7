//! Text on both sides of the models: a prompt becomes tokens, and an answer's tokens become text as they are written.
//!
//! The answer's text is defined once, as [`Tokenizer::decode`] of the answer's own tokens. A stream
//! ([`Detokenizer`], then [`StopMatcher`]) releases that same text piece by piece, so a client sees the same answer
//! whether it streams or not.
//!
//! A conversation becomes a prompt through a [`ChatTemplate`]; [`Tokenizer::encode_rendered`] makes special tokens of what the
//! template wrote, and never of what a user did.

mod alphabet;
mod byte_level;
mod decoder;
mod detokenizer;
mod error;
mod newlines;
mod special;
mod stop;
mod template;
mod tokenizer;
mod utf8;
mod vocabulary;

#[cfg(test)]
mod tests;

pub use detokenizer::Detokenizer;
pub use error::TextError;
pub use newlines::trailing_newlines;
pub use stop::StopMatcher;
pub use template::{ChatTemplate, Conversation, Rendered, TemplateError, TemplateSource};
pub use tokenizer::Tokenizer;
