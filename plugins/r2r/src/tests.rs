use tokenrouter_sdk::testing::{admit, init, init_with_heads, number, route, send, text};

use super::*;

const SMALL: ModelIndex = 0;
const LARGE: ModelIndex = 1;

fn r2r(settings: Vec<Setting>) -> R2r {
    init_with_heads(&["small", "large"], &["r2r"], settings).unwrap()
}

fn at_small(policy: &R2r, request: Vec<Setting>, rows: &[&[f32]]) -> Vec<ModelIndex> {
    route(policy, SMALL, rows, &admit(policy, request).unwrap().state).destinations
}

#[test]
fn a_probability_that_reaches_the_threshold_hands_over() {
    let rows: [&[f32]; 4] = [&[0.0], &[0.499_999_97], &[0.5], &[1.0]];
    assert_eq!(at_small(&r2r(vec![]), vec![], &rows), [SMALL, SMALL, LARGE, LARGE]);
}

/// The threshold published for AIME, as a request's own.
#[test]
fn a_request_has_its_own_threshold() {
    let request = vec![number("threshold", 0.405_96)];
    let rows: [&[f32]; 3] = [&[0.405_95], &[0.405_96], &[0.405_97]];
    assert_eq!(at_small(&r2r(vec![]), request, &rows), [SMALL, LARGE, LARGE]);
}

#[test]
fn entropy_hands_over_from_0_45_nats() {
    let policy = r2r(vec![text("signal", "entropy")]);
    assert_eq!(policy.plan().signals, [vec![Signal::Entropy], vec![]]);
    let rows: [&[f32]; 3] = [&[0.449_999_9], &[0.45], &[2.0]];
    assert_eq!(at_small(&policy, vec![], &rows), [SMALL, LARGE, LARGE]);
}

/// Ten logits of 20: H(200) - H(20) = 2.2803. Ten logits of 10: H(100) - H(10) = 2.2584.
#[test]
fn aleatoric_uncertainty_hands_over_from_2_275() {
    let policy = r2r(vec![text("signal", "aleatoric")]);
    assert_eq!(policy.plan().signals, [vec![Signal::TopKLogits(10)], vec![]]);
    assert_eq!(at_small(&policy, vec![], &[&[20.0; 10], &[10.0; 10]]), [LARGE, SMALL]);
}

#[test]
fn a_measure_that_is_not_a_number_hands_over() {
    assert_eq!(
        at_small(&r2r(vec![number("threshold", 1.0)]), vec![], &[&[f32::NAN]]),
        [LARGE]
    );
    let aleatoric = r2r(vec![text("signal", "aleatoric"), number("threshold", 20.0)]);
    let logits = [5.0, -5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    assert_eq!(at_small(&aleatoric, vec![], &[&logits]), [LARGE]);
}

#[test]
fn the_large_model_returns_after_one_token_which_it_commits() {
    let policy = r2r(vec![]);
    let state = admit(&policy, vec![]).unwrap().state;
    assert_eq!(route(&policy, LARGE, &[&[], &[]], &state).destinations, [SMALL, SMALL]);
    assert!(!send(&policy, SMALL, LARGE, &state).keep_candidate);
    assert!(send(&policy, LARGE, SMALL, &state).keep_candidate);
}

#[test]
fn only_the_neural_signal_needs_a_head() {
    let refusal = init::<R2r>(&["small", "large"], vec![]).err().unwrap();
    assert!(
        refusal.contains("head \"r2r\" is not loaded") && refusal.contains("[[heads]]"),
        "{refusal}"
    );
    for signal in ["entropy", "aleatoric"] {
        assert!(
            init::<R2r>(&["small", "large"], vec![text("signal", signal)]).is_ok(),
            "{signal}"
        );
        let settings = vec![text("signal", signal), text("head", "r2r")];
        let refusal = init_with_heads::<R2r>(&["small", "large"], &["r2r"], settings)
            .err()
            .unwrap();
        assert!(refusal.contains("option \"head\" is for signal neural"), "{refusal}");
    }
}

#[test]
fn thresholds_the_measure_cannot_reach_are_refused() {
    for (signal, max) in [("neural", 1), ("entropy", 20), ("aleatoric", 20)] {
        let threshold = f64::from(max) + 0.5;
        let refusal = admit(&r2r(vec![text("signal", signal)]), vec![number("threshold", threshold)]).unwrap_err();
        assert_eq!(
            refusal,
            format!("option \"threshold\" is {threshold}; it must be between 0 and {max}")
        );
    }
}
