//! The policies that come with the host, as components.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

use tokenrouter_core::ModelIndex;
use tokenrouter_core::draw::{Purpose, bits, uniform_f32};
use tokenrouter_core::policy::{Admission, Decisions, LeavingRow, RouteBatch};
use tokenrouter_core::signal::Signal;
use tokenrouter_policy::{Generation, PolicyCode, PolicyError, PolicyInstance, Setting, Value};

use crate::component::{admitting, deployment, host};

const SMALL: ModelIndex = ModelIndex(0);
const LARGE: ModelIndex = ModelIndex(1);

/// The policy of this name, compiled once for all tests.
fn load(name: &str) -> &'static PolicyCode {
    static SHIPPED: LazyLock<[PolicyCode; 2]> = LazyLock::new(|| {
        let host = host();
        ["r-stitch", "random"].map(|name| {
            let path = format!("{}/../../plugins/dist/{name}.wasm", env!("CARGO_MANIFEST_DIR"));
            let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
            host.load(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"))
        })
    });
    let named = SHIPPED.iter().find(|code| code.description().name == name);
    named.unwrap_or_else(|| panic!("no policy calls itself {name}"))
}

fn configure(name: &str, config: &[Setting]) -> Generation {
    load(name)
        .configure(&deployment(), config)
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn number(name: &str, value: f64) -> Setting {
    Setting {
        name: name.to_owned(),
        value: Value::Number(value),
    }
}

fn text(name: &str, value: &str) -> Setting {
    Setting {
        name: name.to_owned(),
        value: Value::Text(value.to_owned()),
    }
}

/// Destinations of rows with one signal each and the state of `admission`.
fn destinations(policy: &mut PolicyInstance, at: ModelIndex, signals: &[f32], admission: &Admission) -> Vec<u32> {
    let batch = RouteBatch {
        candidates: vec![1; signals.len()],
        signals: signals.to_vec(),
        state: admission.state.words().repeat(signals.len()),
        texts: Vec::new(),
    };
    let mut decisions = Decisions::default();
    policy.route(at, &batch, &mut decisions).expect("routes");
    assert_eq!(decisions.state, batch.state, "neither policy changes a request's state");
    decisions.destinations.iter().map(|model| model.0).collect()
}

#[test]
fn they_serve_with_their_defaults_and_say_their_names() {
    for name in ["r-stitch", "random"] {
        let generation = configure(name, &[]);
        assert_eq!(generation.description().name, name);
        assert_eq!((generation.plan().entry, generation.plan().signals.len()), (SMALL, 2));
    }
}

#[test]
fn an_option_they_lack_or_cannot_use_is_named() {
    for name in ["r-stitch", "random"] {
        let error = load(name).configure(&deployment(), &[number("treshold", 0.5)]).err();
        assert!(
            matches!(&error, Some(PolicyError::OptionUnknown { name, .. }) if name == "treshold"),
            "{error:?}"
        );
    }
    let error = load("r-stitch")
        .configure(&deployment(), &[number("threshold", -1.0)])
        .err();
    assert!(
        matches!(&error, Some(PolicyError::ConfigRefused { text }) if text.contains("threshold")),
        "{error:?}"
    );
    let error = load("random").configure(&deployment(), &[text("share", "half")]).err();
    assert!(
        matches!(&error, Some(PolicyError::ConfigRefused { text }) if text.contains("share")),
        "{error:?}"
    );
}

/// The small model delegates above the threshold, the large one hands back at most at it; what is not a number is
/// uncertain.
#[test]
fn r_stitch_routes_by_its_threshold_in_both_directions() {
    let generation = configure("r-stitch", &[]);
    assert_eq!(generation.plan().signals, vec![vec![Signal::EntropyNormalised]; 2]);
    let mut policy = generation.instance();
    let admission = policy.admit(&admitting(&[1]), &[]).expect("admits");
    assert_eq!(admission.model, SMALL);
    let entropies = [0.0, 0.029, 0.03, 0.031, 1.0, f32::NAN];
    for at in [SMALL, LARGE] {
        assert_eq!(
            destinations(&mut policy, at, &entropies, &admission),
            [0, 0, 0, 1, 1, 1],
            "at {at:?}"
        );
    }
    let admission = policy
        .admit(&admitting(&[1]), &[number("threshold", 0.5)])
        .expect("admits");
    assert_eq!(destinations(&mut policy, SMALL, &[0.5, 0.51], &admission), [0, 1]);
}

#[test]
fn r_stitch_keeps_the_large_models_tokens_and_discards_uncertain_ones() {
    let mut policy = configure("r-stitch", &[]).instance();
    let admission = policy.admit(&admitting(&[1]), &[]).expect("admits");
    for (at, to, keep_candidate) in [(SMALL, LARGE, false), (LARGE, SMALL, true)] {
        let row = LeavingRow {
            candidate: 3,
            signals: &[0.5],
            state: admission.state.words(),
            text: "",
        };
        let parcel = policy.send(at, to, row).expect("sends");
        assert_eq!((parcel.keep_candidate, parcel.state), (keep_candidate, admission.state));
        assert_eq!(policy.receive(to, at, &parcel).expect("receives"), admission.state);
    }
}

#[test]
fn a_request_may_not_change_what_r_stitch_reads() {
    let mut policy = configure("r-stitch", &[]).instance();
    let error = policy
        .admit(&admitting(&[1]), &[text("signal", "maxprob")])
        .expect_err("refused");
    assert!(
        matches!(&error, PolicyError::OptionNotPerRequest { name, .. } if name == "signal"),
        "{error}"
    );
    let error = policy
        .admit(&admitting(&[1]), &[number("threshold", 2.0)])
        .expect_err("refused");
    assert!(
        matches!(&error, PolicyError::Refused { text } if text.contains("threshold")),
        "{error}"
    );
}

#[test]
fn random_hands_over_below_its_share_and_always_hands_back() {
    let mut policy = configure("random", &[number("share", 0.25)]).instance();
    let admission = policy.admit(&admitting(&[1]), &[]).expect("admits");
    assert_eq!(
        destinations(&mut policy, SMALL, &[0.0, 0.2499, 0.25, 0.999], &admission),
        [1, 1, 0, 0]
    );
    let batch = RouteBatch {
        candidates: vec![1, 2],
        state: admission.state.words().repeat(2),
        ..RouteBatch::default()
    };
    let mut decisions = Decisions::default();
    policy.route(LARGE, &batch, &mut decisions).expect("routes");
    assert_eq!(decisions.destinations, [SMALL, SMALL]);
    for (share, expected) in [(0.0, 0), (1.0, 1)] {
        let admission = policy
            .admit(&admitting(&[1]), &[number("share", share)])
            .expect("admits");
        assert_eq!(
            destinations(&mut policy, SMALL, &[0.0, 0.5, 0.999], &admission),
            [expected; 3]
        );
    }
}

/// Policies are pure: one instance for all calls and a fresh one for every call give the same answers.
#[test]
fn a_fresh_instance_for_every_call_answers_alike() {
    let seed = RandomState::new().build_hasher().finish();
    for name in ["r-stitch", "random"] {
        let generation = configure(name, &[]);
        let mut kept = generation.instance();
        for call in 0..200 {
            let prompt = [bits(seed, call, Purpose::Policy(0)) as u32];
            let admission = kept.admit(&admitting(&prompt), &[]).expect("admits");
            assert_eq!(
                generation.instance().admit(&admitting(&prompt), &[]),
                Ok(admission),
                "seed {seed}"
            );
            let at = ModelIndex((bits(seed, call, Purpose::Policy(1)) % 2) as u32);
            let rows = 1 + bits(seed, call, Purpose::Policy(2)) as usize % 20;
            let columns = generation.plan().columns(at);
            let draw = |i: usize| uniform_f32(seed, call, Purpose::Policy(3 + i as u32)).powi(4);
            let batch = RouteBatch {
                candidates: (0..rows as u32).collect(),
                signals: (0..rows * columns).map(draw).collect(),
                state: admission.state.words().repeat(rows),
                texts: Vec::new(),
            };
            let (mut expected, mut decisions) = (Decisions::default(), Decisions::default());
            kept.route(at, &batch, &mut expected).expect("routes");
            generation.instance().route(at, &batch, &mut decisions).expect("routes");
            assert_eq!(decisions, expected, "seed {seed}, call {call}");
        }
        assert_eq!(kept.counts().starts, 1);
    }
}
