//! Asks one question and times its answer.

use std::time::{Duration, Instant};

use anyhow::bail;
use tokenrouter_engine::stream::Event;
use tokenrouter_engine::{Engine, Finish, Job, Target};
use tokenrouter_model::Sampling;
use tokenrouter_policy::Setting;

use super::Remote;

/// What is asked.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Question {
    pub(in crate::cli) prompt: String,
    pub(in crate::cli) max_tokens: u32,
    /// Whether the answer is as long as it may be, whatever the model would end it with.
    pub(in crate::cli) full_length: bool,
    pub(in crate::cli) temperature: f32,
    pub(in crate::cli) seed: u64,
    /// Who answers; only an engine in this process knows other targets than the default.
    pub(in crate::cli) target: Target,
    /// Options of the policy; only for an engine in this process.
    pub(in crate::cli) options: Vec<Setting>,
}

/// An answer and when it came.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct Answered {
    pub(in crate::cli) text: String,
    pub(in crate::cli) tokens: u32,
    /// By the deployment's models; empty for a server at a URL, whose models have no order.
    pub(in crate::cli) tokens_by_model: Vec<u32>,
    pub(in crate::cli) handoffs: u32,
    /// From the question to the first token.
    pub(in crate::cli) first: Duration,
    /// From the question to the end.
    pub(in crate::cli) total: Duration,
    /// Between one piece of the answer and the next; a piece is a token or more.
    pub(in crate::cli) gaps: Vec<Duration>,
}

impl Answered {
    /// Time per token after the first, if there is one.
    pub(in crate::cli) fn per_token(&self) -> Option<Duration> {
        let more = self.tokens.checked_sub(1).filter(|more| *more > 0)?;
        Some((self.total - self.first) / more)
    }

    /// Notes that a piece came, `at` after the question; `last` is when the one before it did.
    pub(in crate::cli) fn piece(&mut self, at: Duration, last: &mut Option<Duration>) {
        match last.replace(at) {
            None => self.first = at,
            Some(before) => self.gaps.push(at - before),
        }
    }
}

/// What answers.
pub(in crate::cli) enum Service {
    /// A deployment in this process.
    Engine(Box<Engine>),
    /// A server at a URL.
    Remote(Remote),
}

impl Service {
    /// Asks, and reads the answer to its end.
    ///
    /// # Errors
    /// A question that is refused, or an answer that fails.
    pub(in crate::cli) async fn ask(&self, question: &Question) -> anyhow::Result<Answered> {
        match self {
            Service::Engine(engine) => ask(engine, question).await,
            Service::Remote(remote) => remote.ask(question).await,
        }
    }
}

async fn ask(engine: &Engine, question: &Question) -> anyhow::Result<Answered> {
    let prompt = engine.tokenizer().encode_prompt(&question.prompt)?;
    let room = engine.context_max().saturating_sub(prompt.len() as u32);
    let max_tokens = question.max_tokens.min(room);
    let job = Job {
        prompt,
        max_tokens,
        min_tokens: if question.full_length { max_tokens } else { 0 },
        ignore_eos: question.full_length,
        sampling: Sampling {
            temperature: question.temperature,
            ..Sampling::GREEDY
        },
        seed: question.seed,
        target: question.target.clone(),
        options: question.options.clone(),
        ..Job::default()
    };
    let started = Instant::now();
    let mut stream = engine.submit(&job)?;
    let (mut answered, mut last) = (Answered::default(), None);
    while let Some(event) = stream.next().await {
        match event {
            Event::Piece { text, tokens, .. } => {
                if !tokens.is_empty() {
                    answered.piece(started.elapsed(), &mut last);
                }
                answered.text += &text;
            }
            Event::End(ended) => {
                if let Finish::Failed(why) = ended.finish {
                    bail!("{why}");
                }
                answered.tokens = ended.answer_tokens;
                answered.tokens_by_model = ended.tokens_by_model;
                answered.handoffs = ended.handoffs;
            }
        }
    }
    answered.total = started.elapsed();
    Ok(answered)
}
