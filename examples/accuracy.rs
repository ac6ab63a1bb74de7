//! What routing is worth: 300 problems over HTTP, answered by the small model alone, the large one alone, and both under
//! two policies, beside reference figures.
//!
//!     cargo run --release --example accuracy
//!     cargo run --release --example accuracy -- --url http://127.0.0.1:30000
//!
//! Without `--url` it serves the built-in deployment itself, at a free port of this machine, once for each policy. With
//! `--url` it asks a running server: the models alone and whatever policies it has.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, anyhow, bail};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde::Deserialize;
use serde_json::json;
use tokenrouter_host::deployment::{DeploymentFile, OptionValue};
use tokenrouter_host::http::auth::Keys;
use tokenrouter_host::http::{Access, App, Server};

/// Requests at a time: fills the batches of the built-in deployment.
const CONCURRENCY: usize = 32;

/// Share of the small model's steps that the policy `random` hands over.
const RANDOM_SHARE: f64 = 0.2;

/// Reference: the same models and rules outside of this server, in f32, on 1,000 other problems of the kind.
/// Percent right, and percent of the tokens from the large model.
const REFERENCE: [(&str, f64, f64); 4] = [
    ("tiny/small", 58.5, 0.0),
    ("tiny/large", 94.2, 100.0),
    ("tiny@r-stitch", 94.2, 2.8),
    ("tiny@random", 64.5, 20.0),
];

/// A problem and its right answer, step by step.
#[derive(Deserialize)]
struct Problem {
    prompt: String,
    worked: String,
}

/// An answer to all problems.
#[derive(Default)]
struct Tally {
    right: usize,
    tokens: u64,
    tokens_large: u64,
    handoffs: u64,
    seconds: f64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = url_argument()?;
    let problems = include_str!("../models/tiny/problems.jsonl")
        .lines()
        .map(serde_json::from_str);
    let problems: Vec<Problem> = problems.collect::<Result<_, _>>()?;
    println!(
        "{} problems, greedy, {CONCURRENCY} at a time; in brackets the reference on 1,000 problems\n",
        problems.len()
    );
    println!(
        "{:15} {:>16} {:>18} {:>19} {:>9}",
        "model", "right", "by the large", "handoffs/answer", "tokens/s"
    );
    match url {
        Some(url) => measure_all(&url, &problems).await?,
        None => {
            let built_in = DeploymentFile::built_in()?;
            let mut random = built_in.clone();
            random.policy.plugin = "random".to_owned();
            random.policy.options = [("share".to_owned(), OptionValue::Number(RANDOM_SHARE))].into();
            for (file, models) in [(built_in, &REFERENCE[..3]), (random, &REFERENCE[3..])] {
                let url = serve(file).await?;
                for (model, ..) in models {
                    measure(&url, model, &problems).await?;
                }
            }
        }
    }
    Ok(())
}

/// The value of `--url`, if it was given.
fn url_argument() -> anyhow::Result<Option<String>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [] => Ok(None),
        [option, url] if option == "--url" => Ok(Some(url.trim_end_matches('/').to_owned())),
        _ => bail!("usage: accuracy [--url http://HOST:PORT]"),
    }
}

/// Serves a deployment at a free port until the program ends.
async fn serve(mut file: DeploymentFile) -> anyhow::Result<String> {
    file.server.listen = "127.0.0.1:0".to_owned();
    let app = Arc::new(App::start(&file, file.load()?)?);
    let access = Access::read(&file.server, &file.base, Keys::default())?;
    let server = Server::bind(file.server.clone(), access.clone()).await?;
    server.gate().open(app, &access);
    let url = format!("http://{}", server.local_addr());
    tokio::spawn(server.run(std::future::pending(), std::future::pending()));
    Ok(url)
}

/// Every name of a server, but for the one that stands for its default policy.
async fn measure_all(url: &str, problems: &[Problem]) -> anyhow::Result<()> {
    let list: serde_json::Value = reqwest::get(format!("{url}/v1/models")).await?.json().await?;
    let models = list["data"].as_array().context("no list of models")?;
    for model in models
        .iter()
        .filter_map(|model| model["id"].as_str())
        .filter(|id| id.contains(['/', '@']))
    {
        measure(url, model, problems).await?;
    }
    Ok(())
}

async fn measure(url: &str, model: &str, problems: &[Problem]) -> anyhow::Result<()> {
    let client = reqwest::Client::new();
    let started = Instant::now();
    let answers = stream::iter(problems)
        .map(|problem| ask(&client, url, model, problem))
        .buffer_unordered(CONCURRENCY);
    let mut tally = answers
        .try_fold(Tally::default(), async |sum, one| {
            Ok(Tally {
                right: sum.right + one.right,
                tokens: sum.tokens + one.tokens,
                tokens_large: sum.tokens_large + one.tokens_large,
                handoffs: sum.handoffs + one.handoffs,
                seconds: 0.0,
            })
        })
        .await?;
    tally.seconds = started.elapsed().as_secs_f64();
    print(model, problems.len(), &tally);
    Ok(())
}

async fn ask(client: &reqwest::Client, url: &str, model: &str, problem: &Problem) -> anyhow::Result<Tally> {
    let body = json!({ "model": model, "prompt": problem.prompt, "max_tokens": 64, "temperature": 0 });
    let response = client.post(format!("{url}/v1/completions")).json(&body).send().await?;
    let answer: serde_json::Value = response.json().await?;
    let text = answer["choices"][0]["text"]
        .as_str()
        .ok_or_else(|| anyhow!("{model} does not answer: {answer}"))?;
    let count = |value: &serde_json::Value| value.as_u64().with_context(|| format!("a count is missing: {answer}"));
    Ok(Tally {
        right: usize::from(text == problem.worked),
        tokens: count(&answer["usage"]["completion_tokens"])?,
        tokens_large: count(&answer["usage"]["tokenrouter"]["tokens_by_model"]["large"])?,
        handoffs: count(&answer["usage"]["tokenrouter"]["handoffs"])?,
        seconds: 0.0,
    })
}

fn print(model: &str, problems: usize, tally: &Tally) {
    let right = 100.0 * tally.right as f64 / problems as f64;
    let large = 100.0 * tally.tokens_large as f64 / tally.tokens as f64;
    let handoffs = tally.handoffs as f64 / problems as f64;
    let rate = tally.tokens as f64 / tally.seconds;
    let reference = REFERENCE.iter().find(|(name, ..)| *name == model);
    let [right_then, large_then] = match reference {
        Some((_, right, large)) => [right, large].map(|percent| format!("({percent:.1} %)")),
        None => [String::new(), String::new()],
    };
    println!("{model:15} {right:5.1} % {right_then:>9} {large:7.1} % {large_then:>9} {handoffs:18.2} {rate:9.0}");
}
