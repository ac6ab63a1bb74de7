//! ME: every token's writer is drawn by weight, and every token is committed.

use tokenrouter_core::ModelIndex;
use tokenrouter_core::draw::{Purpose, uniform, uniform_f32};
use tokenrouter_core::policy::{Admitting, PolicyState};
use tokenrouter_core::signal::Signal;
use tokenrouter_policy::{Generation, PolicyError, PolicyInstance, Setting, Value};

use super::{Journey, configure, deployment, load, route};

/// The published ones, which are the default for three models.
const WEIGHTS: [f64; 3] = [0.5, 0.3, 0.2];

fn three(config: &[Setting]) -> Result<Generation, PolicyError> {
    load("me").configure(&deployment(&["small", "middle", "large"]), config)
}

fn weights(weights: &[f64]) -> Vec<Setting> {
    vec![Setting {
        name: "weights".to_owned(),
        value: Value::Numbers(weights.to_vec()),
    }]
}

/// Who writes position + 1 of a request with this seed, for each of the positions.
fn writers(policy: &mut PolicyInstance, at: ModelIndex, seed: u64, positions: std::ops::Range<u64>) -> Vec<u32> {
    let draws: Vec<[f32; 1]> = positions
        .map(|position| [uniform_f32(seed, position, Purpose::Policy(0))])
        .collect();
    let rows: Vec<&[f32]> = draws.iter().map(<[f32; 1]>::as_slice).collect();
    route(policy, at, &rows, &PolicyState::default()).0
}

fn first_writer(policy: &mut PolicyInstance, seed: u64) -> u32 {
    let request = Admitting {
        seed,
        prompt: &[1],
        max_tokens: 16,
        temperature: 1.0,
    };
    policy.admit(&request, &[]).expect("admits").model.0
}

fn chi_square(found: &[u32], expected: &[f64]) -> f64 {
    let total = f64::from(found.iter().sum::<u32>());
    let term = |(found, share): (&u32, &f64)| (f64::from(*found) - total * share).powi(2) / (total * share);
    found.iter().zip(expected).map(term).sum()
}

/// 60,000 draws: chi-square with 2 degrees of freedom is below its 99.99 % point, 18.4; from every model alike, and at
/// admission over seeds.
#[test]
fn shares_of_the_models_are_the_weights() {
    let mut policy = three(&[]).expect("three models").instance();
    for at in 0..3 {
        let mut counts = [0; 3];
        for seed in 0..600 {
            for writer in writers(&mut policy, ModelIndex(at), seed, 0..100) {
                counts[writer as usize] += 1;
            }
        }
        let chi_square = chi_square(&counts, &WEIGHTS);
        assert!(chi_square < 18.4, "at {at}: {counts:?}, {chi_square}");
    }
    let mut counts = [0; 3];
    for seed in 0..6000 {
        counts[first_writer(&mut policy, seed) as usize] += 1;
    }
    let chi_square = chi_square(&counts, &WEIGHTS);
    assert!(chi_square < 18.4, "at admission: {counts:?}, {chi_square}");
}

/// Models over four tokens, each sampling with a draw of its own: the tokens' law is the weighted mean of the models'.
/// 3 degrees of freedom, 99.99 % point 21.1.
#[test]
fn the_law_of_a_token_is_the_mixture() {
    const LAWS: [[f64; 4]; 3] = [[0.7, 0.1, 0.1, 0.1], [0.1, 0.6, 0.2, 0.1], [0.05, 0.05, 0.1, 0.8]];
    let mixture: Vec<f64> = (0..4)
        .map(|token| (0..3).map(|model| WEIGHTS[model] * LAWS[model][token]).sum())
        .collect();
    let mut policy = three(&[]).expect("three models").instance();
    let mut counts = [0; 4];
    for seed in 0..600 {
        let writers = writers(&mut policy, ModelIndex(0), seed, 0..100);
        for (position, writer) in (1..).zip(writers) {
            let draw = uniform(seed, position, Purpose::Sample(ModelIndex(writer)));
            let mut below = 0.0;
            let token = LAWS[writer as usize].iter().take_while(|p| {
                below += **p;
                below <= draw
            });
            counts[token.count().min(3)] += 1;
        }
    }
    let chi_square = chi_square(&counts, &mixture);
    assert!(chi_square < 21.1, "{counts:?} against {mixture:?}: {chi_square}");
}

/// Whoever wrote before, whatever else is in the batch, and in a fresh instance.
#[test]
fn a_draw_depends_on_seed_and_position_alone() {
    let generation = three(&[]).expect("three models");
    let mut policy = generation.instance();
    let expected = writers(&mut policy, ModelIndex(0), 7, 0..64);
    assert!([0, 1, 2].iter().all(|model| expected.contains(model)));
    for at in [1, 2] {
        assert_eq!(writers(&mut policy, ModelIndex(at), 7, 0..64), expected);
    }
    for (position, writer) in (0..).zip(&expected) {
        let alone = writers(&mut generation.instance(), ModelIndex(1), 7, position..position + 1);
        assert_eq!(alone, [*writer], "position {position}");
    }
    assert_ne!(writers(&mut policy, ModelIndex(0), 8, 0..64), expected);
    assert_eq!(
        first_writer(&mut policy, 7),
        first_writer(&mut generation.instance(), 7)
    );
}

#[test]
fn every_token_is_committed() {
    let generation = three(&[]).expect("three models");
    assert_eq!(generation.plan().signals, vec![vec![Signal::Uniform(0)]; 3]);
    let mut policy = generation.instance();
    let mut journey = Journey::begin(&mut policy, &[]);
    for (draw, writer) in [
        (0.9, 2),
        (0.6, 1),
        (0.1, 0),
        (0.499_999_97, 0),
        (0.5, 1),
        (0.800_000_1, 2),
    ] {
        assert_eq!(journey.step(&[draw], ""), (ModelIndex(writer), true), "draw {draw}");
    }
}

#[test]
fn weights_are_checked_against_the_deployment() {
    for (given, part) in [
        (&[0.5, 0.5][..], "has 2 numbers; the deployment has 3 models"),
        (&[0.5, 0.3, 0.1], "sum 0.9; it must be 1"),
        (&[1.5, 0.0, 0.0], "between 0 and 1"),
    ] {
        let error = three(&weights(given)).err();
        assert!(
            matches!(&error, Some(PolicyError::ConfigRefused { text }) if text.contains("weights") && text.contains(part)),
            "{error:?}"
        );
    }
    let mut last = three(&weights(&[0.0, 0.0, 1.0]))
        .expect("one model may write all")
        .instance();
    assert_eq!(writers(&mut last, ModelIndex(2), 1, 0..20), [2; 20]);
    let mut two = configure("me", &[]).instance();
    let draws = [0.499_999_97, 0.5].map(|draw| [draw]);
    let rows: Vec<&[f32]> = draws.iter().map(<[f32; 1]>::as_slice).collect();
    assert_eq!(
        route(&mut two, ModelIndex(0), &rows, &PolicyState::default()).0,
        [0, 1],
        "two models share alike"
    );
}
