//! A SentencePiece tokenizer in a GGUF file gives the ids that SentencePiece gives.
//!
//! `fixtures/sentencepiece.json` was made with the package `sentencepiece` 0.2 from this project's README: BPE, 600 pieces, byte
//! fallback, single digits, nothing normalised, as Llama 2's. Its cases are what that package encodes.

use std::fs::File;

use candle_core::quantized::gguf_file::{Value, write};
use serde::Deserialize;
use tokenrouter_core::TokenId;
use tokenrouter_model::Source;
use tokenrouter_model::text::{Detokenizer, Tokenizer};

use crate::build::Random;

#[derive(Deserialize)]
struct Fixture {
    tokens: Vec<String>,
    scores: Vec<f32>,
    types: Vec<i32>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    text: String,
    ids: Vec<TokenId>,
}

fn fixture() -> Fixture {
    serde_json::from_str(include_str!("../fixtures/sentencepiece.json")).unwrap()
}

/// A file with nothing but a tokenizer; `scores` of them.
fn tokenizer_of(fixture: &Fixture, scores: usize, name: &str) -> Result<Vec<u8>, String> {
    let path = std::env::temp_dir().join(format!("sentencepiece-{name}-{}.gguf", std::process::id()));
    let list = |values: Vec<Value>| Value::Array(values);
    let fields = [
        ("general.architecture", Value::String("llama".to_owned())),
        ("tokenizer.ggml.model", Value::String("llama".to_owned())),
        (
            "tokenizer.ggml.tokens",
            list(fixture.tokens.iter().cloned().map(Value::String).collect()),
        ),
        (
            "tokenizer.ggml.scores",
            list(fixture.scores[..scores].iter().copied().map(Value::F32).collect()),
        ),
        (
            "tokenizer.ggml.token_type",
            list(fixture.types.iter().copied().map(Value::I32).collect()),
        ),
        ("tokenizer.ggml.unknown_token_id", Value::U32(0)),
    ];
    let fields: Vec<(&str, &Value)> = fields.iter().map(|(name, value)| (*name, value)).collect();
    write(&mut File::create(&path).unwrap(), &fields, &[]).unwrap();
    let found = Source::Gguf(path.clone()).tokenizer().map(|bytes| bytes.to_vec());
    std::fs::remove_file(path).unwrap();
    found.map_err(|error| error.to_string())
}

#[test]
fn ids_and_texts_are_those_of_sentencepiece() {
    let fixture = fixture();
    let json = tokenizer_of(&fixture, fixture.scores.len(), "whole").unwrap();
    let tokenizer = Tokenizer::from_bytes(&json, None, &[]).unwrap();
    for Case { text, ids } in &fixture.cases {
        assert_eq!(tokenizer.encode(text).unwrap(), *ids, "{text:?}");
        // The letter that stands for a space is a space when it comes back, there as here.
        assert_eq!(tokenizer.decode(ids), text.replace('\u{2581}', " "));
    }
}

#[test]
fn streams_release_the_text_of_all_their_tokens() {
    let fixture = fixture();
    let json = tokenizer_of(&fixture, fixture.scores.len(), "streams").unwrap();
    let tokenizer = Tokenizer::from_bytes(&json, None, &[]).unwrap();
    let mut random = Random::new(61);
    for _ in 0..10_000 {
        let len = 1 + random.below(24);
        let ids = random.tokens(len, tokenizer.vocabulary_size());
        let (mut detokenizer, mut text) = (Detokenizer::new(), String::new());
        ids.iter().for_each(|id| detokenizer.push(&tokenizer, *id, &mut text));
        detokenizer.flush(&tokenizer, &mut text);
        assert_eq!(text, tokenizer.decode(&ids), "seed {}, ids {ids:?}", random.seed);
    }
}

#[test]
fn pieces_without_scores_are_refused() {
    let error = tokenizer_of(&fixture(), 599, "short").unwrap_err();
    assert!(error.contains("600 tokens and 599 scores, expected as many"), "{error}");
}
