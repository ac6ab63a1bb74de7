//! What each rule decides.

use super::*;

const SMALL: ModelIndex = ModelIndex(0);
const LARGE: ModelIndex = ModelIndex(1);

fn queue(ready: u32) -> Queue {
    Queue {
        ready,
        long: false,
        oldest_us: 0,
        losing: ready as f32,
        losing_next: 1.0,
    }
}

fn at(models: &[ModelView]) -> View<'_> {
    View {
        now_us: 1_000,
        models,
        turn: SMALL,
    }
}

fn launches(rule: &LaunchRule, model: ModelIndex, ready: u32, models: &[ModelView]) -> bool {
    decide(rule, model, queue(ready), at(models), 1_000_000) == Decision::Launch
}

#[test]
fn threshold_waits_for_company_but_never_for_nobody() {
    let rule = LaunchRule::Threshold(vec![1, 3]);
    let busy = [
        ModelView {
            running: 4,
            ends_us: 2_000,
            ..Default::default()
        },
        ModelView {
            waiting: 2,
            ..Default::default()
        },
    ];
    assert!(!launches(&rule, LARGE, 2, &busy));
    assert!(launches(&rule, LARGE, 3, &busy));
    let about_to = [
        ModelView {
            waiting: 1,
            ..Default::default()
        },
        ModelView {
            waiting: 2,
            ..Default::default()
        },
    ];
    assert!(
        !launches(&rule, LARGE, 2, &about_to),
        "the small model is about to decide"
    );
    assert!(
        launches(&rule, LARGE, 2, &[ModelView::default(); 2]),
        "nobody else can move"
    );
    let late = decide(&rule, LARGE, queue(1), at(&busy), 1_000);
    assert_eq!(late, Decision::Launch, "the wait bound holds whatever the threshold is");
}

#[test]
fn of_two_models_that_both_hold_back_exactly_one_goes() {
    let rule = LaunchRule::Threshold(vec![9, 9]);
    for (small, large) in [(3, 2), (2, 3), (2, 2)] {
        let models = [small, large].map(|waiting| ModelView {
            waiting,
            holding: true,
            ..Default::default()
        });
        let went = [
            launches(&rule, SMALL, small, &models),
            launches(&rule, LARGE, large, &models),
        ];
        assert_eq!(
            went.iter().filter(|&&went| went).count(),
            1,
            "{small} and {large} waiting: {went:?}"
        );
    }
}

#[test]
fn thresholds_follow_the_number_of_requests() {
    let table = ThresholdTable::new(vec![(1, vec![1, 1]), (4, vec![1, 3]), (8, vec![1, 5])]);
    let rule = LaunchRule::Planned(table);
    let at = |live| rule.threshold(LARGE, live);
    assert_eq!([1, 3, 4, 7, 8, 20].map(at), [1, 1, 3, 3, 5, 5]);
    assert_eq!(
        LaunchRule::Threshold(vec![1, 6]).threshold(LARGE, 4),
        4,
        "no more than there are"
    );
    assert_eq!(
        LaunchRule::Planned(ThresholdTable::default()).threshold(LARGE, 9),
        1,
        "eager until planned"
    );
}

/// k = 2 waiting, 6 running at the small model that end in 1 ms, each coming over with p = 0.35, L = 27.9 ms:
/// waiting costs 2 ms, launching 2.1 × 26.9 ms. With 5 ms left, p = 0.05 and k = 2: 10 against 6.9.
#[test]
fn lookahead_compares_the_two_costs() {
    let peer = |left_us: u64, p: f32| {
        [
            ModelView {
                running: 6,
                ends_us: 1_000 + left_us,
                newcomers: 6.0 * p,
                ..Default::default()
            },
            ModelView {
                step_us: 27_900,
                ..Default::default()
            },
        ]
    };
    assert!(!launches(&LaunchRule::Lookahead, LARGE, 2, &peer(1_000, 0.35)));
    assert!(launches(&LaunchRule::Lookahead, LARGE, 2, &peer(5_000, 0.05)));
    assert!(
        launches(&LaunchRule::Lookahead, LARGE, 2, &peer(1_000, 0.0)),
        "nobody can come"
    );
}

/// A peer whose step is late may be late for long: with every moment that it is, waiting looks worse.
#[test]
fn lookahead_does_not_wait_for_ever_behind_a_late_peer() {
    let late = |late_us: u64| {
        [
            ModelView {
                running: 6,
                ends_us: 100_000 - late_us,
                newcomers: 0.5,
                ..Default::default()
            },
            ModelView {
                step_us: 6_000,
                waiting: 40,
                ..Default::default()
            },
        ]
    };
    let decides = |late_us| {
        let models = late(late_us);
        let view = View {
            now_us: 100_000,
            models: &models,
            turn: SMALL,
        };
        decide(&LaunchRule::Lookahead, LARGE, queue(40), view, 1_000_000)
    };
    assert_eq!(decides(0), Decision::Wait { until_us: 100_002 });
    assert_eq!(decides(80), Decision::Launch, "40 · 80 µs against 0.5 · 5,920 µs");
}

/// A model that cannot launch for want of KV will not move by itself, however much waits there.
#[test]
fn nobody_waits_for_a_stalled_model() {
    let stalled = [
        ModelView {
            waiting: 9,
            holding: true,
            stalled: true,
            step_us: 6_000,
            to_here: 0.5,
            ..Default::default()
        },
        ModelView {
            waiting: 1,
            step_us: 27_900,
            ..Default::default()
        },
    ];
    for rule in [LaunchRule::Lookahead, LaunchRule::Threshold(vec![1, 5])] {
        assert!(launches(&rule, LARGE, 1, &stalled), "{rule:?}");
    }
}

#[test]
fn synchronous_rules_pass_the_turn() {
    let models = |small, large| {
        [
            ModelView {
                waiting: small,
                ..Default::default()
            },
            ModelView {
                waiting: large,
                ..Default::default()
            },
        ]
    };
    assert_eq!(next_turn(&LaunchRule::StepSync, SMALL, &models(3, 1)), LARGE);
    assert_eq!(next_turn(&LaunchRule::StepSync, SMALL, &models(3, 0)), SMALL);
    assert_eq!(next_turn(&LaunchRule::ModelSync, SMALL, &models(3, 1)), SMALL);
    assert_eq!(next_turn(&LaunchRule::ModelSync, SMALL, &models(0, 1)), LARGE);
    let view = models(1, 1);
    assert!(launches(&LaunchRule::StepSync, SMALL, 1, &view));
    assert!(
        !launches(&LaunchRule::StepSync, LARGE, 1, &view),
        "it is the small model's turn"
    );
}
