use tokenrouter_sdk::testing::{admit, init, init_with_heads, number, request, route, send, text};

use super::*;

const SMALL: ModelIndex = 0;
const LARGE: ModelIndex = 1;

fn co_llm(settings: Vec<Setting>) -> CoLlm {
    init_with_heads(&["small", "large"], &["co-llm"], settings).unwrap()
}

/// Destinations of probabilities at these positions after a prompt of one token.
fn at_small(policy: &CoLlm, request: Vec<Setting>, rows: &[[f32; 2]]) -> Vec<ModelIndex> {
    let rows: Vec<&[f32]> = rows.iter().map(<[f32; 2]>::as_slice).collect();
    route(policy, SMALL, &rows, &admit(policy, request).unwrap().state).destinations
}

#[test]
fn a_probability_above_the_threshold_hands_over_and_one_equal_to_it_stays() {
    let rows = [[0.0, 1.0], [0.15, 1.0], [0.150_000_02, 1.0], [1.0, 1.0]];
    assert_eq!(at_small(&co_llm(vec![]), vec![], &rows), [SMALL, SMALL, LARGE, LARGE]);
}

#[test]
fn a_probability_that_is_not_a_number_hands_over() {
    let policy = co_llm(vec![number("threshold", 1.0)]);
    assert_eq!(
        at_small(&policy, vec![], &[[f32::NAN, 1.0], [1.0, 1.0]]),
        [LARGE, SMALL]
    );
}

/// 1, 0.75, 0.5, 0.25 and then 0: strictly above, and the first token of the answer is never handed over.
#[test]
fn a_warm_up_counts_tokens_of_the_answer_not_of_the_prompt() {
    let policy = co_llm(vec![
        text("warm-up", "linear"),
        number("warm-up-tokens", 4.0),
        number("threshold", 0.0),
    ]);
    let options = Options::read_request(CoLlm::ABOUT.options, vec![]).unwrap();
    let prompt = vec![1; 100];
    let state = policy.admit(&Request { prompt, ..request() }, &options).unwrap().state;
    let at = |rows: &[&[f32]]| route(&policy, SMALL, rows, &state).destinations;
    assert_eq!(
        at(&[
            &[1.0, 100.0],
            &[0.75, 101.0],
            &[0.76, 101.0],
            &[0.5, 102.0],
            &[0.26, 103.0]
        ]),
        [SMALL, SMALL, LARGE, SMALL, LARGE]
    );
    assert_eq!(
        at(&[&[0.0, 104.0], &[0.001, 104.0], &[0.001, 5000.0]]),
        [SMALL, LARGE, LARGE]
    );
}

#[test]
fn a_request_has_its_own_threshold() {
    let rows = [[0.5, 1.0], [0.51, 1.0]];
    assert_eq!(
        at_small(&co_llm(vec![]), vec![number("threshold", 0.5)], &rows),
        [SMALL, LARGE]
    );
}

#[test]
fn the_large_model_returns_after_one_token_which_it_commits() {
    let policy = co_llm(vec![]);
    let state = admit(&policy, vec![]).unwrap().state;
    assert_eq!(route(&policy, LARGE, &[&[]], &state).destinations, [SMALL]);
    assert!(!send(&policy, SMALL, LARGE, &state).keep_candidate);
    assert!(send(&policy, LARGE, SMALL, &state).keep_candidate);
}

#[test]
fn without_its_head_it_says_how_to_name_one() {
    let refusal = init::<CoLlm>(&["small", "large"], vec![]).err().unwrap();
    assert!(
        refusal.contains("head \"co-llm\" is not loaded") && refusal.contains("[[heads]]"),
        "{refusal}"
    );
}
