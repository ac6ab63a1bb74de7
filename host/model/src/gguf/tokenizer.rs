//! The tokenizer of a GGUF file, written as a `tokenizer.json`.
//!
//! Files of byte-level BPE name a pre-tokenizer instead of describing it; these are the rules behind the names, all without a
//! space in front of the text. SentencePiece has one rule, in [`sentencepiece`].

use serde_json::{Value, json};

use super::metadata::Metadata;
use super::sentencepiece;
use crate::error::ModelError;

/// Token types of a file: the unknown token, control tokens, and those that a user added. All are special.
const SPECIAL: [i64; 3] = [2, 3, 4];

/// The split of Qwen2 and its relatives: words with the character before them, single digits.
const QWEN_2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Llama 3's: the same with up to three digits.
const LLAMA_3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// How a text becomes tokens, and tokens a text.
pub(super) struct Rule {
    pub(super) pre_tokenizer: Value,
    /// Whether a word that is a token is taken whole, whatever the merges.
    pub(super) ignore_merges: bool,
    pub(super) normalizer: Value,
    pub(super) decoder: Value,
    pub(super) merges: Vec<Value>,
    /// The token of characters that have none.
    pub(super) unknown: Option<String>,
    /// Whether such characters are written as tokens of their bytes.
    pub(super) byte_fallback: bool,
}

fn byte_level(name: &str, merges: &[&str]) -> Option<Rule> {
    let bytes = |use_regex: bool| json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex});
    let split = |regex: &str| {
        let split = json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false});
        json!({"type": "Sequence", "pretokenizers": [split, bytes(false)]})
    };
    let digits = json!({"type": "Digits", "individual_digits": true});
    let (pre_tokenizer, ignore_merges, normalizer) = match name {
        "smollm" => {
            let parts = [digits, bytes(true)];
            (json!({"type": "Sequence", "pretokenizers": parts}), false, Value::Null)
        }
        "qwen2" | "deepseek-r1-qwen" => (split(QWEN_2), false, json!({"type": "NFC"})),
        "llama-bpe" | "llama3" | "llama-v3" => (split(LLAMA_3), true, Value::Null),
        "default" | "gpt-2" => (bytes(true), false, Value::Null),
        _ => return None,
    };
    Some(Rule {
        pre_tokenizer,
        ignore_merges,
        normalizer,
        decoder: json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}),
        merges: merges.iter().map(|merge| Value::from(*merge)).collect(),
        unknown: None,
        byte_fallback: false,
    })
}

/// The bytes of a `tokenizer.json`.
pub(super) fn json(metadata: &Metadata<'_>) -> Result<Vec<u8>, ModelError> {
    let tokens = metadata.strings("tokenizer.ggml.tokens")?;
    let types = metadata.integers("tokenizer.ggml.token_type")?;
    let rule = match metadata.string("tokenizer.ggml.model")?.unwrap_or_default() {
        "gpt2" => {
            let name = metadata.string("tokenizer.ggml.pre")?.unwrap_or("default");
            let rule = byte_level(name, &metadata.strings("tokenizer.ggml.merges")?);
            rule.ok_or_else(|| {
                metadata.wrong(format!(
                    "pre-tokenizer \"{name}\" is not supported; supported: smollm, qwen2, deepseek-r1-qwen, llama-bpe, default"
                ))
            })?
        }
        "llama" => sentencepiece::parts(metadata, &tokens)?,
        other => {
            return Err(metadata.wrong(format!(
                "its tokenizer is of kind \"{other}\", expected \"gpt2\" (byte-level BPE) or \"llama\" (SentencePiece)"
            )));
        }
    };
    if tokens.is_empty() || types.len() != tokens.len() {
        let (tokens, types) = (tokens.len(), types.len());
        return Err(metadata.wrong(format!(
            "it has {tokens} tokens and {types} token types, expected as many"
        )));
    }
    let vocabulary: serde_json::Map<String, Value> = tokens
        .iter()
        .zip(0..)
        .map(|(token, id)| ((*token).to_owned(), Value::from(id)))
        .collect();
    let added: Vec<Value> = (0..)
        .zip(tokens.iter().zip(&types))
        .filter(|(_, (_, kind))| SPECIAL.contains(kind))
        .map(|(id, (token, _))| {
            json!({"id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true})
        })
        .collect();
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": rule.normalizer, "pre_tokenizer": rule.pre_tokenizer, "post_processor": null,
        "decoder": rule.decoder,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": rule.unknown, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": rule.unknown.is_some(), "byte_fallback": rule.byte_fallback,
            "ignore_merges": rule.ignore_merges, "vocab": vocabulary, "merges": rule.merges,
        },
    });
    serde_json::to_vec(&tokenizer).map_err(|error| metadata.wrong(format!("its tokenizer cannot be written: {error}")))
}
