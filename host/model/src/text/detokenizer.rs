//! An answer's tokens become text as they are written.

use tokenrouter_core::TokenId;

use super::decoder::{STAGES_MAX, StageState};
use super::tokenizer::Tokenizer;

/// One request's place between tokens and text.
///
/// All text that [`push`](Self::push) and [`flush`](Self::flush) give out, put together, is [`Tokenizer::decode`] of
/// the same tokens, whatever they are. A character split over tokens comes out with its last byte, so U+FFFD stands only
/// for bytes that are not UTF-8. The work for a token depends on its length alone, and at most three bytes are held back.
///
/// It is a plain value: a copy taken before a token is all it takes to go back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Detokenizer {
    states: [StageState; STAGES_MAX],
}

impl Detokenizer {
    /// At the beginning of an answer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Somewhere inside an answer.
    pub(super) fn inside() -> Self {
        Self {
            states: [StageState::inside(); STAGES_MAX],
        }
    }

    /// Appends to `out` the text that `token` completes. Special tokens and ids without a token have none.
    ///
    /// `tokenizer` must be the same in all calls for one answer, up to [`Tokenizer::same_vocabulary`].
    pub fn push(&mut self, tokenizer: &Tokenizer, token: TokenId, out: &mut String) {
        if let Some(item) = tokenizer.vocabulary().ordinary(token) {
            tokenizer.decoder().push(&mut self.states, item, out);
        }
    }

    /// Appends what was held back, when the answer has ended. Bytes of a character that never got complete are U+FFFD.
    pub fn flush(&mut self, tokenizer: &Tokenizer, out: &mut String) {
        tokenizer.decoder().finish(&mut self.states, out);
    }
}
