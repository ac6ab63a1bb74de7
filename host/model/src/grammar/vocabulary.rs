//! A tokenizer's tokens as the grammar library wants them: a trie of their bytes.

use llguidance::toktrie::{INVALID_TOKEN, TokRxInfo, TokTrie};
use tokenrouter_core::TokenId;

use crate::text::Tokenizer;

/// The trie of all tokens. Special tokens, and those that end answers, are no text: no grammar has them by accident.
pub(super) fn trie(tokenizer: &Tokenizer, ends: &[TokenId]) -> TokTrie {
    let ids = tokenizer.vocabulary_size() as TokenId;
    let ends: Vec<TokenId> = ends.iter().copied().filter(|&end| end < ids).collect();
    let words: Vec<Vec<u8>> = (0..ids)
        .map(|id| match tokenizer.is_special(id) || ends.contains(&id) {
            true => no_text(&tokenizer.token_text(id)),
            false => tokenizer.token_bytes(id),
        })
        .collect();
    let info = TokRxInfo::new(ids, ends.first().copied().unwrap_or(INVALID_TOKEN));
    let trie = TokTrie::from(&info, &words);
    if ends.is_empty() {
        trie
    } else {
        trie.with_eos_tokens(&ends)
    }
}

/// A word behind a byte that is never part of UTF-8; nothing for an id without a token.
fn no_text(name: &str) -> Vec<u8> {
    if name.is_empty() {
        return Vec::new();
    }
    [&[TokTrie::SPECIAL_TOKEN_MARKER], name.as_bytes()].concat()
}
