//! What can be wrong with a tokenizer, a text or a list of tokens.

use tokenrouter_core::TokenId;

/// An error of the text layer. Apart from the two about the tokenizer file, all of them are the request's fault.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// The tokenizer file cannot be used.
    #[error("the tokenizer cannot be used: {reason}")]
    InvalidTokenizer {
        /// What is wrong with it.
        reason: String,
    },
    /// Two models do not share a vocabulary. Entries are written as the tokenizer files have them.
    #[error(
        "the vocabularies differ first at token id {id}: {ours} here, {theirs} there; models of one deployment need the same tokens"
    )]
    VocabulariesDiffer {
        /// The smallest id at which they differ.
        id: TokenId,
        /// This tokenizer's entry.
        ours: String,
        /// The other tokenizer's entry.
        theirs: String,
    },
    /// The text has a character that the tokenizer would drop.
    #[error("character {character:?} (U+{code:04X}) at index {index} of the text cannot be encoded{known}", code = u32::from(*.character))]
    UnknownCharacter {
        /// The character.
        character: char,
        /// Its place, counted in characters from 0.
        index: usize,
        /// For a small vocabulary, the characters that it has, as the end of the message; else empty.
        known: String,
    },
    /// The tokenizer failed on a text.
    #[error("the text cannot be encoded: {reason}")]
    Encode {
        /// The tokenizer's message.
        reason: String,
    },
    /// A token id that no text has.
    #[error("token id {id} at index {index} is outside of the vocabulary, which has {size} ids (0 to {})", size.saturating_sub(1))]
    OutsideVocabulary {
        /// The id.
        id: TokenId,
        /// Its place in the list, from 0.
        index: usize,
        /// [`super::Tokenizer::vocabulary_size`].
        size: usize,
    },
    /// An empty stop string, which would match everywhere.
    #[error("stop string {index} is empty; a stop string needs at least one character")]
    EmptyStop {
        /// Its place in the list, from 0.
        index: usize,
    },
}

impl TextError {
    /// The same for a text that stands behind `before`.
    pub(super) fn after(mut self, before: &str) -> Self {
        if let Self::UnknownCharacter { index, .. } = &mut self {
            *index += before.chars().count();
        }
        self
    }

    pub(super) fn invalid(reason: impl Into<tokenizers::Error>) -> Self {
        Self::InvalidTokenizer {
            reason: reason.into().to_string(),
        }
    }

    pub(super) fn encode(reason: impl Into<tokenizers::Error>) -> Self {
        Self::Encode {
            reason: reason.into().to_string(),
        }
    }
}
