//! Both models on one device behind the engine: random routing, several launch rules, a closed loop of requests.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::json;
use tokenrouter_core::ModelIndex;
use tokenrouter_core::policy::FailureMode;
use tokenrouter_engine::stream::Event;
use tokenrouter_engine::{Engine, EngineLimits, EngineModel, EngineParts, Finish, Job, Optimistic};
use tokenrouter_host::deployment::{Launch, OptionValue, Plugin, configure};
use tokenrouter_model::Sampling;
use tokenrouter_model::cuda::{CudaOptions, CudaRunner, Device};
use tokenrouter_model::random::RandomSizes;
use tokenrouter_model::text::Tokenizer;
use tokenrouter_policy::{Deployment, ModelFacts};

use super::report::Report;
use crate::cli::table::Table;

/// Shares of the small model's steps that the large one takes over.
const SHARES: [f64; 2] = [0.35, 0.1];
const RULES: [&str; 4] = ["model-sync", "eager", "threshold", "lookahead"];
/// Requests at a time, and what the TokenRouter paper (arXiv 2610.12242) reports for its delayed batching at a share near
/// 0.35 on two A100, tokens per second.
const CONCURRENCY: [(usize, f64); 4] = [(1, 73.0), (4, 210.6), (8, 372.5), (16, 630.6)];
/// How long each setting runs, and how much of its beginning does not count: prompts are fed to both models then.
const TIME: Duration = Duration::from_millis(4_200);
const WARM_UP: Duration = Duration::from_millis(1_700);
const PROMPT_TOKENS: u32 = 200;
const ANSWER_TOKENS: u32 = 400;
const KV_TOKENS: usize = 16_384;

pub(super) fn run(device: &Device, report: &mut Report) -> anyhow::Result<()> {
    report.heading("Qwen3-0.6B and Qwen3-32B on one device, random weights, random routing: tokens/s")?;
    let headings = [
        "p",
        "N",
        "launch",
        "tokens/s",
        "per user",
        "rows a step",
        "of the bound",
        "paper, 2 A100",
    ];
    let mut table = Table::new(headings.map(str::to_owned).to_vec());
    for share in SHARES {
        for rule in RULES {
            // An engine owns its models; random ones are made again in a second or two.
            let (engine, bytes) = start(device, share, rule)?;
            for (n, paper) in CONCURRENCY {
                let measured = measure(&engine, n)?;
                // The least time of a token: one step of the small model and `share` of one of the large, each shared by all N.
                let bound = report
                    .bandwidth
                    .map(|rate| n as f64 * rate / (bytes[0] + share * bytes[1]));
                let part = bound.map(|bound| measured.tokens_per_s / bound);
                table.push(vec![
                    share.to_string(),
                    n.to_string(),
                    rule.to_owned(),
                    format!("{:.1}", measured.tokens_per_s),
                    format!("{:.1}", measured.tokens_per_s / n as f64),
                    format!("{:.2} / {:.2}", measured.rows[0], measured.rows[1]),
                    part.map_or("-".to_owned(), |part| format!("{:.0} %", part * 100.0)),
                    if share == SHARES[0] {
                        paper.to_string()
                    } else {
                        "-".to_owned()
                    },
                ]);
                report.measured(json!({
                    "part": "serving", "p": share, "n": n, "launch": rule, "tokens_per_s": measured.tokens_per_s,
                    "rows_per_step": measured.rows, "share_of_bound": part,
                }));
            }
        }
    }
    Ok(report.table(&table)?)
}

