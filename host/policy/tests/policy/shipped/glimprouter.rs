//! GlimpRouter: whole steps of reasoning, and the answer, by the model that the step's first token calls for.

use tokenrouter_core::signal::Signal;

use super::{Journey, LARGE, SMALL, configure, number};

const SURE: &[f32] = &[0.999];
const UNSURE: &[f32] = &[1.0];
const NAN: &[f32] = &[f32::NAN];
/// The large model has no signals.
const NONE: &[f32] = &[];

const KEPT: bool = true;
const DROPPED: bool = false;

/// A row of a table: signals, the candidate's text, who goes on, and whether the candidate is committed.
type Line = (&'static [f32], &'static str, tokenrouter_core::ModelIndex, bool);

fn follow(config: &[tokenrouter_policy::Setting], lines: &[Line]) {
    let mut policy = configure("glimprouter", config).instance();
    let mut journey = Journey::begin(&mut policy, &[]);
    for (i, (signals, text, to, kept)) in lines.iter().enumerate() {
        assert_eq!(
            journey.step(signals, text),
            (*to, *kept),
            "line {i}: {text:?} of {lines:?}"
        );
    }
}

#[test]
fn it_asks_for_the_top_20_entropy_and_the_texts() {
    let generation = configure("glimprouter", &[]);
    assert_eq!(generation.plan().signals, [vec![Signal::TopKEntropy(20)], vec![]]);
    assert!(generation.plan().texts);
}

#[test]
fn a_step_belongs_to_the_model_that_its_first_token_calls_for() {
    follow(
        &[],
        &[
            (SURE, "So", SMALL, KEPT),
            (UNSURE, " it", SMALL, KEPT),
            (NAN, " is.", SMALL, KEPT),
            (UNSURE, "\n\n", SMALL, KEPT),
            (UNSURE, "Wait", LARGE, DROPPED),
            (NONE, "Hmm", LARGE, KEPT),
            (NONE, ", no.", LARGE, KEPT),
            (NONE, "\n\n", SMALL, KEPT),
            (NAN, "Well", LARGE, DROPPED),
            (NONE, "\n\n", SMALL, KEPT),
            (SURE, "So", SMALL, KEPT),
        ],
    );
}

#[test]
fn boundaries_are_found_in_text_however_it_is_cut_into_tokens() {
    for blank in [&["\n\n"][..], &[".\n\n"], &["\n", "\n"], &["\n\n\n"], &[".\n", "\n"]] {
        let mut policy = configure("glimprouter", &[]).instance();
        for (first, writer) in [(SURE, SMALL), (UNSURE, LARGE)] {
            let mut journey = Journey::begin(&mut policy, &[]);
            journey.step(first, "a");
            if writer == LARGE {
                journey.step(NONE, "a");
            }
            for (i, piece) in blank.iter().enumerate() {
                let signals = if writer == SMALL { UNSURE } else { NONE };
                let to = if i + 1 == blank.len() { SMALL } else { writer };
                assert_eq!(journey.step(signals, piece), (to, KEPT), "{blank:?} by {writer:?}");
            }
            assert_eq!(
                journey.step(UNSURE, "b"),
                (LARGE, DROPPED),
                "after {blank:?} by {writer:?}"
            );
        }
    }
}

#[test]
fn one_newline_is_no_boundary() {
    follow(
        &[],
        &[
            (SURE, "a", SMALL, KEPT),
            (UNSURE, "\n", SMALL, KEPT),
            (UNSURE, "b\n", SMALL, KEPT),
            (UNSURE, " \n", SMALL, KEPT),
        ],
    );
}

#[test]
fn a_step_ends_after_512_tokens() {
    let mut policy = configure("glimprouter", &[]).instance();
    let mut journey = Journey::begin(&mut policy, &[]);
    assert_eq!(journey.step(SURE, "a"), (SMALL, KEPT));
    for _ in 1..512 {
        assert_eq!(journey.step(UNSURE, "a"), (SMALL, KEPT));
    }
    assert_eq!(journey.step(UNSURE, "a"), (LARGE, DROPPED));
    for _ in 0..511 {
        assert_eq!(journey.step(NONE, "a"), (LARGE, KEPT));
    }
    assert_eq!(journey.step(NONE, "a"), (SMALL, KEPT));
}

#[test]
fn the_large_model_writes_the_answer() {
    // The tag as one token, by the small model: it is kept.
    follow(
        &[],
        &[
            (SURE, "a", SMALL, KEPT),
            (UNSURE, "</think>", LARGE, KEPT),
            (NONE, "\n\n", LARGE, KEPT),
            (NONE, "The", LARGE, KEPT),
            (NONE, "\n\n", LARGE, KEPT),
        ],
    );
    // In pieces, by the large one.
    follow(
        &[],
        &[
            (UNSURE, "a", LARGE, DROPPED),
            (NONE, "</th", LARGE, KEPT),
            (NONE, "ink", LARGE, KEPT),
            (NONE, ">\n\n", LARGE, KEPT),
            (NONE, "The", LARGE, KEPT),
        ],
    );
}

#[test]
fn two_identical_steps_end_reasoning_once_there_are_more_than_two() {
    follow(
        &[],
        &[
            (SURE, "a.\n\n", SMALL, KEPT),
            (SURE, "a", SMALL, KEPT),
            (SURE, ".\n\n", SMALL, KEPT),
            (SURE, "b.\n\n", SMALL, KEPT),
            (SURE, "b.", SMALL, KEPT),
            (SURE, "\n\n", LARGE, KEPT),
            (NONE, "\n\n", LARGE, KEPT),
        ],
    );
}

#[test]
fn the_budget_ends_reasoning_with_the_step() {
    follow(
        &[number("thinking-tokens-max", 3.0)],
        &[
            (SURE, "a", SMALL, KEPT),
            (SURE, "\n\n", SMALL, KEPT),
            (UNSURE, "b", LARGE, DROPPED),
            (NONE, "b", LARGE, KEPT),
            (NONE, "\n\n", LARGE, KEPT),
            (NONE, "c", LARGE, KEPT),
        ],
    );
}

#[test]
fn the_first_steps_can_be_the_large_models() {
    follow(
        &[number("large-steps", 1.0)],
        &[
            (NONE, "a", LARGE, KEPT),
            (NONE, "\n\n", SMALL, KEPT),
            (SURE, "b", SMALL, KEPT),
        ],
    );
}

#[test]
fn a_request_sets_threshold_and_budget() {
    let mut policy = configure("glimprouter", &[]).instance();
    let mut journey = Journey::begin(&mut policy, &[number("threshold", 2.0)]);
    assert_eq!(journey.step(&[1.999], "a"), (SMALL, KEPT));
    assert_eq!(journey.step(&[0.0], "\n\n"), (SMALL, KEPT));
    assert_eq!(journey.step(&[2.0], "b"), (LARGE, DROPPED));
    let answering = Journey::begin(&mut policy, &[number("thinking-tokens-max", 0.0)]);
    assert_eq!(answering.at, LARGE);
}
