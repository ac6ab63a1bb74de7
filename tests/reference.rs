//! The engine against the sequential reference router, with the real models and every policy that needs no head.
//! `tests/matrices.rs` holds the reference router to the policies' publications.

use std::path::Path;

use crate::common::reference::{Commit, Reference, arithmetic_job};
use tokenrouter_core::ModelIndex;
use tokenrouter_engine::stream::{AnswerStream, Event};
use tokenrouter_engine::{Engine, Job};
use tokenrouter_host::deployment::{DeploymentFile, Launch, OptionValue};
use tokenrouter_policy::{Setting, Value};

const RULES: [&str; 6] = [
    "eager",
    "threshold:1,3",
    "threshold",
    "lookahead",
    "step-sync",
    "model-sync",
];
const CONCURRENCY: usize = 8;
const JOBS: u32 = 16;

/// A policy with its options, and an option that some requests set for themselves.
struct Subject {
    policy: &'static str,
    options: Vec<(&'static str, OptionValue)>,
    request: Option<(&'static str, f64)>,
}

fn number(value: f64) -> OptionValue {
    OptionValue::Number(value)
}

fn text(value: &str) -> OptionValue {
    OptionValue::Text(value.to_owned())
}

/// The built-in deployment with two models, or the one with three.
fn deployment(three: bool, subject: &Subject, rule: &str) -> DeploymentFile {
    let mut file = if three {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/tiny-three.toml");
        DeploymentFile::read(&path).expect("config/tiny-three.toml")
    } else {
        DeploymentFile::built_in().expect("the built-in deployment")
    };
    file.policy.plugin = subject.policy.to_owned();
    file.policy.options = subject
        .options
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()))
        .collect();
    file.launch.rule = rule.parse::<Launch>().expect("a launch rule");
    file
}

/// Every third request sets the option that requests may set.
fn jobs(engine: &Engine, subject: &Subject) -> Vec<Job> {
    let job = |number: u32| {
        let mut job = arithmetic_job(engine.tokenizer(), number);
        if let Some((name, value)) = subject.request.filter(|_| number.is_multiple_of(3)) {
            job.options.push(Setting {
                name: name.to_owned(),
                value: Value::Number(value),
            });
        }
        job
    };
    (0..JOBS).map(job).collect()
}

fn read(mut stream: AnswerStream) -> Vec<Commit> {
    let mut commits = Vec::new();
    while let Some(event) = stream.next_blocking() {
        if let Event::Piece { tokens, .. } = event {
            commits.extend(tokens.iter().map(|written| Commit {
                token: written.token,
                model: written.model,
                logprob: written.logprobs.as_ref().expect("asked for").logprob,
            }));
        }
    }
    commits
}

/// All jobs, `CONCURRENCY` at a time.
fn engine_answers(engine: &Engine, jobs: &[Job]) -> Vec<Vec<Commit>> {
    let mut answers = Vec::new();
    for together in jobs.chunks(CONCURRENCY) {
        let streams: Vec<_> = together.iter().map(|job| engine.submit(job).expect("taken")).collect();
        answers.extend(streams.into_iter().map(read));
    }
    answers
}

fn check(three: bool, subject: &Subject) {
    let mut reference = Reference::new(&deployment(three, subject, "eager"));
    let mut expected: Option<Vec<Vec<Commit>>> = None;
    for rule in RULES {
        let rule = if three {
            rule.replace(":1,3", ":1,2,3")
        } else {
            rule.to_owned()
        };
        let loaded = deployment(three, subject, &rule).load().expect("the deployment loads");
        let engine = Engine::start(loaded.parts).expect("the engine starts");
        let jobs = jobs(&engine, subject);
        let expected = expected.get_or_insert_with(|| jobs.iter().map(|job| reference.answer(job)).collect());
        for model in 0..reference.models() as u32 {
            let written = expected
                .iter()
                .flatten()
                .filter(|commit| commit.model == ModelIndex(model))
                .count();
            assert!(
                written > 10,
                "{}: model {model} writes only {written} tokens",
                subject.policy
            );
        }
        assert_eq!(
            engine_answers(&engine, &jobs),
            *expected,
            "{} under {rule}",
            subject.policy
        );
    }
}

#[test]
fn schedule_independence_of_r_stitch_against_the_sequential_reference() {
    check(
        false,
        &Subject {
            policy: "r-stitch",
            options: vec![("unit", text("nats")), ("threshold", number(0.2))],
            request: Some(("threshold", 0.05)),
        },
    );
}

#[test]
fn schedule_independence_of_random_against_the_sequential_reference() {
    check(
        false,
        &Subject {
            policy: "random",
            options: vec![("share", number(0.35))],
            request: Some(("share", 0.8)),
        },
    );
}

#[test]
fn schedule_independence_of_r2r_by_entropy_against_the_sequential_reference() {
    check(
        false,
        &Subject {
            policy: "r2r",
            options: vec![("signal", text("entropy"))],
            request: Some(("threshold", 0.1)),
        },
    );
}

#[test]
fn schedule_independence_of_r2r_by_aleatoric_uncertainty_against_the_sequential_reference() {
    check(
        false,
        &Subject {
            policy: "r2r",
            // The logits of these models are smaller than those the published threshold was made for.
            options: vec![("signal", text("aleatoric")), ("threshold", number(1.0))],
            request: None,
        },
    );
}

/// Steps of at most four tokens, since these models write no blank lines.
#[test]
fn schedule_independence_of_glimprouter_against_the_sequential_reference() {
    check(
        false,
        &Subject {
            policy: "glimprouter",
            options: vec![("threshold", number(0.1)), ("step-tokens-max", number(4.0))],
            request: Some(("thinking-tokens-max", 8.0)),
        },
    );
}

#[test]
fn schedule_independence_of_request_level_against_the_sequential_reference() {
    check(
        false,
        &Subject {
            policy: "request-level",
            options: vec![],
            request: Some(("share", 0.9)),
        },
    );
}

#[test]
fn schedule_independence_of_me_on_two_models_against_the_sequential_reference() {
    check(
        false,
        &Subject {
            policy: "me",
            options: vec![],
            request: None,
        },
    );
}

#[test]
fn schedule_independence_of_me_on_three_models_against_the_sequential_reference() {
    check(
        true,
        &Subject {
            policy: "me",
            options: vec![("weights", OptionValue::Numbers(vec![0.5, 0.3, 0.2]))],
            request: None,
        },
    );
}
