//! Tokenizers small enough to build in a test, and a generator for random cases.

use serde_json::{Map, Value, json};
use tokenizers::models::bpe::{BPE, BpeTrainerBuilder};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, TokenizerBuilder};

use crate::text::Tokenizer;

/// A tokenizer of ours with the library's own, to compare with.
pub(super) struct Fixture {
    pub(super) name: &'static str,
    pub(super) ours: Tokenizer,
    pub(super) library: tokenizers::Tokenizer,
}

impl Fixture {
    fn new(name: &'static str, library: tokenizers::Tokenizer) -> Self {
        Self {
            name,
            ours: Tokenizer::new(library.clone(), None, &[]).unwrap(),
            library,
        }
    }

    fn from_json(name: &'static str, json: &Value) -> Self {
        Self::new(name, tokenizers::Tokenizer::from_bytes(json.to_string()).unwrap())
    }

    /// The id of a token that the fixture is known to have.
    pub(super) fn id(&self, token: &str) -> u32 {
        self.ours
            .token_id(token)
            .unwrap_or_else(|| panic!("{} has no token {token:?}", self.name))
    }
}

/// The `tokenizer.json` of the embedded models: 21 tokens, one character each, and three special ones.
pub(super) const CHARACTERS_JSON: &[u8] = include_bytes!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../models/tiny/small/tokenizer.json"
));

/// Character-level BPE: no unknown token, no bytes.
pub(super) fn characters() -> Fixture {
    Fixture::new(
        "characters",
        tokenizers::Tokenizer::from_bytes(CHARACTERS_JSON).unwrap(),
    )
}

/// Byte-level BPE (GPT-2, Llama 3, Qwen), trained on a few lines so that merges end inside of characters too.
pub(super) fn byte_level() -> Fixture {
    let model = BPE::builder().build().unwrap();
    let pre_tokenizer = ByteLevel::new(false, true, false);
    let mut library = TokenizerBuilder::new()
        .with_model(model)
        .with_normalizer(None::<tokenizers::NormalizerWrapper>)
        .with_pre_tokenizer(Some(pre_tokenizer))
        .with_post_processor(Some(pre_tokenizer))
        .with_decoder(Some(pre_tokenizer))
        .build()
        .unwrap();
    let mut trainer = BpeTrainerBuilder::new()
        .vocab_size(340)
        .show_progress(false)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .build();
    let lines = [
        "the cat, the hat",
        "the end.\n\n",
        "😀😃😄😀😃😄 🇨🇭🇨🇭",
        "中文文字处理中文文字",
        "éèêéèê naïve",
        "  \n  \n",
    ];
    library.train(&mut trainer, lines.iter()).unwrap();
    library
        .add_special_tokens([AddedToken::from("<|end|>", true), AddedToken::from("<|start|>", true)])
        .unwrap();
    // Not special; the second has a space, which the byte-level alphabet does not have.
    library
        .add_tokens([AddedToken::from("<think>", false), AddedToken::from("   é", false)])
        .unwrap();
    Fixture::new("byte level", library.into())
}

/// The manner of Llama 2: words begin with U+2581, every byte has a token, and one space is stripped at the beginning.
pub(super) fn llama() -> Fixture {
    let mut vocabulary = numbered(["<unk>", "<s>", "</s>"]);
    for byte in 0..=255u8 {
        add(&mut vocabulary, &format!("<0x{byte:02X}>"));
    }
    for token in [
        "▁",
        "▁▁",
        "▁▁▁▁",
        "h",
        "e",
        "l",
        "o",
        "w",
        "▁h",
        "▁w",
        "he",
        "▁he",
        "é",
        "中",
        "<",
        "<0",
        ">",
        "E5",
        "\u{fffd}",
    ] {
        add(&mut vocabulary, token);
    }
    Fixture::from_json(
        "llama",
        &json!({
            "version": "1.0",
            "added_tokens": [special(0, "<unk>"), special(1, "<s>"), special(2, "</s>")],
            "normalizer": {"type": "Sequence", "normalizers": [
                {"type": "Prepend", "prepend": "▁"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
            "post_processor": {"type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
            "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
                "vocab": vocabulary, "merges": ["▁ h", "▁ w", "h e", "▁h e"]},
        }),
    )
}

/// A Metaspace decoder on its own (T5, XLM-R and their like).
pub(super) fn metaspace() -> Fixture {
    let words = [
        "<pad>", "▁", "▁▁", "▁This", "This", "▁is", "is", "▁an", "example", "▁中", "é", "a▁b", ".",
    ];
    Fixture::from_json(
        "metaspace",
        &json!({
            "version": "1.0",
            "added_tokens": [special(0, "<pad>")],
            "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true},
            "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true},
            "model": {"type": "WordLevel", "unk_token": ".", "vocab": numbered(words)},
        }),
    )
}

/// Byte tokens before Metaspace (older conversions of Llama), with the joining steps after it.
pub(super) fn metaspace_with_bytes() -> Fixture {
    let words = [
        "<s>", "<0xC3>", "<0xA9>", "<0x20>", "<0x61>", "<0xE2>", "<0x96>", "<0x81>", "▁", "▁▁a", "b", "▁b", "c▁",
    ];
    Fixture::from_json(
        "metaspace with bytes",
        &json!({
            "version": "1.0",
            "added_tokens": [special(0, "<s>")],
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "ByteFallback"},
                {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true},
                {"type": "Strip", "content": "a", "start": 2, "stop": 0},
                {"type": "Fuse"},
                {"type": "Replace", "pattern": {"String": "b"}, "content": " B "},
                {"type": "Strip", "content": " ", "start": 2, "stop": 0}]},
            "model": {"type": "WordLevel", "unk_token": "b", "vocab": numbered(words)},
        }),
    )
}

/// No decoder at all: tokens joined by spaces.
pub(super) fn words() -> Fixture {
    Fixture::from_json(
        "words",
        &json!({
            "version": "1.0",
            "added_tokens": [special(0, "<pad>")],
            "pre_tokenizer": {"type": "Whitespace"},
            "model": {"type": "WordLevel", "unk_token": "?", "vocab": numbered(["<pad>", "one", "two", "drei", "?"])},
        }),
    )
}

/// All of them.
pub(super) fn all() -> [Fixture; 6] {
    [
        characters(),
        byte_level(),
        llama(),
        metaspace(),
        metaspace_with_bytes(),
        words(),
    ]
}

fn numbered<const N: usize>(tokens: [&str; N]) -> Map<String, Value> {
    let mut vocabulary = Map::new();
    for token in tokens {
        add(&mut vocabulary, token);
    }
    vocabulary
}

fn add(vocabulary: &mut Map<String, Value>, token: &str) {
    let id = vocabulary.len();
    vocabulary.insert(token.to_owned(), json!(id));
}

fn special(id: u32, content: &str) -> Value {
    json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        "special": true})
}

/// SplitMix64: a case is its seed.
pub(super) struct Random(pub(super) u64);

impl Random {
    /// An even draw from `0..bound`.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(x ^ (x >> 31)) * bound as u128) >> 64) as usize
    }
}