/// Both models behind an engine, and the bytes that a step of each reads.
fn start(device: &Device, share: f64, rule: &str) -> anyhow::Result<(Engine, [f64; 2])> {
    let mut models = Vec::new();
    let mut bytes = [0.0; 2];
    for (index, (name, sizes)) in [("small", RandomSizes::QWEN3_0_6B), ("large", RandomSizes::QWEN3_32B)]
        .into_iter()
        .enumerate()
    {
        let seed = index as u64 * 1_000 + 1;
        let runner = CudaRunner::random(
            device,
            &sizes.config()?,
            seed,
            ModelIndex(index as u32),
            CudaOptions::default(),
        )?;
        bytes[index] = runner.streamed_bytes() as f64;
        models.push(EngineModel {
            name: name.to_owned(),
            runner: Box::new(runner),
        });
    }
    let facts = |model: &EngineModel| ModelFacts {
        name: model.name.clone(),
        parameters: model.runner.info().parameters,
        vocabulary: model.runner.info().vocabulary,
    };
    let deployment = Deployment {
        name: "check".to_owned(),
        models: models.iter().map(facts).collect(),
        heads: Vec::new(),
    };
    let Plugin::Component {
        given,
        bytes: component,
    } = Plugin::find("random", Path::new(""))?
    else {
        anyhow::bail!("the binary has no policy \"random\"");
    };
    let options = BTreeMap::from([("share".to_owned(), OptionValue::Number(share))]);
    let generation = configure(given, &component, &deployment, &options)?;
    let parts = EngineParts {
        models,
        tokenizer: tokenizer(RandomSizes::QWEN3_0_6B.vocabulary)?,
        policies: vec![("random".to_owned(), generation)],
        on_fault: FailureMode::Fail,
        rule: rule.parse::<Launch>()?.0,
        optimistic: Optimistic::Off,
        limits: EngineLimits {
            kv_tokens: KV_TOKENS,
            ..EngineLimits::default()
        },
        trace: None,
    };
    Ok((Engine::start(parts)?, bytes))
}

/// A tokenizer whose tokens are words without meaning, since random models write nothing else.
fn tokenizer(vocabulary: usize) -> anyhow::Result<Tokenizer> {
    let words: serde_json::Map<String, serde_json::Value> =
        (0..vocabulary).map(|id| (format!("w{id} "), json!(id))).collect();
    let json = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": null, "post_processor": null, "decoder": { "type": "Fuse" },
        "model": { "type": "WordLevel", "vocab": words, "unk_token": "w0 " },
    });
    Ok(Tokenizer::from_bytes(json.to_string().as_bytes(), None, &[])?)
}

struct Measured {
    tokens_per_s: f64,
    /// Mean rows a step of each model.
    rows: [f64; 2],
}

/// Tokens of `n` clients that each ask for one answer after the other, between the end of the warm-up and the end.
fn measure(engine: &Engine, n: usize) -> anyhow::Result<Measured> {
    let start = Instant::now();
    let (from, until) = (start + WARM_UP, start + TIME);
    let counted = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..n)
            .map(|client| scope.spawn(move || ask(engine, client, from, until)))
            .collect();
        std::thread::sleep(from.saturating_duration_since(Instant::now()));
        let before = engine.stats();
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        let after = engine.stats();
        let mut tokens = 0;
        for client in clients {
            tokens += client.join().map_err(|_| anyhow::anyhow!("a client failed"))??;
        }
        let mean = |model: usize| {
            let (before, after) = (&before.models[model], &after.models[model]);
            (after.rows - before.rows) as f64 / (after.steps - before.steps).max(1) as f64
        };
        anyhow::Ok((tokens, [mean(0), mean(1)]))
    });
    let (tokens, rows) = counted.context("while measuring")?;
    let seconds = (until - from).as_secs_f64();
    Ok(Measured {
        tokens_per_s: tokens as f64 / seconds,
        rows,
    })
}

/// Counts the tokens that arrive between two moments; the request that runs at the second is given up.
fn ask(engine: &Engine, client: usize, from: Instant, until: Instant) -> anyhow::Result<u64> {
    let mut counted = 0;
    for number in 0.. {
        let seed = (client * 1_000 + number) as u64;
        let job = Job {
            prompt: (0..PROMPT_TOKENS).map(|i| (i * 31 + seed as u32) % 50_000).collect(),
            max_tokens: ANSWER_TOKENS,
            sampling: Sampling::GREEDY,
            seed,
            ..Job::default()
        };
        let mut stream = engine.submit(&job)?;
        while let Some(event) = stream.next_blocking() {
            let now = Instant::now();
            if now >= until {
                return Ok(counted);
            }
            match event {
                Event::Piece { tokens, .. } if now >= from => counted += tokens.len() as u64,
                Event::End(ended) => {
                    if let Finish::Failed(why) = ended.finish {
                        anyhow::bail!("an answer failed: {why}");
                    }
                }
                Event::Piece { .. } => {}
            }
        }
    }
    Ok(counted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many ids as the models have, each a word of its own.
    #[test]
    fn every_token_of_a_random_model_has_a_text() {
        let tokenizer = tokenizer(300).unwrap();
        assert_eq!(tokenizer.token_text(0), "w0 ");
        assert_eq!(tokenizer.token_text(299), "w299 ");
    }
}
