use tokenrouter_sdk::testing::{admit, init, init_with_heads, number, request, route, send, text};

use super::*;

const SMALL: ModelIndex = 0;
const LARGE: ModelIndex = 1;

fn policy(mode: &str, settings: Vec<Setting>) -> RequestLevel {
    let settings = [vec![text("mode", mode)], settings].concat();
    init_with_heads(&["small", "large"], &["request-level"], settings).unwrap()
}

fn model(policy: &RequestLevel, settings: Vec<Setting>) -> Result<ModelIndex, String> {
    admit(policy, settings).map(|admission| admission.model)
}

#[test]
fn a_draw_below_the_share_goes_to_the_large_model() {
    let policy = policy("share", vec![number("share", 0.25)]);
    let options = Options::read_request(RequestLevel::ABOUT.options, vec![]).unwrap();
    for (uniform, expected) in [(0.0, LARGE), (0.249, LARGE), (0.25, SMALL), (0.999, SMALL)] {
        let admission = policy.admit(&Request { uniform, ..request() }, &options).unwrap();
        assert_eq!(
            admission,
            Admission {
                model: expected,
                state: vec![CHOSEN]
            },
            "{uniform}"
        );
    }
    // The draw of these tests is 0.5.
    assert_eq!(model(&policy, vec![number("share", 0.51)]), Ok(LARGE));
}

#[test]
fn a_clients_score_that_reaches_the_threshold_goes_to_the_large_model() {
    let policy = policy("score", vec![number("threshold", 0.7)]);
    for (score, expected) in [(0.0, SMALL), (0.69, SMALL), (0.7, LARGE), (1.0, LARGE)] {
        assert_eq!(model(&policy, vec![number("score", score)]), Ok(expected), "{score}");
    }
    let own = vec![number("score", 0.5), number("threshold", 0.4)];
    assert_eq!(model(&policy, own), Ok(LARGE));
}

#[test]
fn a_request_without_its_score_is_refused() {
    let refusal = model(&policy("score", vec![]), vec![]).unwrap_err();
    assert_eq!(
        refusal,
        "option \"score\" is missing; send the score of this prompt, 0 to 1, with the request"
    );
}

#[test]
fn a_head_chooses_at_the_first_step_and_never_again() {
    let policy = policy("head", vec![]);
    let admission = admit(&policy, vec![]).unwrap();
    assert_eq!(admission.model, SMALL);
    let rows: [&[f32]; 4] = [&[0.499_999_97], &[0.5], &[1.0], &[f32::NAN]];
    let first = route(&policy, SMALL, &rows, &admission.state);
    assert_eq!(first.destinations, [SMALL, LARGE, LARGE, LARGE]);
    let second = route(&policy, SMALL, &[&[1.0], &[0.0]], &first.state[..1]);
    assert_eq!(second.destinations, [SMALL, SMALL]);
    assert_eq!(route(&policy, LARGE, &[&[]], &first.state[1..2]).destinations, [LARGE]);
    assert!(!send(&policy, SMALL, LARGE, &first.state[1..2]).keep_candidate);
}

/// A threshold of 0 has the bits 0, and is still a choice to be made.
#[test]
fn a_requests_threshold_of_0_sends_every_score_to_the_large_model() {
    let policy = policy("head", vec![]);
    let state = admit(&policy, vec![number("threshold", 0.0)]).unwrap().state;
    assert_eq!(route(&policy, SMALL, &[&[0.0]], &state).destinations, [LARGE]);
}

#[test]
fn where_admission_chose_nobody_moves() {
    for (mode, settings) in [("share", vec![]), ("score", vec![number("score", 0.1)])] {
        let policy = policy(mode, vec![]);
        assert_eq!(policy.plan().signals, [vec![], vec![]]);
        let state = admit(&policy, settings).unwrap().state;
        for at in [SMALL, LARGE] {
            assert_eq!(route(&policy, at, &[&[], &[]], &state).destinations, [at, at], "{mode}");
        }
    }
}

#[test]
fn options_of_another_mode_are_refused() {
    for (mode, option) in [
        ("share", number("threshold", 0.5)),
        ("share", text("head", "request-level")),
        ("score", number("share", 0.5)),
        ("head", number("share", 0.5)),
        ("score", number("score", 0.5)),
    ] {
        let name = format!("option \"{}\"", option.name);
        let settings = vec![text("mode", mode), option];
        let refusal = init_with_heads::<RequestLevel>(&["a", "b"], &["request-level"], settings)
            .err()
            .unwrap();
        assert!(refusal.starts_with(&name), "{mode}: {refusal}");
    }
    for (mode, name) in [
        ("share", "threshold"),
        ("share", "score"),
        ("head", "score"),
        ("score", "share"),
    ] {
        let refusal = model(&policy(mode, vec![]), vec![number(name, 0.5)]).unwrap_err();
        assert!(refusal.contains(name) && refusal.contains(mode), "{refusal}");
    }
}

#[test]
fn only_mode_head_needs_a_head() {
    assert!(init::<RequestLevel>(&["a", "b"], vec![]).is_ok());
    let refusal = init::<RequestLevel>(&["a", "b"], vec![text("mode", "head")])
        .err()
        .unwrap();
    assert!(refusal.contains("head \"request-level\" is not loaded"), "{refusal}");
}
