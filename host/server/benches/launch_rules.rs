//! Tokens per second of the default deployment's models under every launch rule, measured one after the other in one run.
//! The random policy hands over 35 % of the small model's steps, as in the paper's setting. Requests run in a closed loop: when
//! one ends, the next is submitted. Before that: how much of each model alone remains when both are busy, without routing.
//!
//! `cargo bench --bench launch_rules` (about a minute); `-- SECONDS` for longer runs of each setting.

#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::time::{Duration, Instant};

use tokenrouter_core::ModelIndex;
use tokenrouter_engine::stream::Event;
use tokenrouter_engine::{Engine, Job, Target};
use tokenrouter_host::deployment::{DeploymentFile, Launch, OptionValue};
use tokenrouter_model::runner::Sampling;

const RULES: [&str; 6] = [
    "step-sync",
    "model-sync",
    "eager",
    "threshold:1,3",
    "threshold",
    "lookahead",
];
const CONCURRENCY: [usize; 4] = [1, 4, 8, 16];
/// Times that every setting is measured; the rules take turns, so that a drift of the machine meets all alike.
const ROUNDS: usize = 3;

fn main() {
    let seconds = std::env::args()
        .find_map(|argument| argument.parse::<f64>().ok())
        .unwrap_or(0.8);
    let engines: Vec<Engine> = RULES.iter().map(|rule| start(rule)).collect();
    overlap(&start("eager"), Duration::from_secs_f64(seconds));
    println!(
        "tokens/s, median of {ROUNDS} runs of {seconds} s each; in brackets: ratio to step-sync; mean batch small/large"
    );
    println!("{:>3}  {}", "N", RULES.map(|rule| format!("{rule:>26}")).join(" "));
    for n in CONCURRENCY {
        let mut rates = vec![Vec::new(); RULES.len()];
        let mut batches = vec![(0.0, 0.0); RULES.len()];
        for _ in 0..ROUNDS {
            for (index, engine) in engines.iter().enumerate() {
                let before = batch_counts(engine);
                rates[index].push(closed_loop(
                    engine,
                    &Target::Default,
                    n,
                    Duration::from_secs_f64(seconds),
                ));
                let after = batch_counts(engine);
                let mean = |model: usize| (after[model].0 - before[model].0) / (after[model].1 - before[model].1);
                batches[index] = (mean(0), mean(1));
            }
        }
        let medians: Vec<f64> = rates.iter_mut().map(|rates| median(rates)).collect();
        let cells = medians.iter().zip(&batches).map(|(rate, (small, large))| {
            format!(
                "{:>26}",
                format!("{rate:.0} ({:.2}x) {small:.1}/{large:.1}", rate / medians[0])
            )
        });
        println!("{n:>3}  {}", cells.collect::<Vec<_>>().join(" "));
    }
}

fn start(rule: &str) -> Engine {
    let mut file = DeploymentFile::built_in().expect("the built-in deployment is valid");
    file.policy.plugin = "random".to_owned();
    file.policy.options = [("share".to_owned(), OptionValue::Number(0.35))].into();
    file.launch.rule = rule.parse::<Launch>().expect("a launch rule");
    let loaded = file.load().expect("the built-in deployment loads");
    Engine::start(loaded.parts).expect("the engine starts")
}

/// Requests that each stay at one model: both models at once against each alone.
fn overlap(engine: &Engine, time: Duration) {
    const CLIENTS: usize = 4;
    let (small, large) = (Target::Model(ModelIndex(0)), Target::Model(ModelIndex(1)));
    let alone = [&small, &large].map(|target| closed_loop(engine, target, CLIENTS, time));
    let both = std::thread::scope(|scope| {
        let other = scope.spawn(|| closed_loop(engine, &small, CLIENTS, time));
        let large = closed_loop(engine, &large, CLIENTS, time);
        [other.join().expect("a client does not panic"), large]
    });
    println!("two models on this machine's cores, {CLIENTS} requests each, tokens/s alone and with both busy:");
    for (name, (alone, both)) in ["small", "large"].iter().zip(alone.iter().zip(&both)) {
        println!("  {name} {alone:.0} -> {both:.0} ({:.2}x)", both / alone);
    }
}

/// (rows, steps) of each model.
fn batch_counts(engine: &Engine) -> Vec<(f64, f64)> {
    engine
        .stats()
        .models
        .iter()
        .map(|model| (model.rows as f64, model.steps as f64))
        .collect()
}

/// `n` clients that each submit one request after the other. Returns tokens per second.
fn closed_loop(engine: &Engine, target: &Target, n: usize, time: Duration) -> f64 {
    let start = Instant::now();
    let tokens: u64 = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..n)
            .map(|client| scope.spawn(move || run_client(engine, target, client, start + time)))
            .collect();
        clients
            .into_iter()
            .map(|client| client.join().expect("a client does not panic"))
            .sum()
    });
    tokens as f64 / start.elapsed().as_secs_f64()
}

fn run_client(engine: &Engine, target: &Target, client: usize, until: Instant) -> u64 {
    let mut tokens = 0;
    for request in 0.. {
        if Instant::now() >= until {
            break;
        }
        let number = client * 1_000 + request;
        let problem = format!(
            "{:02}-{:02}-{:02}*02-{:02}=",
            number % 100,
            number / 3 % 100,
            number / 7 % 100,
            number % 97
        );
        let job = Job {
            prompt: engine
                .tokenizer()
                .encode_prompt(&problem)
                .expect("digits and operators"),
            max_tokens: 64,
            sampling: Sampling::GREEDY,
            seed: number as u64,
            target: target.clone(),
            ..Job::default()
        };
        let mut stream = engine.submit(&job).expect("the engine takes the job");
        while let Some(event) = stream.next_blocking() {
            if let Event::End(ended) = event {
                tokens += u64::from(ended.answer_tokens);
            }
        }
    }
    tokens
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
