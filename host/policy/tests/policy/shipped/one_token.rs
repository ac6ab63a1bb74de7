//! R2R, CITER, Co-LLM and random: the small model asks for a token, the large one writes it and hands back.

use tokenrouter_core::signal::Signal;
use tokenrouter_policy::{PolicyError, Setting};

use super::{Journey, LARGE, SMALL, admit, configure, deployment, load, number, route, text};
use crate::component::admitting;

/// Rows at the small model and who goes on.
struct Case {
    policy: &'static str,
    config: Vec<Setting>,
    request: Vec<Setting>,
    signals: Vec<Signal>,
    rows: Vec<(Vec<f32>, u32)>,
}

fn case(
    policy: &'static str,
    config: Vec<Setting>,
    request: Vec<Setting>,
    signals: Vec<Signal>,
    rows: &[(&[f32], u32)],
) -> Case {
    Case {
        policy,
        config,
        request,
        signals,
        rows: rows.iter().map(|(signals, to)| (signals.to_vec(), *to)).collect(),
    }
}

fn head(name: &str) -> Signal {
    Signal::HeadScore(name.to_owned())
}

/// One above, one at and one below each threshold, and what is not a number: it always hands over, where a plain
/// comparison would never.
fn cases() -> Vec<Case> {
    let nan = f32::NAN;
    let logits = |x: f32| vec![x; 10];
    let aleatoric = || vec![text("signal", "aleatoric")];
    let warm_up = || {
        vec![
            text("warm-up", "linear"),
            number("warm-up-tokens", 4.0),
            number("threshold", 0.0),
        ]
    };
    vec![
        // p >= 0.5.
        case(
            "r2r",
            vec![],
            vec![],
            vec![head("r2r")],
            &[(&[0.0], 0), (&[0.499_999_97], 0), (&[0.5], 1), (&[1.0], 1), (&[nan], 1)],
        ),
        // The threshold published for AIME, for one request.
        case(
            "r2r",
            vec![],
            vec![number("threshold", 0.405_96)],
            vec![head("r2r")],
            &[(&[0.405_95], 0), (&[0.405_96], 1)],
        ),
        // 0.45 nats.
        case(
            "r2r",
            vec![text("signal", "entropy")],
            vec![],
            vec![Signal::Entropy],
            &[(&[0.0], 0), (&[0.449_999_9], 0), (&[0.45], 1), (&[nan], 1)],
        ),
        // Ten logits x: H(10 x) - H(x) with harmonic numbers H: 2.2584 for 10, 2.2803 for 20; 2.275 between them.
        case(
            "r2r",
            aleatoric(),
            vec![],
            vec![Signal::TopKLogits(10)],
            &[(&logits(10.0), 0), (&logits(20.0), 1), (&logits(0.0), 1)],
        ),
        // Score < 0.98.
        case(
            "citer",
            vec![],
            vec![],
            vec![head("citer")],
            &[(&[0.0], 1), (&[0.979_999_9], 1), (&[0.98], 0), (&[1.0], 0), (&[nan], 1)],
        ),
        case(
            "citer",
            vec![number("threshold", 0.95)],
            vec![],
            vec![head("citer")],
            &[(&[0.949_999_9], 1), (&[0.95], 0)],
        ),
        case(
            "citer",
            vec![],
            vec![number("threshold", 0.0)],
            vec![head("citer")],
            &[(&[0.0], 0), (&[nan], 1)],
        ),
        // p > 0.15, at any position.
        case(
            "co-llm",
            vec![],
            vec![],
            vec![head("co-llm"), Signal::Position],
            &[
                (&[0.0, 1.0], 0),
                (&[0.15, 1.0], 0),
                (&[0.150_000_02, 1.0], 1),
                (&[nan, 1.0], 1),
            ],
        ),
        // From 1 to 0 in 4 tokens after a prompt of one: 1, 0.75, 0.5, 0.25, 0.
        case(
            "co-llm",
            warm_up(),
            vec![],
            vec![head("co-llm"), Signal::Position],
            &[
                (&[1.0, 1.0], 0),
                (&[0.75, 2.0], 0),
                (&[0.76, 2.0], 1),
                (&[0.25, 4.0], 0),
                (&[0.26, 4.0], 1),
                (&[0.0, 5.0], 0),
                (&[0.001, 5.0], 1),
            ],
        ),
        // A draw below the share.
        case(
            "random",
            vec![number("share", 0.25)],
            vec![],
            vec![Signal::Uniform(0)],
            &[(&[0.0], 1), (&[0.249_999_98], 1), (&[0.25], 0), (&[0.999], 0)],
        ),
        case(
            "random",
            vec![],
            vec![number("share", 1.0)],
            vec![Signal::Uniform(0)],
            &[(&[0.0], 1), (&[0.999_999_94], 1)],
        ),
        case(
            "random",
            vec![],
            vec![number("share", 0.0)],
            vec![Signal::Uniform(0)],
            &[(&[0.0], 0)],
        ),
    ]
}

