use tokenrouter_sdk::testing::{init, request, route, send};

use super::*;

/// The largest draw below 1 with 24 random bits.
const LARGEST_DRAW: f32 = 1.0 - 1.0 / 16_777_216.0;

fn weights(weights: &[f64]) -> Vec<Setting> {
    vec![Setting {
        name: "weights".into(),
        value: Value::Numbers(weights.to_vec()),
    }]
}

fn me(models: &[&str], settings: Vec<Setting>) -> Me {
    init(models, settings).unwrap()
}

fn drawn(policy: &Me, at: ModelIndex, draws: &[f32]) -> Vec<ModelIndex> {
    let rows: Vec<&[f32]> = draws.chunks(1).collect();
    route(policy, at, &rows, &[]).destinations
}

#[test]
fn three_models_have_the_published_weights_unless_told_otherwise() {
    let policy = me(&["a", "b", "c"], vec![]);
    let draws = [0.0, 0.499_999_97, 0.5, 0.799_999_95, 0.800_000_1, LARGEST_DRAW];
    for at in 0..3 {
        assert_eq!(drawn(&policy, at, &draws), [0, 0, 1, 1, 2, 2], "at {at}");
    }
}

#[test]
fn any_other_number_of_models_is_drawn_alike() {
    assert_eq!(drawn(&me(&["a", "b"], vec![]), 1, &[0.0, 0.499_999_97, 0.5]), [0, 0, 1]);
    let four = me(&["a", "b", "c", "d"], vec![]);
    assert_eq!(
        drawn(&four, 0, &[0.249, 0.25, 0.5, 0.75, LARGEST_DRAW]),
        [0, 1, 2, 3, 3]
    );
}

#[test]
fn a_model_of_weight_0_is_never_drawn() {
    let policy = me(&["a", "b", "c"], weights(&[0.0, 1.0, 0.0]));
    assert_eq!(drawn(&policy, 1, &[0.0, 0.5, LARGEST_DRAW]), [1, 1, 1]);
    assert_eq!(policy.plan().entry, 1);
}

#[test]
fn the_first_writer_is_drawn_at_admission() {
    let policy = me(&["a", "b", "c"], vec![]);
    let options = Options::read_request(Me::ABOUT.options, vec![]).unwrap();
    for (uniform, model) in [(0.0, 0), (0.5, 1), (LARGEST_DRAW, 2)] {
        let request = Request { uniform, ..request() };
        assert_eq!(
            policy.admit(&request, &options).map(|admission| admission.model),
            Ok(model)
        );
    }
}

#[test]
fn every_token_is_committed_whoever_leaves() {
    let policy = me(&["a", "b", "c"], vec![]);
    for (at, to) in [(0, 1), (1, 0), (2, 1)] {
        assert!(send(&policy, at, to, &[]).keep_candidate);
    }
}

#[test]
fn weights_must_be_one_a_model_with_sum_1() {
    for (given, expected) in [
        (
            &[0.5, 0.5][..],
            "option \"weights\" has 2 numbers; the deployment has 3 models, and each needs one",
        ),
        (
            &[0.5, 0.3, 0.1],
            "the numbers of option \"weights\" have sum 0.9; it must be 1",
        ),
        (
            &[0.5, 1.5, 0.0],
            "option \"weights\" is 1.5; it must be between 0 and 1",
        ),
    ] {
        let refusal = init::<Me>(&["a", "b", "c"], weights(given)).err().unwrap();
        assert_eq!(refusal, expected);
    }
    assert!(init::<Me>(&["a", "b", "c"], weights(&[0.333_333_3, 0.333_333_3, 0.333_333_4])).is_ok());
}

#[test]
fn one_model_is_no_mixture() {
    let refusal = init::<Me>(&["only"], vec![]).err().unwrap();
    assert!(refusal.contains("needs at least 2"), "{refusal}");
}
