//! Optimistic handoff with real models and real policies: the engine that decodes ahead against the sequential reference
//! router, token for token, greedy and sampled.

use std::path::Path;

use tokenrouter_core::ahead::AheadCounts;
use tokenrouter_engine::stream::{AnswerStream, Event, Handoff, Written};
use tokenrouter_engine::{Engine, Job};
use tokenrouter_host::deployment::{DeploymentFile, Launch, OptimisticSetting, OptionValue};
use tokenrouter_model::Penalties;

use crate::common::reference::{Reference, arithmetic_job};

const JOBS: u32 = 24;
const CONCURRENCY: usize = 6;
const SETTINGS: [[&str; 2]; 5] = [
    ["eager", "off"],
    ["eager", "window:1"],
    ["lookahead", "window:16"],
    ["threshold:1,3", "window:4"],
    ["lookahead", "auto"],
];

fn deployment(policy: &str, options: &[(&str, OptionValue)], [rule, optimistic]: [&str; 2]) -> DeploymentFile {
    let mut file = DeploymentFile::built_in().expect("the built-in deployment");
    policy.clone_into(&mut file.policy.plugin);
    let options = options.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    file.policy.options = options.collect();
    file.launch.rule = rule.parse::<Launch>().expect("a launch rule");
    file.launch.optimistic = OptimisticSetting(optimistic.parse().expect("a setting"));
    file
}

/// Greedy and sampled, short and long, with tokens that end them. Every fourth keeps what makes a request wait: penalties, biases,
/// bans and log-probabilities. Every second asks for all that can be told of it.
fn job(engine: &Engine, number: u32) -> Job {
    let told = number.is_multiple_of(2);
    let job = Job {
        attribution: told,
        steps: told,
        assumed: told,
        ..arithmetic_job(engine.tokenizer(), number)
    };
    if number.is_multiple_of(4) {
        return job;
    }
    Job {
        penalties: Penalties::NONE,
        logit_bias: Vec::new(),
        min_tokens: 0,
        logprobs: None,
        ..job
    }
}

/// All that an answer says of itself, but what was assumed.
#[derive(Clone, Debug, Default, PartialEq)]
struct Told {
    text: String,
    /// With the steps behind them.
    tokens: Vec<Written>,
    handoffs: u32,
    handoff_log: Vec<Handoff>,
}

fn read(mut stream: AnswerStream) -> Told {
    let mut told = Told::default();
    while let Some(event) = stream.next_blocking() {
        match event {
            Event::Piece { text, tokens, .. } => {
                told.text += &text;
                told.tokens.extend(tokens);
            }
            Event::End(ended) => (told.handoffs, told.handoff_log) = (ended.handoffs, ended.handoff_log),
        }
    }
    told
}

/// Every setting gives the reference's tokens and models, and everything else as without decoding ahead: handoffs, and the steps
/// with their signals.
fn check(policy: &str, options: &[(&str, OptionValue)]) {
    let mut reference = Reference::new(&deployment(policy, options, SETTINGS[0]));
    let (mut expected, mut before) = (Vec::new(), None);
    for setting in SETTINGS {
        let loaded = deployment(policy, options, setting).load().expect("it loads");
        let engine = Engine::start(loaded.parts).expect("it starts");
        let jobs: Vec<Job> = (0..JOBS).map(|number| job(&engine, number)).collect();
        if expected.is_empty() {
            let commits = |job| {
                reference
                    .answer(job)
                    .iter()
                    .map(|commit| (commit.token, commit.model.0))
                    .collect()
            };
            expected = jobs.iter().map(commits).collect::<Vec<Vec<_>>>();
        }
        let mut found = Vec::new();
        for together in jobs.chunks(CONCURRENCY) {
            let streams: Vec<_> = together.iter().map(|job| engine.submit(job).expect("taken")).collect();
            found.extend(streams.into_iter().map(read));
        }
        for (number, (told, expected)) in found.iter().zip(&expected).enumerate() {
            let commits: Vec<_> = (told.tokens.iter())
                .map(|written| (written.token, written.model.0))
                .collect();
            assert_eq!(commits, *expected, "{policy}, {setting:?}, job {number}");
        }
        for (number, (told, before)) in found
            .iter()
            .zip(before.get_or_insert_with(|| found.clone()))
            .enumerate()
        {
            assert_eq!(told, before, "{policy}, {setting:?}, job {number}");
        }
        let ahead: Vec<AheadCounts> = engine.stats().models.iter().map(|model| model.ahead).collect();
        let (small, large) = (ahead[0], ahead[1]);
        if setting[1].starts_with("window") {
            assert!(
                small.written > 10 && large.confirmed > 5 && large.settled > large.confirmed,
                "{policy}, {setting:?}: {ahead:?} shows nothing"
            );
        }
        if setting[1] == "off" {
            assert_eq!(ahead, [AheadCounts::default(); 2]);
        }
    }
}

#[test]
fn optimistic_answers_of_random_are_those_of_the_sequential_reference() {
    check("random", &[("share", OptionValue::Number(0.35))]);
}

#[test]
fn optimistic_answers_of_r_stitch_are_those_of_the_sequential_reference() {
    check(
        "r-stitch",
        &[
            ("unit", OptionValue::Text("nats".to_owned())),
            ("threshold", OptionValue::Number(0.2)),
        ],
    );
}

/// Models that are clocks take the steps that decoding ahead makes: the server can be measured with it, too.
#[test]
fn simulated_models_write_ahead_and_go_back() {
    let text = include_str!("../config/simulated.toml")
        .replace("simulated:4.8", "simulated:0.2")
        .replace("simulated:25.1", "simulated:0.8")
        .replace("share = 0.05", "share = 0.35");
    let answers = ["off", "window:4"].map(|setting| {
        let mut file = DeploymentFile::parse(&text, "simulated.toml", Path::new(".")).expect("a deployment");
        file.launch.optimistic = OptimisticSetting(setting.parse().expect("a setting"));
        let engine = Engine::start(file.load().expect("it loads").parts).expect("it starts");
        let jobs = (0..JOBS).map(|number| job(&engine, number));
        let streams: Vec<_> = jobs.map(|job| engine.submit(&job).expect("taken")).collect();
        let told: Vec<Told> = streams.into_iter().map(read).collect();
        (told, engine.stats().models[1].ahead)
    });
    let [(off, _), (ahead, settled)] = answers;
    assert!(settled.settled > settled.confirmed, "{settled:?}: nothing was dropped");
    assert_eq!(off, ahead);
}
