//! R-Stitch: the small model hands over above the threshold, the large one hands back at most at it.

use tokenrouter_core::draw::{Purpose, uniform_f32};
use tokenrouter_core::signal::Signal;
use tokenrouter_policy::PolicyError;

use super::{Journey, LARGE, SMALL, admit, configure, number, route, text};
use crate::component::admitting;

#[test]
fn both_models_are_held_to_one_threshold() {
    let maxprob = [text("signal", "maxprob"), number("threshold", 0.75)];
    let entropy = |value: f32| [value];
    for (config, signal, rows, expected) in [
        (
            &[][..],
            Signal::EntropyNormalised,
            [0.0, 0.029, 0.03, 0.031, f32::NAN].map(entropy),
            [0, 0, 0, 1, 1],
        ),
        (
            &maxprob,
            Signal::MaxProbability,
            [1.0, 0.76, 0.75, 0.749, f32::NAN].map(entropy),
            [0, 0, 0, 1, 1],
        ),
    ] {
        let generation = configure("r-stitch", config);
        assert_eq!(generation.plan().signals, [vec![signal.clone()], vec![signal]]);
        let mut policy = generation.instance();
        let admission = admit(&mut policy, &[]);
        assert_eq!(admission.model, SMALL);
        let rows: Vec<&[f32]> = rows.iter().map(<[f32; 1]>::as_slice).collect();
        for at in [SMALL, LARGE] {
            let (found, _) = route(&mut policy, at, &rows, &admission.state);
            assert_eq!(found, expected, "{config:?} at {at:?}");
        }
    }
}

#[test]
fn a_request_has_its_own_threshold_at_both_models() {
    let mut policy = configure("r-stitch", &[]).instance();
    let mut journey = Journey::begin(&mut policy, &[number("threshold", 0.5)]);
    assert_eq!(journey.step(&[0.5], ""), (SMALL, true));
    assert_eq!(journey.step(&[0.51], ""), (LARGE, false));
    assert_eq!(journey.step(&[0.51], ""), (LARGE, true));
    assert_eq!(journey.step(&[0.5], ""), (SMALL, true));
}

/// Were the large model's certain token dropped, the small one would meet the same prefix with the same entropy and hand
/// over again, for ever.
#[test]
fn every_visit_to_the_large_model_commits_at_least_one_token() {
    let mut policy = configure("r-stitch", &[]).instance();
    for seed in 0..50 {
        let mut journey = Journey::begin(&mut policy, &[]);
        let mut committed = 0;
        for position in 0..100 {
            let entropy = uniform_f32(seed, position, Purpose::Policy(0)) * 0.06;
            let from = journey.at;
            let (to, kept) = journey.step(&[entropy], "");
            if (from, to) == (SMALL, LARGE) {
                committed = 0;
            }
            committed += u32::from(from == LARGE && kept);
            assert!(
                (from, to) != (LARGE, SMALL) || committed > 0,
                "seed {seed}, position {position}: nothing written"
            );
            assert_eq!(kept, (from, to) != (SMALL, LARGE), "seed {seed}, position {position}");
        }
    }
}

#[test]
fn a_request_may_not_change_what_is_read() {
    let mut policy = configure("r-stitch", &[]).instance();
    let error = policy
        .admit(&admitting(&[1]), &[text("signal", "maxprob")])
        .expect_err("refused");
    assert!(
        matches!(&error, PolicyError::OptionNotPerRequest { name, .. } if name == "signal"),
        "{error}"
    );
}
