//! A stream gives the text of the whole.

use super::fixtures::{self, Fixture, Random};
use crate::text::Detokenizer;

const CASES: u64 = 10_000;

/// The stream's pieces, one per token, and one more for the flush.
fn pieces(fixture: &Fixture, ids: &[u32]) -> Vec<String> {
    let mut detokenizer = Detokenizer::new();
    let mut pieces: Vec<String> = (ids.iter())
        .map(|&id| {
            let mut piece = String::new();
            detokenizer.push(&fixture.ours, id, &mut piece);
            piece
        })
        .collect();
    let mut rest = String::new();
    detokenizer.flush(&fixture.ours, &mut rest);
    pieces.push(rest);
    pieces
}

/// Random ids, some without a token; half of the cases take few distinct ids, so that they meet more often.
fn random_ids(fixture: &Fixture, random: &mut Random) -> Vec<u32> {
    let ids = fixture.ours.vocabulary_size() + 3;
    let few: Vec<u32> = (0..1 + random.below(6)).map(|_| random.below(ids) as u32).collect();
    let from_few = random.below(2) == 0;
    (0..random.below(40))
        .map(|_| {
            if from_few {
                few[random.below(few.len())]
            } else {
                random.below(ids) as u32
            }
        })
        .collect()
}

/// The text by the rules of SentencePiece, written down without any state: for runs of bytes in which not all is UTF-8.
fn sentencepiece_text(fixture: &Fixture, ids: &[u32]) -> String {
    let added = fixture.library.get_added_vocabulary();
    let tokens = ids
        .iter()
        .filter_map(|&id| fixture.library.id_to_token(id))
        .filter(|token| !added.is_special_token(token));
    let mut text = String::new();
    let mut run: Vec<u8> = Vec::new();
    let end_run = |run: &mut Vec<u8>, text: &mut String| {
        for chunk in run.utf8_chunks() {
            text.push_str(chunk.valid());
            text.extend(chunk.invalid().iter().map(|_| '\u{fffd}'));
        }
        run.clear();
    };
    for token in tokens {
        match token.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>')) {
            Some(digits) if digits.len() == 2 => run.push(u8::from_str_radix(digits, 16).unwrap()),
            _ => {
                end_run(&mut run, &mut text);
                text.push_str(&token.replace('▁', " "));
            }
        }
    }
    end_run(&mut run, &mut text);
    text.strip_prefix(' ').map(str::to_owned).unwrap_or(text)
}

#[test]
fn stream_text_is_batch_decode_for_any_ids() {
    for fixture in fixtures::all() {
        for seed in 0..CASES {
            let ids = random_ids(&fixture, &mut Random(seed));
            let streamed = pieces(&fixture, &ids).concat();
            let context = || format!("{}, seed {seed}, ids {ids:?}", fixture.name);
            assert_eq!(streamed, fixture.ours.decode(&ids), "{}", context());
            let expected = fixture.library.decode(&ids, true).unwrap();
            match fixture.name {
                // The one known difference, see `decoder`: a run of byte tokens that is not all UTF-8.
                "llama" if expected.contains('\u{fffd}') => {
                    assert_eq!(streamed, sentencepiece_text(&fixture, &ids), "{}", context());
                }
                "metaspace with bytes" if expected.contains('\u{fffd}') => {
                    assert!(streamed.contains('\u{fffd}'), "{}", context());
                }
                _ => assert_eq!(streamed, expected, "{}", context()),
            }
        }
    }
}

/// Encodes random texts, so that every id sequence is valid text: then no U+FFFD may appear, at no step.
#[test]
fn stream_of_valid_text_never_shows_a_replacement_character() {
    let parts = [
        "the ",
        "hello",
        " ",
        "  ",
        "\n\n",
        "😀",
        "😀😃",
        "中",
        "文字",
        "é",
        "e\u{301}",
        "👩\u{200d}👩",
        "<think>",
        "<s>",
    ];
    for fixture in [fixtures::byte_level(), fixtures::llama()] {
        for seed in 0..CASES {
            let mut random = Random(seed);
            let text: String = (0..1 + random.below(8))
                .map(|_| parts[random.below(parts.len())])
                .collect();
            let ids = fixture.ours.encode(&text).unwrap();
            let pieces = pieces(&fixture, &ids);
            assert_eq!(pieces.concat(), text, "{}, seed {seed}", fixture.name);
            assert_eq!(
                pieces.last().unwrap(),
                "",
                "{}, seed {seed}: {text:?} was complete",
                fixture.name
            );
        }
    }
}

/// Each piece is out as soon as it is certain: what is still held back is less than a character.
#[test]
fn at_most_three_bytes_are_held_back() {
    for fixture in [fixtures::byte_level(), fixtures::llama()] {
        for seed in 0..CASES / 10 {
            let ids = random_ids(&fixture, &mut Random(seed));
            let mut detokenizer = Detokenizer::new();
            for &id in &ids {
                detokenizer.push(&fixture.ours, id, &mut String::new());
                let mut held = String::new();
                let mut ended = detokenizer;
                ended.flush(&fixture.ours, &mut held);
                assert!(held.chars().count() <= 3, "{}, seed {seed}: {held:?}", fixture.name);
                assert!(
                    held.chars().all(|c| c == '\u{fffd}'),
                    "{}, seed {seed}: {held:?}",
                    fixture.name
                );
            }
        }
    }
}

#[test]
fn a_copy_taken_before_a_token_goes_back_to_before_it() {
    for fixture in fixtures::all() {
        for seed in 0..CASES / 10 {
            let mut random = Random(seed);
            let ids = random_ids(&fixture, &mut random);
            let (mut detokenizer, mut text) = (Detokenizer::new(), String::new());
            for &id in &ids {
                let (before, length) = (detokenizer, text.len());
                detokenizer.push(
                    &fixture.ours,
                    random.below(fixture.ours.vocabulary_size()) as u32,
                    &mut text,
                );
                text.truncate(length);
                detokenizer = before;
                detokenizer.push(&fixture.ours, id, &mut text);
            }
            detokenizer.flush(&fixture.ours, &mut text);
            assert_eq!(text, fixture.ours.decode(&ids), "{}, seed {seed}", fixture.name);
        }
    }
}

#[test]
fn a_second_flush_gives_nothing() {
    let fixture = fixtures::llama();
    let (mut detokenizer, mut text) = (Detokenizer::new(), String::new());
    detokenizer.push(&fixture.ours, fixture.id("<0xE4>"), &mut text);
    detokenizer.flush(&fixture.ours, &mut text);
    detokenizer.flush(&fixture.ours, &mut text);
    assert_eq!(text, "\u{fffd}");
}

#[test]
fn a_tokens_text_is_what_it_adds_in_the_middle() {
    let llama = fixtures::llama();
    for (token, text) in [
        ("▁he", " he"),
        ("▁▁", "  "),
        ("l", "l"),
        ("<0x41>", "A"),
        ("<0xE4>", "\u{fffd}"),
        ("</s>", "</s>"),
    ] {
        assert_eq!(llama.ours.token_text(llama.id(token)), text);
    }
    let byte_level = fixtures::byte_level();
    for (token, text) in [
        ("Ġ", " "),
        ("Ċ", "\n"),
        ("ð", "\u{fffd}"),
        ("<think>", "<think>"),
        ("<|end|>", "<|end|>"),
    ] {
        assert_eq!(byte_level.ours.token_text(byte_level.id(token)), text);
    }
    assert_eq!(byte_level.ours.token_text(1_000_000), "");
}
