//! Characters that a tokenizer would lose.
//!
//! BPE without an unknown token and without a token for every byte drops a character that it does not know and says
//! nothing. Here such a text is an error that names the character.

use std::borrow::Cow;

use tokenizers::models::bpe::BPE;
use tokenizers::normalizer::Range;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{Model, ModelWrapper, NormalizedString, PreTokenizer, PreTokenizerWrapper, Tokenizer};

use super::error::TextError;

/// Up to this many tokens an error lists the characters that the tokenizer knows.
const LISTED_VOCABULARY_MAX: usize = 128;

/// Whether there can be characters that this tokenizer drops. Byte-level BPE knows all, so its texts need no check.
pub(super) fn may_lose_characters(tokenizer: &Tokenizer) -> bool {
    // The other kinds of model report a character that they have no token for.
    let ModelWrapper::BPE(bpe) = tokenizer.get_model() else {
        return false;
    };
    let byte_fallback = bpe.byte_fallback && (0..=u8::MAX).all(|byte| has_fallback(bpe, byte));
    bpe.unk_token.is_none() && !byte_fallback && !knows_all_bytes(bpe, tokenizer.get_pre_tokenizer())
}

fn knows_all_bytes(bpe: &BPE, pre_tokenizer: Option<&PreTokenizerWrapper>) -> bool {
    match pre_tokenizer {
        Some(PreTokenizerWrapper::ByteLevel(_)) => {
            let plain = bpe.continuing_subword_prefix.is_none() && bpe.end_of_word_suffix.is_none();
            plain
                && ByteLevel::alphabet()
                    .into_iter()
                    .all(|letter| bpe.token_to_id(&letter.to_string()).is_some())
        }
        Some(PreTokenizerWrapper::Sequence(sequence)) => knows_all_bytes(bpe, sequence.as_ref().last()),
        _ => false,
    }
}

/// Checks that no character of `text` is lost, in one pass over what the model would see.
///
/// # Errors
/// [`TextError::UnknownCharacter`] for the first that is.
pub(super) fn check(tokenizer: &Tokenizer, text: &str) -> Result<(), TextError> {
    let ModelWrapper::BPE(bpe) = tokenizer.get_model() else {
        return Ok(());
    };
    let mut pieces = tokenizer
        .get_added_vocabulary()
        .extract_and_normalize(tokenizer.get_normalizer(), text);
    if let Some(pre_tokenizer) = tokenizer.get_pre_tokenizer() {
        pre_tokenizer.pre_tokenize(&mut pieces).map_err(TextError::encode)?;
    }
    let mut lost = None;
    pieces
        .split(|_, piece| {
            if lost.is_none() {
                lost = first_lost(bpe, &piece);
            }
            Ok([piece])
        })
        .map_err(TextError::encode)?;
    let Some(Lost { character, original }) = lost else {
        return Ok(());
    };
    Err(TextError::UnknownCharacter {
        // A character that normalisation put in has no original; then the one that the model got is named.
        character: text
            .get(original.clone())
            .and_then(|part| part.chars().next())
            .unwrap_or(character),
        index: text
            .char_indices()
            .take_while(|(place, _)| *place < original.start)
            .count(),
        known: known_characters(tokenizer),
    })
}

/// A character that the model has no token for, and the bytes of the text that it comes from.
struct Lost {
    character: char,
    original: std::ops::Range<usize>,
}

fn first_lost(bpe: &BPE, piece: &NormalizedString) -> Option<Lost> {
    let word = piece.get();
    if bpe.ignore_merges && bpe.token_to_id(word).is_some() {
        return None;
    }
    let (start, character) = word
        .char_indices()
        .find(|&(start, character)| !has_character(bpe, word, start, character))?;
    let end = start + character.len_utf8();
    let within = piece.convert_offsets(Range::Normalized(start..end)).unwrap_or_default();
    let shift = piece.offsets_original().0;
    Some(Lost {
        character,
        original: shift + within.start..shift + within.end,
    })
}

/// Whether the model has a token for the character at `start` of `word`.
fn has_character(bpe: &BPE, word: &str, start: usize, character: char) -> bool {
    let end = start + character.len_utf8();
    let mut token = Cow::Borrowed(&word[start..end]);
    if let Some(prefix) = bpe.continuing_subword_prefix.as_ref().filter(|_| start > 0) {
        token = Cow::Owned(format!("{prefix}{token}"));
    }
    if let Some(suffix) = bpe.end_of_word_suffix.as_ref().filter(|_| end == word.len()) {
        token = Cow::Owned(format!("{token}{suffix}"));
    }
    bpe.token_to_id(&token).is_some() || (bpe.byte_fallback && token.bytes().all(|byte| has_fallback(bpe, byte)))
}

fn has_fallback(bpe: &BPE, byte: u8) -> bool {
    bpe.token_to_id(&format!("<0x{byte:02X}>")).is_some()
}

/// The end of the error message: the characters of a small vocabulary, in the order of their ids.
fn known_characters(tokenizer: &Tokenizer) -> String {
    if tokenizer.get_vocab_size(true) > LISTED_VOCABULARY_MAX {
        return String::new();
    }
    let mut known: Vec<(u32, char)> = (tokenizer.get_model().get_vocab().into_iter())
        .filter_map(|(token, id)| {
            let mut characters = token.chars();
            characters
                .next()
                .filter(|_| characters.next().is_none())
                .map(|character| (id, character))
        })
        .collect();
    known.sort_unstable();
    let listed: Vec<String> = known
        .into_iter()
        .map(|(_, character)| format!("{character:?}"))
        .collect();
    format!("; this tokenizer knows only {}", listed.join(" "))
}
