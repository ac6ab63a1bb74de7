//! Faults that users of other servers reported. Each test bears the report's name.

use super::fixtures;
use crate::text::{Detokenizer, StopMatcher};

/// Streams tokens by name; one piece each, then the flush.
fn stream(fixture: &fixtures::Fixture, tokens: &[&str]) -> Vec<String> {
    let mut detokenizer = Detokenizer::new();
    let mut pieces = Vec::new();
    for token in tokens {
        pieces.push(String::new());
        detokenizer.push(&fixture.ours, fixture.id(token), pieces.last_mut().unwrap());
    }
    pieces.push(String::new());
    detokenizer.flush(&fixture.ours, pieces.last_mut().unwrap());
    pieces
}

/// An emoji split over tokens was streamed as U+FFFD.
#[test]
fn ferrox_124_split_emoji_is_whole() {
    let llama = fixtures::llama();
    assert_eq!(
        stream(&llama, &["▁h", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>", "e"]),
        ["h", "", "", "", "😀", "e", ""]
    );
    let byte_level = fixtures::byte_level();
    assert_eq!(
        stream(&byte_level, &["ð", "Ł", "ĺ", "Ģ", "e"]),
        ["", "", "", "😀", "e", ""]
    );
    // Only an answer that ends inside of a character has U+FFFD, and only at its very end.
    assert_eq!(
        stream(&byte_level, &["e", "ð", "Ł", "ĺ"]),
        ["e", "", "", "", "\u{fffd}"]
    );
}

/// The same report, token by token: what a client is told of a part of a character are its bytes, which add up.
#[test]
fn ferrox_124_bytes_of_split_emoji_add_up() {
    for (fixture, tokens) in [
        (fixtures::llama(), ["<0xF0>", "<0x9F>", "<0x98>", "<0x80>"]),
        (fixtures::byte_level(), ["ð", "Ł", "ĺ", "Ģ"]),
    ] {
        let bytes = tokens.map(|token| fixture.ours.token_bytes(fixture.id(token)));
        assert_eq!(bytes.concat(), "😀".as_bytes(), "{}", fixture.name);
    }
    let llama = fixtures::llama();
    assert_eq!(llama.ours.token_bytes(llama.id("▁h")), b" h", "text is its own bytes");
}

/// The stream decoder failed ("invalid prefix") where decoding more tokens changes how the earlier ones decode.
#[test]
fn tokenizers_1705_no_prefix_is_invalid() {
    let llama = fixtures::llama();
    // The first space is stripped; a byte token alone is invalid and with its successors it is not.
    let tokens = ["▁", "<0xE4>", "<0xB8>", "<0xAD>", "▁", "<0xC3>", "<0xA9>", "▁▁", "h"];
    let pieces = stream(&llama, &tokens);
    assert_eq!(pieces, ["", "", "", "中", " ", "", "é", "  ", "h", ""]);
    let ids: Vec<u32> = tokens.iter().map(|token| llama.id(token)).collect();
    assert_eq!(pieces.concat(), llama.library.decode(&ids, true).unwrap());
    // A complete character before an invalid byte was already sent and stays what it was.
    assert_eq!(
        stream(&llama, &["<0xC3>", "<0xA9>", "<0xFF>", "h"]),
        ["", "é", "\u{fffd}", "h", ""]
    );
}

/// Spaces between streamed tokens were lost, as each piece was decoded like the beginning of a text.
#[test]
fn tokenizers_1699_spaces_are_kept() {
    let metaspace = fixtures::metaspace();
    assert_eq!(
        stream(&metaspace, &["▁This", "▁is", "▁an", "▁", "example", "."]),
        ["This", " is", " an", " ", "example", ".", ""]
    );
    let llama = fixtures::llama();
    assert_eq!(
        stream(&llama, &["▁he", "▁w", "▁▁▁▁", "▁", "o"]),
        ["he", " w", "    ", " ", "o", ""]
    );
    // Special tokens in between do not make a new beginning.
    assert_eq!(stream(&llama, &["<s>", "▁he", "</s>", "▁w"]), ["", "he", "", " w", ""]);
}

/// The first token of a stop string that takes several was streamed before the rest made it a match.
#[test]
fn vllm_3574_no_part_of_a_stop_string_of_several_tokens_is_sent() {
    let (mut matcher, mut out) = (StopMatcher::new(&["\nUser:", "###"]).unwrap(), String::new());
    for piece in ["Fine", ".", "\n", "Us", "er", ":", " and"] {
        matcher.push(piece, &mut out);
        assert!("Fine.".starts_with(&out), "{out:?}");
    }
    assert_eq!(out, "Fine.");
    assert_eq!(matcher.push("", &mut out), Some(0));
}

/// A stop string that begins in the middle of one token and ends in the middle of another was missed.
#[test]
fn vllm_2577_a_stop_string_matches_across_token_boundaries() {
    let (mut matcher, mut out) = (StopMatcher::new(&["</answer>"]).unwrap(), String::new());
    assert_eq!(matcher.push("42.</", &mut out), None);
    assert_eq!(matcher.push("ans", &mut out), None);
    assert_eq!(matcher.push("wer>\n", &mut out), Some(0));
    assert_eq!(out, "42.");
}

/// Text held back for a stop string that never came was missing from the answer.
#[test]
fn vllm_42210_text_held_back_is_released_at_the_end() {
    let (mut matcher, mut out) = (StopMatcher::new(&["\n\nUser:"]).unwrap(), String::new());
    assert_eq!(matcher.push("The end.\n\nUse", &mut out), None);
    assert_eq!(out, "The end.");
    matcher.flush(&mut out);
    assert_eq!(out, "The end.\n\nUse");
    matcher.flush(&mut out);
    assert_eq!(out, "The end.\n\nUse");
}
