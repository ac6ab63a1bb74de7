//! Answers in a format: which tokens may come next so that the text stays within a grammar.
//!
//! A [`GrammarCompiler`] belongs to a tokenizer and makes a [`Grammar`] of a [`Format`]. A grammar is a part of its request and
//! travels with it: it knows the committed text and nothing of who wrote it, so a request can change hands anywhere, and a
//! candidate that is discarded leaves no trace. Its [`TokenMask`] is worked out once for each committed token, not for each
//! step, and goes to the sampler with the row; rows without a grammar pay nothing. Signals for policies and log-probabilities
//! are of the raw logits, as ever.
//!
//! What is allowed depends on the committed tokens alone: every bound on the work is a count, never a time.

mod compiler;
mod error;
mod format;
mod mask;
mod vocabulary;

#[cfg(test)]
mod tests;

pub use compiler::GrammarCompiler;
pub use error::GrammarError;
pub use format::Format;
pub use mask::TokenMask;

use llguidance::Matcher;
use llguidance::api::StopReason;
use tokenrouter_core::TokenId;

/// One answer's place in its grammar.
pub struct Grammar {
    matcher: Matcher,
    allowed: TokenMask,
}

/// Whether an answer goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More must or may come.
    Open,
    /// The format is complete and nothing may follow.
    Complete,
}

impl Grammar {
    /// At the beginning of an answer.
    fn new(mut matcher: Matcher) -> Result<Self, GrammarError> {
        let allowed = next(&mut matcher)?;
        Ok(Self { matcher, allowed })
    }

    /// The tokens that may come next: at least one. Tokens that end answers are among them where the format may end.
    pub fn allowed(&self) -> &TokenMask {
        &self.allowed
    }

    /// A token that was allowed and does not end the answer has become part of it.
    ///
    /// # Errors
    /// [`GrammarError::DeadEnd`] or [`GrammarError::Failed`]: the answer cannot go on.
    pub fn commit(&mut self, token: TokenId) -> Result<Progress, GrammarError> {
        self.matcher.consume_token(token).map_err(GrammarError::failed)?;
        if self.matcher.is_stopped() {
            return match self.matcher.stop_reason() {
                reason if reason.is_ok() => Ok(Progress::Complete),
                reason => Err(GrammarError::Failed(reason.to_string())),
            };
        }
        self.allowed = next(&mut self.matcher)?;
        Ok(Progress::Open)
    }
}

fn next(matcher: &mut Matcher) -> Result<TokenMask, GrammarError> {
    match matcher.compute_mask() {
        Ok(set) => Ok(TokenMask(set)),
        // The library tells its reasons by name, in the message of the error.
        Err(error) => match GrammarError::failed(error) {
            GrammarError::Failed(what) if what == StopReason::NoExtensionBias.to_string() => Err(GrammarError::DeadEnd),
            other => Err(other),
        },
    }
}

impl Clone for Grammar {
    /// The copy shares nothing with this one, caches least of all: what one answer makes the other's work cheaper by would
    /// count against its bounds.
    fn clone(&self) -> Self {
        Self {
            matcher: self.matcher.deep_clone(),
            allowed: self.allowed.clone(),
        }
    }
}

impl std::fmt::Debug for Grammar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grammar")
            .field("allowed", &self.allowed)
            .finish_non_exhaustive()
    }
}