#[test]
fn every_row_goes_where_its_publication_says() {
    for case in cases() {
        let generation = configure(case.policy, &case.config);
        assert_eq!(generation.plan().signals, [case.signals, vec![]], "{}", case.policy);
        let mut policy = generation.instance();
        let admission = admit(&mut policy, &case.request);
        assert_eq!(admission.model, SMALL);
        let (rows, expected): (Vec<&[f32]>, Vec<u32>) =
            case.rows.iter().map(|(signals, to)| (signals.as_slice(), *to)).unzip();
        let (found, states) = route(&mut policy, SMALL, &rows, &admission.state);
        assert_eq!(
            found, expected,
            "{} with {:?}, {:?}",
            case.policy, case.config, case.request
        );
        assert!(states.iter().all(|state| *state == admission.state), "{}", case.policy);
    }
}

/// The small model's token is dropped, the large one's is kept, and the request is back with its state.
#[test]
fn every_visit_to_the_large_model_commits_one_token() {
    for (name, asks) in [
        ("r2r", &[1.0][..]),
        ("citer", &[0.0]),
        ("co-llm", &[1.0, 1.0]),
        ("random", &[0.0]),
    ] {
        let mut policy = configure(name, &[]).instance();
        let mut journey = Journey::begin(&mut policy, &[]);
        let state = journey.state;
        for round in 0..3 {
            assert_eq!(journey.step(asks, ""), (LARGE, false), "{name}, round {round}");
            assert_eq!(journey.step(&[], ""), (SMALL, true), "{name}, round {round}");
            assert_eq!(journey.state, state, "{name}");
        }
    }
}

#[test]
fn a_head_that_the_deployment_lacks_is_named_with_the_way_to_name_it() {
    let mut bare = deployment(&["small", "large"]);
    bare.heads.clear();
    let head_mode = [text("mode", "head")];
    for (name, config) in [
        ("r2r", &[][..]),
        ("citer", &[]),
        ("co-llm", &[]),
        ("request-level", &head_mode),
    ] {
        let error = load(name).configure(&bare, config).err();
        let wanted = format!("head \"{name}\" is not loaded");
        assert!(
            matches!(&error, Some(PolicyError::ConfigRefused { text }) if text.contains(&wanted) && text.contains("[[heads]]")),
            "{name}: {error:?}"
        );
    }
    for signal in ["entropy", "aleatoric"] {
        assert!(load("r2r").configure(&bare, &[text("signal", signal)]).is_ok());
    }
}

#[test]
fn thresholds_out_of_range_are_refused_with_the_range() {
    for (name, option) in [
        ("r2r", "threshold"),
        ("citer", "threshold"),
        ("co-llm", "threshold"),
        ("random", "share"),
    ] {
        let expected = format!("option \"{option}\" is 1.5; it must be between 0 and 1");
        let two = deployment(&["small", "large"]);
        let error = load(name).configure(&two, &[number(option, 1.5)]).err();
        assert!(
            matches!(&error, Some(PolicyError::ConfigRefused { text }) if *text == expected),
            "{name}: {error:?}"
        );
        let error = configure(name, &[])
            .instance()
            .admit(&admitting(&[1]), &[number(option, 1.5)])
            .err();
        assert!(
            matches!(&error, Some(PolicyError::Refused { text }) if *text == expected),
            "{name}: {error:?}"
        );
    }
}
