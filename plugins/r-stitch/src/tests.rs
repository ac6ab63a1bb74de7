use tokenrouter_sdk::testing::{admit, deployment, init, number, route, text};

use super::*;

const SMALL: ModelIndex = 0;
const LARGE: ModelIndex = 1;

fn r_stitch(settings: Vec<Setting>) -> RStitch {
    init(&["small", "large"], settings).unwrap()
}

/// Destinations for these values of the signal, at both models.
fn destinations(policy: &RStitch, values: &[f32]) -> (Vec<ModelIndex>, Vec<ModelIndex>) {
    let state = admit(policy, vec![]).unwrap().state;
    let rows: Vec<&[f32]> = values.chunks(1).collect();
    let at = |model| route(policy, model, &rows, &state).destinations;
    (at(SMALL), at(LARGE))
}

#[test]
fn entropy_above_the_threshold_hands_over_and_at_most_the_threshold_hands_back() {
    let (small, large) = destinations(&r_stitch(vec![]), &[0.0, 0.029, 0.03, 0.031, 1.0]);
    assert_eq!(small, [SMALL, SMALL, SMALL, LARGE, LARGE]);
    assert_eq!(large, [SMALL, SMALL, SMALL, LARGE, LARGE]);
}

#[test]
fn max_probability_below_the_threshold_hands_over_and_at_least_the_threshold_hands_back() {
    let policy = r_stitch(vec![text("signal", "maxprob"), number("threshold", 0.75)]);
    let (small, large) = destinations(&policy, &[1.0, 0.75, 0.749, 0.1]);
    assert_eq!(small, [SMALL, SMALL, LARGE, LARGE]);
    assert_eq!(large, [SMALL, SMALL, LARGE, LARGE]);
}

#[test]
fn a_signal_that_is_not_a_number_is_never_certain() {
    for signal in ["entropy", "maxprob"] {
        let (small, large) = destinations(&r_stitch(vec![text("signal", signal)]), &[f32::NAN]);
        assert_eq!((small, large), (vec![LARGE], vec![LARGE]), "{signal}");
    }
}

/// 0.03 ln 151,936 = 0.03 × 11.9313 = 0.35794 nats.
#[test]
fn in_nats_the_default_is_the_published_one_times_ln_v() {
    let policy = r_stitch(vec![text("unit", "nats")]);
    let (small, _) = destinations(&policy, &[0.3579, 0.3580]);
    assert_eq!(small, [SMALL, LARGE]);
    assert_eq!(policy.plan().signals, [vec![Signal::Entropy], vec![Signal::Entropy]]);
}

#[test]
fn in_nats_a_threshold_may_be_above_1() {
    let (small, _) = destinations(
        &r_stitch(vec![text("unit", "nats"), number("threshold", 2.0)]),
        &[2.0, 2.1],
    );
    assert_eq!(small, [SMALL, LARGE]);
}

#[test]
fn each_kind_of_certainty_asks_for_its_signal_at_every_model() {
    for (settings, signal) in [
        (vec![], Signal::EntropyNormalised),
        (vec![text("unit", "nats")], Signal::Entropy),
        (vec![text("signal", "maxprob")], Signal::MaxProbability),
    ] {
        let policy: RStitch = init(&["a", "b", "c"], settings).unwrap();
        assert_eq!(policy.plan().signals, vec![vec![signal]; 3]);
    }
}

/// A large model that dropped its certain token would meet the same request again and again.
#[test]
fn the_large_model_commits_whenever_it_leaves_and_the_small_one_never() {
    for settings in [vec![], vec![text("small", "large"), text("large", "small")]] {
        let policy = r_stitch(settings);
        let small = policy.plan().entry;
        let large = 1 - small;
        for (at, to, keep_candidate) in [(small, large, false), (large, small, true)] {
            let step = Step {
                candidate: 7,
                signals: vec![0.5],
                state: vec![9],
                text: String::new(),
            };
            assert_eq!(
                policy.send(at, to, step),
                Parcel {
                    keep_candidate,
                    state: vec![9]
                }
            );
        }
    }
}

#[test]
fn a_request_has_its_own_threshold_wherever_it_goes() {
    let policy = r_stitch(vec![]);
    let admission = admit(&policy, vec![number("threshold", 0.5)]).unwrap();
    assert_eq!(admission.model, SMALL);
    let there = route(&policy, SMALL, &[&[0.5], &[0.6]], &admission.state);
    assert_eq!(there.destinations, [SMALL, LARGE]);
    assert_eq!(there.state, admission.state.repeat(2));
    let step = Step {
        candidate: 7,
        signals: vec![0.6],
        state: there.state[1..].to_vec(),
        text: String::new(),
    };
    let state = policy.receive(LARGE, SMALL, policy.send(SMALL, LARGE, step));
    assert_eq!(
        route(&policy, LARGE, &[&[0.5], &[0.6]], &state).destinations,
        [SMALL, LARGE]
    );
}

#[test]
fn rows_of_one_step_have_thresholds_of_their_own() {
    let policy = r_stitch(vec![]);
    let state = |threshold| admit(&policy, vec![number("threshold", threshold)]).unwrap().state;
    let batch = Batch {
        candidates: vec![1, 2, 3],
        signals: vec![0.2, 0.2, 0.2],
        state: [state(0.1), state(0.2), state(0.3)].concat(),
        texts: String::new(),
        text_ends: vec![],
    };
    assert_eq!(policy.route_batch(SMALL, batch).destinations, [LARGE, SMALL, SMALL]);
}

#[test]
fn a_model_beside_the_pair_is_treated_as_the_large_one() {
    let policy: RStitch = init(&["a", "b", "c"], vec![]).unwrap();
    let state = admit(&policy, vec![]).unwrap().state;
    assert_eq!(route(&policy, 1, &[&[0.0], &[0.9]], &state).destinations, [0, 1]);
}

#[test]
fn thresholds_the_signal_cannot_reach_are_refused() {
    for (settings, max) in [
        (vec![], 1),
        (vec![text("signal", "maxprob")], 1),
        (vec![text("unit", "nats")], 20),
    ] {
        let threshold = f64::from(max) + 0.5;
        let refusal = admit(&r_stitch(settings), vec![number("threshold", threshold)]).unwrap_err();
        assert_eq!(
            refusal,
            format!("option \"threshold\" is {threshold}; it must be between 0 and {max}")
        );
    }
}

#[test]
fn a_unit_with_max_probability_is_refused() {
    let refusal = init::<RStitch>(&["a", "b"], vec![text("signal", "maxprob"), text("unit", "nats")])
        .err()
        .unwrap();
    assert!(
        refusal.contains("\"unit\"") && refusal.contains("\"maxprob\""),
        "{refusal}"
    );
}

#[test]
fn a_request_may_not_change_the_signal() {
    let refusal = admit(&r_stitch(vec![]), vec![text("signal", "maxprob")]).unwrap_err();
    assert_eq!(refusal, "unknown option \"signal\"; a request may set: threshold");
}

#[test]
fn one_model_is_refused() {
    let refusal = init::<RStitch>(&["only"], vec![]).err().unwrap();
    assert_eq!(
        refusal,
        "deployment \"test\" has one model, \"only\"; this policy needs at least 2"
    );
}

#[test]
fn the_plan_is_the_same_each_time() {
    let options = Options::read(RStitch::ABOUT.options, vec![number("threshold", 0.2)]).unwrap();
    let plan = || {
        RStitch::init(&deployment(&["a", "b"]), &options)
            .unwrap()
            .plan()
            .clone()
    };
    assert_eq!(plan(), plan());
}
