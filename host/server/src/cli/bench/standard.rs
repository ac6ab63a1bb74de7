//! The baseline: one ordinary server a model, one token a call, and a dispatcher outside of them that routes.
//!
//! This is what routing by tokens costs where servers know nothing of it: every token is an HTTP request with the whole
//! text so far. How much of that text a server computes again depends on its prefix cache; this host's own servers have
//! one if the deployment has.

use std::future::pending;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};
use tokenrouter_core::draw::{Purpose, uniform_f32};
use tokenrouter_host::deployment::DeploymentFile;
use tokenrouter_host::http::auth::Keys;
use tokenrouter_host::http::{Access, App, Server};
use tokenrouter_policy::{Setting, Value as OptionValue};

use super::load::Answers;
use crate::cli::measure::{Answered, Question, Remote};

/// When the dispatcher asks the other model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Routing {
    /// The large model writes a token instead of the small one with this probability.
    Random(f64),
    /// The small model's token counts if it is at least this probable; the large model goes on until its own is.
    RStitch(f64),
}

impl Routing {
    /// The dispatcher's form of a policy.
    ///
    /// # Errors
    /// Policies and options that need more than an OpenAI server tells.
    pub(super) fn of(policy: &str, options: &[Setting]) -> anyhow::Result<Self> {
        let option = |name: &str| options.iter().find(|it| it.name == name).map(|it| &it.value);
        let number = |name: &str, default: f64| match option(name) {
            None => Ok(default),
            Some(OptionValue::Number(value)) => Ok(*value),
            Some(_) => bail!("{name} is not a number"),
        };
        match policy {
            "random" => Ok(Self::Random(number("share", 0.5)?)),
            "r-stitch" => {
                ensure!(
                    matches!(option("signal"), Some(OptionValue::Text(signal)) if signal == "maxprob"),
                    "a dispatcher sees the probability of the token and no entropy; add --policy-option signal=maxprob"
                );
                Ok(Self::RStitch(number("threshold", 0.9)?))
            }
            other => bail!("the dispatcher routes by random or r-stitch, not by {other}"),
        }
    }
}

/// The dispatcher and its two servers.
pub(super) struct Dispatcher {
    servers: [Remote; 2],
    routing: Routing,
    /// Keeps servers of this process going.
    _runtime: Option<tokio::runtime::Runtime>,
}

/// One token of a server.
struct Token {
    text: String,
    probability: f64,
    ends: bool,
}

impl Dispatcher {
    /// In front of servers that run, each URL=MODEL.
    pub(super) fn to(servers: &[String], key: Option<&str>, routing: Routing) -> anyhow::Result<Self> {
        let [small, large] = servers else {
            bail!(
                "--server names {} server(s); a dispatcher has two, the small model's first: give it twice",
                servers.len()
            );
        };
        let remote = |server: &String| {
            let (url, model) = server
                .split_once('=')
                .with_context(|| format!("--server {server}: write URL=MODEL, as in http://127.0.0.1:8000=qwen"))?;
            Remote::new(url, model, key.map(str::to_owned))
        };
        Ok(Self {
            servers: [remote(small)?, remote(large)?],
            routing,
            _runtime: None,
        })
    }

    /// Serves the first and the last model of a deployment, each by a server of its own at a free port.
    pub(super) fn serving(file: &DeploymentFile, routing: Routing) -> anyhow::Result<Self> {
        ensure!(
            file.models.len() >= 2,
            "the deployment has one model; a dispatcher needs two"
        );
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        let serve = |index: usize| {
            let mut alone = file.clone();
            alone.models = vec![file.models[index].clone()];
            alone.heads = Vec::new();
            alone.policy = Default::default();
            alone.server = Default::default();
            alone.server.listen = "127.0.0.1:0".to_owned();
            alone.admin = Default::default();
            let app = Arc::new(App::start(&alone, alone.load()?)?);
            let access = Access::read(&alone.server, &alone.base, Keys::default())?;
            let server = runtime.block_on(Server::bind(alone.server.clone(), access.clone()))?;
            server.gate().open(app, &access);
            let url = format!("http://{}", server.local_addr());
            runtime.spawn(server.run(pending(), pending()));
            Remote::new(&url, &alone.name, None)
        };
        Ok(Self {
            servers: [serve(0)?, serve(file.models.len() - 1)?],
            routing,
            _runtime: Some(runtime),
        })
    }

    async fn token(&self, at: usize, text: &str, question: &Question, position: u32) -> anyhow::Result<Token> {
        let body = json!({
            "prompt": text, "max_tokens": 1, "temperature": question.temperature, "logprobs": 1,
            "seed": question.seed.wrapping_add(u64::from(position)), "ignore_eos": question.full_length,
        });
        let reply: Value = self.servers[at].send(body).await?.json().await?;
        token(&reply)
    }
}

