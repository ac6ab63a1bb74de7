use tokenrouter_sdk::testing::{admit, init, number, route, text};

use super::*;

const SMALL: ModelIndex = 0;
const LARGE: ModelIndex = 1;
/// The largest draw below 1 with 24 random bits.
const LARGEST_DRAW: f32 = 1.0 - 1.0 / 16_777_216.0;

fn random(settings: Vec<Setting>) -> Random {
    init(&["small", "large"], settings).unwrap()
}

fn share_of(policy: &Random) -> Vec<StateWord> {
    admit(policy, vec![]).unwrap().state
}

#[test]
fn a_draw_below_the_share_hands_over_and_one_equal_to_it_stays() {
    let policy = random(vec![number("share", 0.25)]);
    let draws: [&[f32]; 4] = [&[0.0], &[0.249_999_98], &[0.25], &[LARGEST_DRAW]];
    let decisions = route(&policy, SMALL, &draws, &share_of(&policy));
    assert_eq!(decisions.destinations, [LARGE, LARGE, SMALL, SMALL]);
}

#[test]
fn share_0_never_hands_over_and_share_1_always_does() {
    for (share, destination) in [(0.0, SMALL), (1.0, LARGE)] {
        let policy = random(vec![number("share", share)]);
        let decisions = route(&policy, SMALL, &[&[0.0], &[0.5], &[LARGEST_DRAW]], &share_of(&policy));
        assert_eq!(decisions.destinations, [destination; 3], "share {share}");
    }
}

#[test]
fn the_share_is_one_half_by_default() {
    let policy = random(vec![]);
    let decisions = route(&policy, SMALL, &[&[0.499_999_97], &[0.5]], &share_of(&policy));
    assert_eq!(decisions.destinations, [LARGE, SMALL]);
}

#[test]
fn the_large_model_returns_after_one_token_and_asks_for_no_signal() {
    let policy = random(vec![number("share", 1.0)]);
    assert_eq!(policy.plan().signals, [vec![Signal::Uniform(0)], vec![]]);
    assert_eq!(
        route(&policy, LARGE, &[&[], &[]], &share_of(&policy)).destinations,
        [SMALL, SMALL]
    );
}

#[test]
fn the_small_models_candidate_is_discarded_and_the_large_ones_is_kept() {
    let policy = random(vec![]);
    let state = share_of(&policy);
    for (at, to, keep_candidate) in [(SMALL, LARGE, false), (LARGE, SMALL, true)] {
        let step = Step {
            candidate: 7,
            signals: vec![],
            state: state.clone(),
            text: String::new(),
        };
        let parcel = policy.send(at, to, step);
        assert_eq!(
            parcel,
            Parcel {
                keep_candidate,
                state: state.clone()
            }
        );
        assert_eq!(policy.receive(to, at, parcel), state);
    }
}

#[test]
fn a_request_has_its_own_share_wherever_it_goes() {
    let policy = random(vec![number("share", 0.0)]);
    let state = admit(&policy, vec![number("share", 1.0)]).unwrap().state;
    let there = route(&policy, SMALL, &[&[0.5]], &state);
    assert_eq!(there.destinations, [LARGE]);
    let back = route(&policy, LARGE, &[&[]], &there.state);
    assert_eq!(route(&policy, SMALL, &[&[0.5]], &back.state).destinations, [LARGE]);
}

#[test]
fn the_pair_is_chosen_by_name_among_more_models() {
    let policy: Random = init(&["a", "b", "c"], vec![text("small", "c"), text("large", "b")]).unwrap();
    assert_eq!(policy.plan().entry, 2);
    let state = admit(&policy, vec![number("share", 1.0)]).unwrap().state;
    assert_eq!(route(&policy, 2, &[&[0.0]], &state).destinations, [1]);
    assert_eq!(route(&policy, 1, &[&[]], &state).destinations, [2]);
}

#[test]
fn a_share_outside_of_0_to_1_is_refused_in_the_configuration_and_in_a_request() {
    for share in [-0.1, 1.1, f64::NAN] {
        let refusals = [
            init::<Random>(&["small", "large"], vec![number("share", share)]).err(),
            admit(&random(vec![]), vec![number("share", share)]).err(),
        ];
        for refusal in refusals {
            assert_eq!(
                refusal,
                Some(format!("option \"share\" is {share}; it must be between 0 and 1"))
            );
        }
    }
}

#[test]
fn one_model_is_refused() {
    let refusal = init::<Random>(&["only"], vec![]).err().unwrap();
    assert_eq!(
        refusal,
        "deployment \"test\" has one model, \"only\"; this policy needs at least 2"
    );
}
