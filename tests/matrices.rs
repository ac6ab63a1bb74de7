//! The routing matrix P and the commit matrix C of every policy, measured on the embedded models. C, the
//! tokens that a step of model i commits when model j goes on, is exact; P is where steps lead.
//! `cargo test --release --test program matrices:: -- --nocapture` prints them.

use std::path::Path;

use serde_json::{Value, json};

use crate::common::reference::{Moves, Reference, arithmetic_job};
use crate::common::{Server, not_hanging, problems, wait_for_info};
use tokenrouter_host::deployment::{DeploymentFile, OptionValue};

const JOBS: u32 = 20;

fn measure(three: bool, policy: &str, options: &[(&str, OptionValue)]) -> (Moves, usize) {
    let mut file = if three {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/tiny-three.toml");
        DeploymentFile::read(&path).expect("config/tiny-three.toml")
    } else {
        DeploymentFile::built_in().expect("the built-in deployment")
    };
    file.policy.plugin = policy.to_owned();
    file.policy.options = options
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()))
        .collect();
    let mut reference = Reference::new(&file);
    let tokenizer = reference.tokenizer().clone();
    for number in 0..JOBS {
        reference.answer(&arithmetic_job(&tokenizer, number));
    }
    (reference.moves.clone(), reference.models())
}

#[expect(clippy::print_stdout, reason = "the figures are what one runs this for")]
fn print(policy: &str, moves: &Moves, models: usize) {
    println!("{policy}");
    for (from, (to, commits)) in moves.routing(models).iter().zip(moves.commits(models)).enumerate() {
        let row = |cells: Vec<String>| cells.join(" ");
        let p = row(to.iter().map(|p| format!("{p:.3}")).collect());
        let c = row(commits
            .iter()
            .map(|c| c.map_or("-".to_owned(), |c| format!("{c:.0}")))
            .collect());
        println!("  {} steps of model {from}: P {p}, C {c}", moves.steps(from));
    }
}

/// Every move that was made committed what the table says, and all moves of the table were made.
fn assert_commits(policy: &str, moves: &Moves, expected: &[&[Option<f64>]]) {
    print(policy, moves, expected.len());
    assert_eq!(moves.commits(expected.len()), expected, "C of {policy}");
}

/// A share measured over `steps` is within four standard deviations of `p`.
fn assert_share(what: &str, found: f64, p: f64, steps: u32) {
    let deviation = (p * (1.0 - p) / f64::from(steps)).sqrt();
    assert!(
        (found - p).abs() <= 4.0 * deviation,
        "{what}: {found} of {steps} steps, expected {p} with standard deviation {deviation}"
    );
}

const ONE: Option<f64> = Some(1.0);
const NONE: Option<f64> = Some(0.0);
/// A move that is never made.
const NEVER: Option<f64> = None;

#[test]
fn random_hands_over_with_its_share_and_back_after_one_token() {
    let share = 0.35;
    let (moves, _) = measure(false, "random", &[("share", OptionValue::Number(share))]);
    assert_commits("random", &moves, &[&[ONE, NONE], &[ONE, NEVER]]);
    let p = moves.routing(2);
    assert_share("random", p[0][1], share, moves.steps(0));
    assert_eq!(p[1], [1.0, 0.0]);
}

#[test]
fn r2r_discards_at_the_small_model_and_commits_one_token_at_the_large_one() {
    for (signal, threshold) in [("entropy", 0.45), ("aleatoric", 1.0)] {
        let options = [
            ("signal", OptionValue::Text(signal.to_owned())),
            ("threshold", OptionValue::Number(threshold)),
        ];
        let (moves, _) = measure(false, "r2r", &options);
        assert_commits(&format!("r2r, {signal}"), &moves, &[&[ONE, NONE], &[ONE, NEVER]]);
        assert_eq!(moves.routing(2)[1], [1.0, 0.0]);
    }
}