/// The one token of a reply.
fn token(reply: &Value) -> anyhow::Result<Token> {
    let choice = &reply["choices"][0];
    let text = choice["text"].as_str().with_context(|| format!("no text in {reply}"))?;
    let logprob = choice["logprobs"]["token_logprobs"][0].as_f64();
    let ends = choice["finish_reason"] == "stop";
    // Servers do not all list the token that ends the answer.
    let probability = match logprob {
        Some(logprob) => logprob.exp(),
        None if ends => 1.0,
        None => bail!("no log-probability of the token in {reply}"),
    };
    Ok(Token {
        text: text.to_owned(),
        probability,
        ends,
    })
}

impl Answers for Dispatcher {
    async fn answer(&self, question: &Question) -> anyhow::Result<Answered> {
        let started = Instant::now();
        let mut text = question.prompt.clone();
        let mut answered = Answered {
            tokens_by_model: vec![0, 0],
            ..Answered::default()
        };
        let (mut at, mut last) = (0, None);
        while answered.tokens < question.max_tokens {
            let token = self.token(at, &text, question, answered.tokens).await?;
            let (commit, next) = self.routing.step(at, token.probability, question.seed, answered.tokens);
            answered.handoffs += u32::from(next != at);
            if commit {
                answered.tokens += 1;
                answered.tokens_by_model[at] += 1;
                answered.piece(started.elapsed(), &mut last);
                answered.text += &token.text;
                text += &token.text;
                if token.ends {
                    break;
                }
            }
            at = next;
        }
        answered.total = started.elapsed();
        Ok(answered)
    }
}

impl Routing {
    /// Whether a token counts, and who goes on: 0 is the small model.
    fn step(self, at: usize, probability: f64, seed: u64, position: u32) -> (bool, usize) {
        let certain = match self {
            Self::RStitch(threshold) => probability >= threshold,
            // The large model writes one token.
            Self::Random(_) if at == 1 => true,
            Self::Random(share) => f64::from(uniform_f32(seed, position.into(), Purpose::Policy(0))) >= share,
        };
        match (at, certain) {
            (0, true) | (1, true) => (true, 0),
            (0, false) => (false, 1),
            _ => (true, 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokenrouter_host::deployment::parse_setting;

    use super::*;

    fn settings(texts: &[&str]) -> Vec<Setting> {
        texts.iter().map(|text| parse_setting(text).unwrap()).collect()
    }

    #[test]
    fn only_what_a_dispatcher_can_see_routes() {
        assert_eq!(
            Routing::of("random", &settings(&["share=0.2"])).unwrap(),
            Routing::Random(0.2)
        );
        let options = settings(&["signal=maxprob", "threshold=0.8"]);
        assert_eq!(Routing::of("r-stitch", &options).unwrap(), Routing::RStitch(0.8));
        for (policy, expected) in [("r-stitch", "signal=maxprob"), ("r2r", "not by r2r")] {
            let error = Routing::of(policy, &[]).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn the_large_model_always_commits_and_hands_back_when_certain() {
        let routing = Routing::RStitch(0.9);
        assert_eq!(routing.step(0, 0.95, 0, 0), (true, 0));
        assert_eq!(routing.step(0, 0.5, 0, 0), (false, 1));
        assert_eq!(routing.step(1, 0.5, 0, 0), (true, 1));
        assert_eq!(routing.step(1, 0.95, 0, 0), (true, 0));
        let (seed, share) = (3, 0.3);
        let asked = (0..10_000)
            .filter(|at| Routing::Random(share).step(0, 1.0, seed, *at) == (false, 1))
            .count();
        // Four deviations of a binomial count.
        assert!((asked as f64 - 3_000.0).abs() < 4.0 * 46.0, "seed {seed}: {asked}");
        assert_eq!(Routing::Random(share).step(1, 0.1, seed, 0), (true, 0));
    }

    #[test]
    fn a_reply_is_a_token() {
        let last = token(&json!({"choices": [{"text": "", "finish_reason": "stop", "logprobs": null}]})).unwrap();
        assert!(last.ends && last.probability == 1.0);
        let reply =
            json!({"choices": [{"text": "6", "finish_reason": "length", "logprobs": {"token_logprobs": [-0.5]}}]});
        let next = token(&reply).unwrap();
        assert!(!next.ends && next.text == "6" && (next.probability - (-0.5f64).exp()).abs() < 1e-12);
        assert!(token(&json!({"choices": [{"text": "6", "finish_reason": "length"}]})).is_err());
        assert!(token(&json!({})).is_err());
    }
}
