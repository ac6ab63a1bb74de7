//! Request-level routing: one choice, and nobody moves afterwards.

use tokenrouter_core::policy::Admitting;
use tokenrouter_core::signal::Signal;
use tokenrouter_policy::{PolicyError, Setting};

use super::{Journey, LARGE, SMALL, admit, configure, number, route, text};
use crate::component::admitting;

fn mode(mode: &str) -> Vec<Setting> {
    vec![text("mode", mode)]
}

/// 5,000 requests at a share of 0.3: 1,500 expected, standard deviation 32.4; within 4 of them.
#[test]
fn a_share_of_the_requests_goes_to_the_large_model() {
    let mut policy = configure("request-level", &[number("share", 0.3)]).instance();
    let mut large = 0;
    for seed in 0..5000 {
        let request = Admitting {
            seed,
            ..admitting(&[1])
        };
        let admission = policy.admit(&request, &[]).expect("admits");
        assert_eq!(policy.admit(&request, &[]), Ok(admission), "the draw is the seed's");
        large += u32::from(admission.model == LARGE);
    }
    assert!((1370..=1630).contains(&large), "{large} of 5000");
}

#[test]
fn a_clients_score_chooses_from_the_threshold_on() {
    let mut policy = configure("request-level", &mode("score")).instance();
    for (score, expected) in [(0.0, SMALL), (0.499, SMALL), (0.5, LARGE), (1.0, LARGE)] {
        assert_eq!(admit(&mut policy, &[number("score", score)]).model, expected, "{score}");
    }
    let own = [number("score", 0.3), number("threshold", 0.2)];
    assert_eq!(admit(&mut policy, &own).model, LARGE);
    let error = policy.admit(&admitting(&[1]), &[]).expect_err("no score");
    assert!(
        matches!(&error, PolicyError::Refused { text } if text.contains("\"score\" is missing")),
        "{error}"
    );
}

#[test]
fn a_head_chooses_at_the_end_of_the_prompt() {
    let generation = configure("request-level", &mode("head"));
    let score = Signal::HeadScore("request-level".to_owned());
    assert_eq!(generation.plan().signals, [vec![score], vec![]]);
    let mut policy = generation.instance();
    let mut stays = Journey::begin(&mut policy, &[]);
    assert_eq!(stays.step(&[0.499_999_97], ""), (SMALL, true));
    assert_eq!(stays.step(&[1.0], ""), (SMALL, true), "chosen is chosen");
    for score in [0.5, f32::NAN] {
        let mut moves = Journey::begin(&mut policy, &[]);
        assert_eq!(moves.step(&[score], ""), (LARGE, false));
        assert_eq!(moves.step(&[], ""), (LARGE, true));
    }
}

#[test]
fn after_admission_nobody_moves() {
    let mut policy = configure("request-level", &[]).instance();
    let state = admit(&mut policy, &[]).state;
    for at in [SMALL, LARGE] {
        assert_eq!(route(&mut policy, at, &[&[], &[]], &state).0, [at.0; 2]);
    }
}

#[test]
fn options_of_another_mode_are_refused_by_name() {
    let mut policy = configure("request-level", &[]).instance();
    let error = policy
        .admit(&admitting(&[1]), &[number("score", 0.5)])
        .expect_err("a share");
    assert!(
        matches!(&error, PolicyError::Refused { text } if text.contains("\"score\"") && text.contains("\"share\"")),
        "{error}"
    );
}
