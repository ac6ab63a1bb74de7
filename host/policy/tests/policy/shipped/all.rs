//! What holds for every policy that comes with the host.

use std::hash::{BuildHasher, Hasher, RandomState};

use tokenrouter_core::ModelIndex;
use tokenrouter_core::draw::{Purpose, bits, uniform_f32};
use tokenrouter_core::policy::{Decisions, LeavingRow, RouteBatch};
use tokenrouter_core::texts::Texts;
use tokenrouter_policy::conformance::{Effort, examine};
use tokenrouter_policy::{Generation, PolicyError};

use super::{NAMES, SMALL, bytes, configure, deployment, load, number, text};
use crate::component::admitting;

/// Largest component, in bytes: they are part of the binary.
const BYTES_MAX: usize = 60 * 1024;

#[test]
fn each_serves_with_its_defaults_says_its_name_and_is_small() {
    for name in NAMES {
        let generation = configure(name, &[]);
        assert_eq!(generation.description().name, name);
        assert_eq!(
            (generation.plan().entry, generation.plan().signals.len()),
            (SMALL, 2),
            "{name}"
        );
        let size = bytes(name).len();
        assert!(size <= BYTES_MAX, "{name}: {size} bytes");
    }
}

#[test]
fn every_option_says_what_it_means() {
    for name in NAMES {
        for option in &load(name).description().options {
            assert!(option.summary.len() > 10, "{name}: option {}", option.name);
        }
    }
}

#[test]
fn an_option_they_lack_is_named() {
    for name in NAMES {
        let error = load(name)
            .configure(&deployment(&["small", "large"]), &[number("treshold", 0.5)])
            .err();
        assert!(
            matches!(&error, Some(PolicyError::OptionUnknown { name, .. }) if name == "treshold"),
            "{name}: {error:?}"
        );
    }
}

#[test]
fn one_model_is_refused() {
    for name in NAMES {
        let error = load(name).configure(&deployment(&["only"]), &[]).err();
        assert!(
            matches!(&error, Some(PolicyError::ConfigRefused { text }) if text.contains("at least 2")),
            "{name}: {error:?}"
        );
    }
}

#[test]
fn they_keep_the_contract() {
    let seed = RandomState::new().build_hasher().finish();
    let defaults = NAMES.map(|name| (name, Vec::new()));
    let others = [
        ("r-stitch", vec![text("unit", "nats")]),
        // Its default threshold is another one here, and a unit would be refused.
        ("r-stitch", vec![text("signal", "maxprob")]),
        ("random", vec![number("share", 0.2)]),
    ];
    for (name, config) in defaults.into_iter().chain(others) {
        let report = examine(&configure(name, &config), Effort { seed, rounds: 1 });
        if let Some(error) = report.first_failure() {
            panic!("{name} {config:?}, seed {seed}: {error}");
        }
    }
}

/// A batch with random signals, states from admissions and texts that make and end steps.
fn batch(generation: &Generation, seed: u64, call: u64, at: ModelIndex, state: &[u64]) -> RouteBatch {
    const TEXTS: [&str; 6] = ["a", "\n", ".\n\n", "\n\n", "</think>", " b"];
    let rows = 1 + bits(seed, call, Purpose::Policy(2)) as usize % 20;
    let draw = |i: usize| uniform_f32(seed, call, Purpose::Policy(3 + i as u32)).powi(4) * 2.0;
    let text = |i: usize| TEXTS[bits(seed, call, Purpose::Policy(1000 + i as u32)) as usize % TEXTS.len()];
    RouteBatch {
        candidates: (0..rows as u32).collect(),
        signals: (0..rows * generation.plan().columns(at)).map(draw).collect(),
        state: state.repeat(rows),
        texts: if generation.plan().texts {
            (0..rows).map(text).collect()
        } else {
            Texts::default()
        },
    }
}

/// Policies are pure: one instance for all calls and a fresh one for every call give the same answers.
#[test]
fn a_fresh_instance_for_every_call_answers_alike() {
    let seed = RandomState::new().build_hasher().finish();
    for name in NAMES {
        let generation = configure(name, &[]);
        let mut kept = generation.instance();
        for call in 0..100 {
            let prompt = [bits(seed, call, Purpose::Policy(0)) as u32];
            let admission = kept.admit(&admitting(&prompt), &[]).expect("admits");
            assert_eq!(
                generation.instance().admit(&admitting(&prompt), &[]),
                Ok(admission),
                "{name}, seed {seed}"
            );
            let at = ModelIndex((bits(seed, call, Purpose::Policy(1)) % 2) as u32);
            let batch = batch(&generation, seed, call, at, admission.state.words());
            let (mut expected, mut decisions) = (Decisions::default(), Decisions::default());
            kept.route(at, &batch, &mut expected).expect("routes");
            generation.instance().route(at, &batch, &mut decisions).expect("routes");
            assert_eq!(decisions, expected, "{name}, seed {seed}, call {call}");
            let row = LeavingRow {
                candidate: batch.candidates[0],
                signals: &batch.signals[..generation.plan().columns(at)],
                state: &expected.state[..generation.plan().state_words],
                text: batch.texts.get(0),
            };
            let to = ModelIndex(1 - at.0);
            let parcel = kept.send(at, to, row).expect("sends");
            let mut fresh = generation.instance();
            assert_eq!(fresh.send(at, to, row), Ok(parcel), "{name}, seed {seed}, call {call}");
            let mut fresh = generation.instance();
            assert_eq!(
                fresh.receive(to, at, &parcel),
                kept.receive(to, at, &parcel),
                "{name}, seed {seed}"
            );
        }
        assert_eq!(kept.counts().starts, 1, "{name}");
    }
}

/// What a row becomes does not depend on its neighbours.
#[test]
fn rows_of_a_batch_are_routed_one_by_one() {
    let seed = RandomState::new().build_hasher().finish();
    for name in NAMES {
        let generation = configure(name, &[]);
        let mut policy = generation.instance();
        let admission = policy.admit(&admitting(&[1]), &[]).expect("admits");
        let (columns, words) = (generation.plan().columns(SMALL), generation.plan().state_words);
        for call in 0..20 {
            let batch = batch(&generation, seed, call, SMALL, admission.state.words());
            let (mut together, mut alone) = (Decisions::default(), Decisions::default());
            policy.route(SMALL, &batch, &mut together).expect("routes");
            for row in 0..batch.rows() {
                let single = RouteBatch {
                    candidates: vec![batch.candidates[row]],
                    signals: batch.signals[row * columns..][..columns].to_vec(),
                    state: batch.state[row * words..][..words].to_vec(),
                    texts: (row < batch.texts.len())
                        .then(|| batch.texts.get(row))
                        .into_iter()
                        .collect(),
                };
                policy.route(SMALL, &single, &mut alone).expect("routes");
                assert_eq!(
                    alone.destinations,
                    together.destinations[row..=row],
                    "{name}, seed {seed}"
                );
                assert_eq!(
                    alone.state,
                    together.state[row * words..][..words],
                    "{name}, seed {seed}"
                );
            }
        }
    }
}