#[test]
fn r_stitch_commits_every_token_of_the_large_model() {
    let options = [
        ("unit", OptionValue::Text("nats".to_owned())),
        ("threshold", OptionValue::Number(0.0005)),
    ];
    let (moves, _) = measure(false, "r-stitch", &options);
    assert_commits("r-stitch", &moves, &[&[ONE, NONE], &[ONE, ONE]]);
}

#[test]
fn me_leads_from_every_model_to_each_with_its_weight_and_commits_all() {
    let weights = [0.5, 0.3, 0.2];
    let options = [("weights", OptionValue::Numbers(weights.to_vec()))];
    let (moves, models) = measure(true, "me", &options);
    assert_commits("me", &moves, &[&[ONE; 3][..]; 3]);
    for (from, row) in moves.routing(models).iter().enumerate() {
        for (to, (found, weight)) in row.iter().zip(weights).enumerate() {
            assert_share(&format!("me, {from} to {to}"), *found, weight, moves.steps(from));
        }
    }
}

#[test]
fn request_level_never_moves() {
    let (moves, _) = measure(false, "request-level", &[]);
    assert_commits("request-level", &moves, &[&[ONE, NEVER], &[NEVER, ONE]]);
}

/// At a step's beginning the small model's token is discarded, and everything else is committed.
#[test]
fn glimprouter_commits_all_but_the_glimpse() {
    let options = [
        ("threshold", OptionValue::Number(0.02)),
        ("step-tokens-max", OptionValue::Number(4.0)),
    ];
    let (moves, _) = measure(false, "glimprouter", &options);
    assert_commits("glimprouter", &moves, &[&[ONE, NONE], &[ONE, ONE]]);
    // Steps of four tokens: at most every fourth step of the large model hands back; an answer may end before.
    let back = moves.routing(2)[1][0];
    assert!(back <= 0.25, "{back}");
}

/// Policies with a head, on a server, with the heads that come with the binary. P is [[1 - p, p], [1, 0]] and C [[1, 0], [1, 0]]
/// exactly if these sums are right: a step of the small model commits its token or hands over, and one of the large model
/// does both at once, or ends the answer.
#[tokio::test]
#[expect(clippy::print_stdout, reason = "the figures are what one runs this for")]
async fn policies_with_a_head_discard_at_the_small_model_and_commit_one_token_at_the_large_one() {
    for (policy, threshold) in [("r2r", 0.05), ("citer", 0.98), ("co-llm", 0.02)] {
        let option = format!("threshold={threshold}");
        let server = Server::start(&["--plugin", policy, "--plugin-config", &option]);
        let mut ended_at_large = 0;
        for problem in problems().iter().take(JOBS as usize) {
            let body = json!({
                "model": "tiny", "prompt": problem.prompt, "max_tokens": 64, "temperature": 0,
                "tokenrouter": { "attribution": true },
            });
            let answer = not_hanging(policy, server.complete(&body)).await.json();
            let tokens = answer["choices"][0]["attribution"].as_array().expect("a list");
            ended_at_large += u64::from(tokens.last().is_some_and(|token| token["model"] == "large"));
        }
        let number = |info: &Value, model: usize, name: &str| {
            let stats = &info["stats"]["models"][model];
            stats[name].as_u64().unwrap_or_else(|| panic!("no {name} in {stats}"))
        };
        let counts = |info: &Value| {
            let of = |model| ["rows", "tokens_written", "handoffs_out"].map(|name| number(info, model, name));
            (of(0), of(1))
        };
        // Counters follow a step, which may still be ending when its client has read the answer.
        wait_for_info(&server, "the sums of the table", |info| {
            let ([rows, written, left], large) = counts(info);
            left > 0 && rows == written + left && large == [left, left, left - ended_at_large]
        })
        .await;
        let ([rows, written, left], [large_rows, ..]) = counts(&server.info().await);
        println!(
            "{policy}, {option}\n  {rows} steps of model 0: P {:.3} {:.3}, C 1 0\n  {large_rows} steps of model 1: P 1.000 0.000, C 1 -",
            written as f64 / rows as f64,
            left as f64 / rows as f64
        );
    }
}
