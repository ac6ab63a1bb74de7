//! Several answers as one stream of events, and what they add up to.

use std::future::poll_fn;
use std::task::{Context, Poll};

use tokenrouter_engine::Finish;
use tokenrouter_engine::stream::{AnswerStream, Ended, Event, Written};

/// The streams of one request. Dropping it cancels those that run.
pub(super) struct Answers {
    streams: Vec<Option<AnswerStream>>,
    /// Whom to ask first, so that a fast answer does not keep the others from being read.
    turn: usize,
}

impl Answers {
    pub(super) fn new(streams: Vec<AnswerStream>) -> Self {
        Self {
            streams: streams.into_iter().map(Some).collect(),
            turn: 0,
        }
    }

    /// Numbers of the policy generations that route them, each once.
    pub(super) fn generations(&self) -> Vec<u32> {
        let ids = self.streams.iter().flatten().filter_map(AnswerStream::generation);
        let mut numbers: Vec<u32> = ids.map(|id| id.0).collect();
        numbers.dedup();
        numbers
    }

    /// How many there are, ended ones included.
    pub(super) fn len(&self) -> usize {
        self.streams.len()
    }

    /// Whether all have ended.
    pub(super) fn all_ended(&self) -> bool {
        self.streams.iter().all(Option::is_none)
    }

    /// The next event of any of them, with its index; `None` when all have ended.
    pub(super) async fn next(&mut self) -> Option<(usize, Event)> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// The same, for who polls.
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<(usize, Event)>> {
        let count = self.streams.len();
        let mut running = false;
        for offset in 0..count {
            let index = (self.turn + offset) % count;
            let Some(stream) = &mut self.streams[index] else {
                continue;
            };
            match stream.poll_next(context) {
                Poll::Pending => running = true,
                Poll::Ready(None) => self.streams[index] = None,
                Poll::Ready(Some(event)) => {
                    if matches!(event, Event::End(_)) {
                        self.streams[index] = None;
                    }
                    self.turn = (index + 1) % count;
                    return Poll::Ready(Some((index, event)));
                }
            }
        }
        if running { Poll::Pending } else { Poll::Ready(None) }
    }
}

/// What the answers of one request have cost so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tally {
    /// Every prompt once, however many answers it has.
    pub(super) prompt_tokens: u64,
    pub(super) completion_tokens: u64,
    /// By model, in the deployment's order.
    pub(super) tokens_by_model: Vec<u64>,
    /// Of the answers that have ended.
    pub(super) handoffs: u64,
    /// What the models had of the prompts, once the first answer to each has ended. As a prompt counts once, so does this: further
    /// answers find what the first has computed.
    pub(super) cached: Option<Cached>,
    /// Answers to each prompt.
    n: usize,
    /// Prompts whose first answer has not ended.
    first_answers_left: usize,
    cached_so_far: Cached,
}

/// Tokens of prompts that were there from other requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cached {
    /// At the model that each answer started at.
    pub(super) tokens: u64,
    /// At each model, in the deployment's order.
    pub(super) by_model: Vec<u64>,
}

impl Tally {
    pub(super) fn new(prompt_tokens: usize, prompts: usize, answers: usize, models: usize) -> Self {
        Self {
            prompt_tokens: prompt_tokens as u64,
            completion_tokens: 0,
            tokens_by_model: vec![0; models],
            handoffs: 0,
            cached: None,
            n: (answers / prompts.max(1)).max(1),
            first_answers_left: prompts,
            cached_so_far: Cached {
                tokens: 0,
                by_model: vec![0; models],
            },
        }
    }

    /// Adds tokens of an answer.
    pub(super) fn wrote(&mut self, tokens: &[Written]) {
        self.completion_tokens += tokens.len() as u64;
        for written in tokens {
            self.tokens_by_model[written.model.index()] += 1;
        }
    }

    /// Adds the answer with this index, which has ended.
    pub(super) fn ended(&mut self, index: usize, ended: &Ended) {
        self.handoffs += u64::from(ended.handoffs);
        if !index.is_multiple_of(self.n) {
            return;
        }
        self.first_answers_left -= 1;
        self.cached_so_far.tokens += u64::from(ended.cached_tokens);
        for (sum, tokens) in self.cached_so_far.by_model.iter_mut().zip(&ended.cached_by_model) {
            *sum += u64::from(*tokens);
        }
        if self.first_answers_left == 0 {
            self.cached = Some(std::mem::take(&mut self.cached_so_far));
        }
    }
}

/// The API's word for how an answer ended, or why it failed.
pub(super) fn finish_reason(finish: &Finish) -> Result<&'static str, String> {
    match finish {
        Finish::Stop => Ok("stop"),
        Finish::Length => Ok("length"),
        Finish::Cancelled => Err("the request was cancelled".to_owned()),
        Finish::Failed(what) => Err(what.clone()),
    }
}
