//! Stop strings: the result is a matter of the text, not of its pieces.

use super::fixtures::Random;
use crate::text::{StopMatcher, TextError};

/// The text before the first complete stop string, and which one it is, straight from the definition.
fn by_definition<'a>(stops: &[&str], text: &'a str) -> (&'a str, Option<usize>) {
    for end in (0..=text.len()).filter(|&end| text.is_char_boundary(end)) {
        let here = stops
            .iter()
            .enumerate()
            .filter(|(_, stop)| text[..end].ends_with(**stop));
        // Of equally long ones the first; `max_by_key` would take the last.
        if let Some((found, stop)) = here.rev().max_by_key(|(_, stop)| stop.len()) {
            return (&text[..end - stop.len()], Some(found));
        }
    }
    (text, None)
}

/// All of `text` that can't be the beginning of a stop string, if none is complete in it.
fn certain<'a>(stops: &[&str], text: &'a str) -> &'a str {
    let begins_stop = |start: &usize| stops.iter().any(|stop| stop.starts_with(&text[*start..]));
    let start = text
        .char_indices()
        .map(|(start, _)| start)
        .find(begins_stop)
        .unwrap_or(text.len());
    &text[..start]
}

fn random_text(random: &mut Random, length: usize) -> String {
    (0..length)
        .map(|_| ['a', 'b', 'é', '中'][random.below(4).min(random.below(4))])
        .collect()
}

#[test]
fn any_chunking_gives_the_same_result_and_holds_back_no_more_than_needed() {
    for seed in 0..20_000 {
        let mut random = Random(seed);
        let stops: Vec<String> = (0..random.below(4))
            .map(|_| {
                let length = 1 + random.below(5);
                random_text(&mut random, length)
            })
            .collect();
        let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
        let length = random.below(24);
        let text = random_text(&mut random, length);
        let (before, found) = by_definition(&stops, &text);

        let mut matcher = StopMatcher::new(&stops).unwrap();
        let mut out = String::new();
        let (mut from, mut matched) = (0, None);
        while from < text.len() {
            let ends = text[from..]
                .char_indices()
                .map(|(place, c)| from + place + c.len_utf8());
            let end = ends.take(1 + random.below(5)).last().unwrap();
            matched = matcher.push(&text[from..end], &mut out);
            let (so_far, found_so_far) = by_definition(&stops, &text[..end]);
            let expected = if found_so_far.is_some() {
                so_far
            } else {
                certain(&stops, so_far)
            };
            assert_eq!(
                (out.as_str(), matched),
                (expected, found_so_far),
                "seed {seed}: {stops:?} in {:?}",
                &text[..end]
            );
            from = end;
        }
        matcher.flush(&mut out);
        assert_eq!(
            (out.as_str(), matched),
            (before, found),
            "seed {seed}: {stops:?} in {text:?}"
        );
    }
}

#[test]
fn the_earliest_end_wins_and_then_the_longest() {
    for (stops, text, before, found) in [
        (&["abcd", "bc"][..], "xabcd", "xa", Some(1)),
        (&["c", "bc", "abc"], "xabc", "x", Some(2)),
        (&["ab", "ab"], "ab", "", Some(0)),
        (&["aab"], "aaab", "a", Some(0)),
        (&["abab", "ba"], "xaba", "xa", Some(1)),
        (&["zz"], "xyz", "xyz", None),
    ] {
        let (mut matcher, mut out) = (StopMatcher::new(stops).unwrap(), String::new());
        assert_eq!(matcher.push(text, &mut out), found, "{stops:?} in {text:?}");
        matcher.flush(&mut out);
        assert_eq!(out, before, "{stops:?} in {text:?}");
    }
}

#[test]
fn nothing_comes_after_a_match() {
    let (mut matcher, mut out) = (StopMatcher::new(&["STOP"]).unwrap(), String::new());
    assert_eq!(matcher.push("one STOP two", &mut out), Some(0));
    assert_eq!(matcher.push(" three", &mut out), Some(0));
    matcher.flush(&mut out);
    assert_eq!(out, "one ");
}

#[test]
fn an_empty_stop_string_is_refused_by_its_index() {
    let error = StopMatcher::new(&["a", ""]).unwrap_err();
    assert!(matches!(error, TextError::EmptyStop { index: 1 }));
    assert!(error.to_string().contains("stop string 1 is empty"));
}

/// A text that keeps a long stop string half matched is the worst case for memory.
#[test]
fn memory_is_bounded_by_the_longest_stop_string() {
    let stop = "a".repeat(1000) + "b";
    let (mut matcher, mut out) = (StopMatcher::new(&[&stop]).unwrap(), String::new());
    for _ in 0..100_000 {
        assert_eq!(matcher.push("a", &mut out), None);
        assert!(matcher.buffered_bytes() <= 2 * stop.len() + 1);
    }
    assert_eq!(out.len(), 99_000);
    assert_eq!(matcher.push("b", &mut out), Some(0));
    assert_eq!(out.len(), 99_000);
}
