//! The detokeniser and the stop matcher: whatever the tokens and the stop strings, the pieces of the stream add up to the
//! text of the whole up to the stop string that is complete first.

use std::sync::LazyLock;

use serde_json::{Value, json};
use tokenrouter_model::text::{Detokenizer, StopMatcher, Tokenizer};

pub const WORDS: [&str; 8] = [
    "a",
    "ab",
    "aba",
    "\u{1f600}",
    "\u{e9}",
    "\u{fffd}",
    "\u{3}abc",
    "\u{2}\u{4}",
];

/// A byte-level tokenizer and one that falls back to bytes, both with an id for each byte, and a few longer tokens.
static TOKENIZERS: LazyLock<[Tokenizer; 2]> = LazyLock::new(|| {
    let mut others = 0x100_u32;
    let letters = (0..=255_u8).map(|byte| match byte {
        b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => char::from(byte).to_string(),
        _ => {
            others += 1;
            char::from_u32(others - 1).expect("a letter").to_string()
        }
    });
    let byte_level = tokenizer(
        letters.chain(["ab".to_owned(), "Ġa".to_owned()]),
        &json!({
            "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true
        }),
    );
    let bytes = (0..=255_u8).map(|byte| format!("<0x{byte:02X}>"));
    let fallback = tokenizer(
        bytes.chain(["a".to_owned(), "▁b".to_owned()]),
        &json!({
            "type": "Sequence", "decoders": [
                { "type": "Replace", "pattern": { "String": "▁" }, "content": " " },
                { "type": "ByteFallback" }, { "type": "Fuse" },
                { "type": "Strip", "content": " ", "start": 1, "stop": 0 },
            ]
        }),
    );
    [byte_level, fallback]
});

fn tokenizer(tokens: impl Iterator<Item = String>, decoder: &Value) -> Tokenizer {
    let vocabulary: serde_json::Map<String, Value> = (0..)
        .zip(tokens)
        .map(|(id, token): (u32, _)| (token, id.into()))
        .collect();
    let file = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": null, "post_processor": null, "decoder": decoder,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocabulary, "merges": [],
        },
    });
    Tokenizer::from_bytes(file.to_string().as_bytes(), None, &[]).expect("a tokenizer")
}

/// The first byte chooses the tokenizer and how many stop strings there are; each is a byte of length and so many bytes;
/// the rest are token ids.
pub fn try_input(input: &[u8]) -> bool {
    let Some((&head, mut rest)) = input.split_first() else {
        return false;
    };
    let tokenizer = &TOKENIZERS[usize::from(head & 1)];
    let mut stops = Vec::new();
    for _ in 0..(head >> 1) % 4 {
        let Some((&len, more)) = rest.split_first() else { break };
        let (stop, more) = more.split_at(usize::from(len % 8).min(more.len()));
        stops.push(String::from_utf8_lossy(stop).into_owned());
        rest = more;
    }
    let ids: Vec<u32> = rest.iter().map(|byte| u32::from(*byte) * 259 / 256).collect();
    let mut matcher = match StopMatcher::new(&stops) {
        Ok(matcher) => matcher,
        Err(_) => {
            assert!(stops.iter().any(String::is_empty));
            return false;
        }
    };
    let (mut detokenizer, mut streamed, mut found) = (Detokenizer::new(), String::new(), None);
    for &id in &ids {
        let mut piece = String::new();
        detokenizer.push(tokenizer, id, &mut piece);
        found = matcher.push(&piece, &mut streamed);
        if found.is_some() {
            break;
        }
    }
    if found.is_none() {
        let mut piece = String::new();
        detokenizer.flush(tokenizer, &mut piece);
        found = matcher.push(&piece, &mut streamed);
        matcher.flush(&mut streamed);
    }
    let whole = tokenizer.decode(&ids);
    if head & 1 == 0 && ids.iter().all(|id| *id < 256) {
        let bytes: Vec<u8> = ids.iter().map(|id| *id as u8).collect();
        assert_eq!(
            whole,
            String::from_utf8_lossy(&bytes),
            "the decoder is not that of bytes"
        );
    }
    // The earliest end, and of equal ends the longest string.
    let ends = stops
        .iter()
        .filter_map(|stop| whole.find(stop).map(|start| (start + stop.len(), start)));
    match ends.min() {
        None => {
            assert_eq!(found, None);
            assert_eq!(streamed, whole, "stops {stops:?}");
        }
        Some((end, start)) => {
            assert_eq!(streamed, whole[..start], "stops {stops:?} in {whole:?}");
            let found = found.expect("a stop string is in the text");
            assert_eq!(&whole[start..end], stops[found]);
        }
    }
    true
}
