//! SentencePiece tokenizers (Llama 2 and its relatives) as `tokenizer.json` has them: BPE over characters, with tokens for single
//! bytes where a character is none.
//!
//! A file has pieces and their scores instead of merges. SentencePiece joins the two neighbours whose piece has the highest score, so
//! every way to cut a piece into two pieces is a merge, in descending order of scores.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::metadata::Metadata;
use crate::error::ModelError;

/// What stands for a space within pieces.
const SPACE: char = '\u{2581}';

/// The parts of a `tokenizer.json` that are not the same for all kinds.
pub(super) fn parts(metadata: &Metadata<'_>, tokens: &[&str]) -> Result<super::tokenizer::Rule, ModelError> {
    let scores = metadata.floats("tokenizer.ggml.scores")?;
    if scores.len() != tokens.len() {
        return Err(metadata.wrong(format!(
            "it has {} tokens and {} scores, expected as many",
            tokens.len(),
            scores.len()
        )));
    }
    let spaced = json!({"type": "Replace", "pattern": {"String": " "}, "content": SPACE});
    let begins = metadata.bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
    let prefix = begins.then(|| json!({"type": "Prepend", "prepend": SPACE}));
    let normalizers: Vec<Value> = prefix.into_iter().chain([spaced]).collect();
    let mut decoders = vec![
        json!({"type": "Replace", "pattern": {"String": SPACE}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if begins {
        decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    let unknown = metadata.number("tokenizer.ggml.unknown_token_id")?.unwrap_or(0);
    Ok(super::tokenizer::Rule {
        pre_tokenizer: Value::Null,
        ignore_merges: false,
        normalizer: json!({"type": "Sequence", "normalizers": normalizers}),
        decoder: json!({"type": "Sequence", "decoders": decoders}),
        merges: merges(tokens, &scores)
            .into_iter()
            .map(|(left, right)| json!([left, right]))
            .collect(),
        unknown: usize::try_from(unknown)
            .ok()
            .and_then(|id| tokens.get(id))
            .map(|token| (*token).to_owned()),
        byte_fallback: true,
    })
}

/// All ways to make a piece of two, best first; equal scores in the order of the pieces' ids.
fn merges<'a>(tokens: &[&'a str], scores: &[f64]) -> Vec<(&'a str, &'a str)> {
    let ids: HashMap<&str, usize> = tokens.iter().copied().zip(0..).collect();
    let mut all = Vec::new();
    for (token, score) in tokens.iter().zip(scores) {
        let cuts = token.char_indices().skip(1).map(|(at, _)| token.split_at(at));
        let mut own: Vec<(usize, usize)> = cuts
            .filter_map(|(left, right)| Some((*ids.get(left)?, *ids.get(right)?)))
            .collect();
        own.sort_unstable();
        all.extend(own.into_iter().map(|(left, right)| (*score, left, right)));
    }
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    all.into_iter()
        .map(|(_, left, right)| (tokens[left], tokens[right]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cut_into_two_pieces_is_a_merge_and_high_scores_come_first() {
        let tokens = ["a", "b", "ab", "aba", "c", "é", "éa"];
        let scores = [0.0, 0.0, -2.0, -3.0, 0.0, 0.0, -1.0];
        assert_eq!(merges(&tokens, &scores), [("é", "a"), ("a", "b"), ("ab", "a")]);
    }
}
