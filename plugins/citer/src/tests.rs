use tokenrouter_sdk::testing::{admit, init, init_with_heads, number, route, send, text};

use super::*;

const SMALL: ModelIndex = 0;
const LARGE: ModelIndex = 1;

fn citer(settings: Vec<Setting>) -> Citer {
    init_with_heads(&["small", "large"], &["citer"], settings).unwrap()
}

fn at_small(policy: &Citer, request: Vec<Setting>, scores: &[f32]) -> Vec<ModelIndex> {
    let rows: Vec<&[f32]> = scores.chunks(1).collect();
    route(policy, SMALL, &rows, &admit(policy, request).unwrap().state).destinations
}

#[test]
fn a_score_below_the_threshold_hands_over_and_one_equal_to_it_stays() {
    let scores = [0.0, 0.979_999_9, 0.98, 1.0];
    assert_eq!(at_small(&citer(vec![]), vec![], &scores), [LARGE, LARGE, SMALL, SMALL]);
}

#[test]
fn threshold_0_never_hands_over_and_1_always_but_for_certainty() {
    for (threshold, expected) in [(0.0, [SMALL, SMALL, SMALL]), (1.0, [LARGE, LARGE, SMALL])] {
        let policy = citer(vec![number("threshold", threshold)]);
        assert_eq!(
            at_small(&policy, vec![], &[0.0, 0.5, 1.0]),
            expected,
            "threshold {threshold}"
        );
    }
}

#[test]
fn a_score_that_is_not_a_number_hands_over() {
    assert_eq!(
        at_small(&citer(vec![number("threshold", 0.0)]), vec![], &[f32::NAN]),
        [LARGE]
    );
}

#[test]
fn the_large_model_returns_after_one_token_which_it_commits() {
    let policy = citer(vec![]);
    let state = admit(&policy, vec![]).unwrap().state;
    assert_eq!(route(&policy, LARGE, &[&[], &[]], &state).destinations, [SMALL, SMALL]);
    assert!(!send(&policy, SMALL, LARGE, &state).keep_candidate);
    assert!(send(&policy, LARGE, SMALL, &state).keep_candidate);
}

#[test]
fn a_request_has_its_own_threshold() {
    let policy = citer(vec![]);
    assert_eq!(
        at_small(&policy, vec![number("threshold", 0.5)], &[0.4, 0.5, 0.6]),
        [LARGE, SMALL, SMALL]
    );
}

#[test]
fn the_head_is_asked_for_at_the_small_model_alone() {
    let signals = |policy: &Citer| policy.plan().signals.clone();
    assert_eq!(
        signals(&citer(vec![])),
        [vec![Signal::HeadScore("citer".into())], vec![]]
    );
    let settings = vec![text("head", "mine"), text("small", "b"), text("large", "a")];
    let other: Citer = init_with_heads(&["a", "b"], &["mine"], settings).unwrap();
    assert_eq!(signals(&other), [vec![], vec![Signal::HeadScore("mine".into())]]);
}

#[test]
fn without_its_head_it_says_how_to_name_one() {
    let refusal = init::<Citer>(&["small", "large"], vec![]).err().unwrap();
    assert!(
        refusal.contains("head \"citer\" is not loaded") && refusal.contains("[[heads]]"),
        "{refusal}"
    );
}

#[test]
fn a_threshold_outside_of_0_to_1_is_refused() {
    let refusal = admit(&citer(vec![]), vec![number("threshold", 1.5)]).unwrap_err();
    assert_eq!(refusal, "option \"threshold\" is 1.5; it must be between 0 and 1");
}
