//! The text side of a request: committed tokens become text, stop strings are looked for, and the stream is fed. It
//! travels with the request, so nothing of it belongs to a model.

use std::sync::Arc;

use tokenrouter_core::request::{Answer, Finish, Request};
use tokenrouter_core::{ModelIndex, TokenId};
use tokenrouter_model::grammar::{Grammar, Progress};
use tokenrouter_model::runner::Sampling;
use tokenrouter_model::text::{Detokenizer, StopMatcher, Tokenizer, trailing_newlines};
use tokenrouter_model::{Shaping, TokenLogprob};

use crate::ahead::TextAhead;
use crate::engine::Slot;
use crate::meter::{Cost, RequestClock};
use crate::seen::Seen;
use crate::served::Lease;
use crate::stream::{AnswerWriter, Assumed, Ended, Handoff, Logprobs, StepNote, Stopped, Written};
use crate::traffic::Routed;

/// What a request carries besides its tokens.
#[derive(Debug)]
pub(crate) struct TextAnswer {
    pub(crate) sampling: Sampling,
    /// Biases, penalties and bans, as they stand after the committed tokens.
    pub(crate) shaping: Shaping,
    /// The answer's format, as it stands after the committed tokens.
    pub(crate) grammar: Option<Box<Grammar>>,
    /// Log-probabilities that the client wants with each token.
    pub(crate) logprobs: Option<u32>,
    /// Newlines that the committed text ends with, for policies that ask.
    pub(crate) newlines: u8,
    stopping: Stopping,
    tokenizer: Tokenizer,
    detokenizer: Detokenizer,
    stopped: Option<Stopped>,
    /// Characters of the text so far, held-back ones included.
    characters: u32,
    committed: u32,
    /// Whether the request has changed hands since the last commit.
    handed_over: bool,
    /// Every handoff, if the client wants to know.
    handoffs: Option<Vec<Handoff>>,
    /// The steps since the last commit, if the client wants to know.
    steps: Option<Vec<StepNote>>,
    /// The last step's candidates for positions behind the first, and how far behind the committed tokens those were then:
    /// they are steps once all before them is settled.
    steps_ahead: Vec<(u32, StepNote)>,
    /// Log-probabilities of the candidate of the step that is out. Replaced at the next step, so a discarded candidate's
    /// are gone.
    staged: Option<Box<Logprobs>>,
    writer: AnswerWriter,
    ended: bool,
    models: usize,
    clock: RequestClock,
    /// The generations that route and watch it, held to the end.
    pub(crate) routed: Routed,
    /// Returned when the request is gone, however that comes about.
    slot: Option<Slot>,
    /// Text of one commit, kept for its memory: what the token completed, and what of it is released.
    piece: String,
    released: String,
}

/// When an answer ends, short of its length.
#[derive(Debug)]
pub(crate) struct Stopping {
    pub(crate) strings: Arc<[String]>,
    pub(crate) matcher: StopMatcher,
    pub(crate) tokens: Arc<[TokenId]>,
    /// Whether what ends the answer is part of its text.
    pub(crate) included: bool,
    /// Stop strings are not looked for in the text of so many first tokens.
    pub(crate) tokens_min: u32,
}

/// What a [`TextAnswer`] is made of.
pub(crate) struct TextParts {
    pub(crate) sampling: Sampling,
    pub(crate) shaping: Shaping,
    pub(crate) grammar: Option<Box<Grammar>>,
    pub(crate) logprobs: Option<u32>,
    pub(crate) attribution: bool,
    pub(crate) steps: bool,
    pub(crate) newlines: u8,
    pub(crate) stopping: Stopping,
    pub(crate) tokenizer: Tokenizer,
    pub(crate) writer: AnswerWriter,
    pub(crate) models: usize,
    pub(crate) clock: RequestClock,
    pub(crate) routed: Routed,
    pub(crate) slot: Slot,
}

impl TextAnswer {
    pub(crate) fn new(parts: TextParts) -> Self {
        Self {
            sampling: parts.sampling,
            shaping: parts.shaping,
            grammar: parts.grammar,
            logprobs: parts.logprobs,
            newlines: parts.newlines,
            stopping: parts.stopping,
            tokenizer: parts.tokenizer,
            detokenizer: Detokenizer::new(),
            stopped: None,
            characters: 0,
            committed: 0,
            handed_over: false,
            handoffs: parts.attribution.then(Vec::new),
            steps: parts.steps.then(Vec::new),
            steps_ahead: Vec::new(),
            staged: None,
            writer: parts.writer,
            ended: false,
            models: parts.models,
            clock: parts.clock,
            routed: parts.routed,
            slot: Some(parts.slot),
            piece: String::new(),
            released: String::new(),
        }
    }

    /// The request goes to a model.
    pub(crate) fn moves_to(&self, model: ModelIndex) {
        self.writer.moves_to(model);
    }

    /// The request has left the queue. Its share of the budget has been taken, and goes back when the request is gone.
    pub(crate) fn take_budget(&mut self, tokens: usize) {
        self.clock.started();
        if let Some(slot) = &mut self.slot {
            slot.taken = Some(tokens);
        }
    }

    /// Its share of the budget has been given back already.
    pub(crate) fn forget_budget(&mut self) {
        if let Some(slot) = &mut self.slot {
            slot.taken = None;
        }
    }

    /// The log-probabilities of the candidate that may be committed next: its own, then the most probable tokens'.
    pub(crate) fn stage(&mut self, logprobs: &[TokenLogprob]) {
        self.staged = logprobs.split_first().map(|(candidate, top)| {
            Box::new(Logprobs {
                logprob: candidate.logprob,
                top: top.to_vec(),
            })
        });
    }

    /// Notes what a step's candidate looked like to the policy and what it decided, if the client wants to know. It is for the
    /// `nth` position behind the committed tokens.
    pub(crate) fn note_step(&mut self, nth: u32, step: Seen<'_>) {
        let Some(steps) = &mut self.steps else { return };
        let served = self.routed.lease.as_ref().map(Lease::served);
        let note = step.note(served.map(|served| &**served));
        if nth == 0 {
            self.steps_ahead.clear();
            steps.push(note);
        } else {
            self.steps_ahead.push((self.committed + nth, note));
        }
    }

    /// The model that is asked settles one position after another, and it is this one's turn: its steps are the writer's, if it was
    /// written ahead, and the asked model's, if that has run already.
    fn note_steps_ahead(&mut self, from: ModelIndex, to: ModelIndex) {
        let Some(steps) = &mut self.steps else { return };
        steps.extend(self.writer.take_step_ahead(from));
        let is_next = |(position, note): &(u32, StepNote)| *position == self.committed && note.model == to;
        if let Some(index) = self.steps_ahead.iter().position(is_next) {
            steps.push(self.steps_ahead.swap_remove(index).1);
        }
    }

    /// Tells the client how its answer ended. Text that was held back for a stop string which never came is part
    /// of the answer.
    pub(crate) fn end(mut request: Box<Request<Self>>, finish: Finish) {
        let cost = Cost {
            prompt_tokens: request.prompt_tokens(),
            answer_tokens: request.answer_tokens(),
            handoffs: request.handoffs(),
        };
        let answer = &mut request.answer;
        answer.released.clear();
        if !matches!(answer.stopped, Some(Stopped::String(_))) {
            answer.piece.clear();
            answer.detokenizer.flush(&answer.tokenizer, &mut answer.piece);
            let late = answer.release();
            answer.stopped = answer.stopped.take().or(late);
            answer.stopping.matcher.flush(&mut answer.released);
        }
        answer.ended = true;
        if !answer.released.is_empty() {
            answer.writer.write_last(&answer.released, None);
        }
        let ended = Ended {
            timing: answer.clock.ended(&finish, cost),
            finish,
            stopped: request.answer.stopped.take(),
            prompt_tokens: request.prompt_tokens(),
            answer_tokens: request.answer_tokens(),
            tokens_by_model: request.tokens_by_model()[..request.answer.models].to_vec(),
            cached_tokens: request.cached_tokens(),
            cached_by_model: request.cached_by_model()[..request.answer.models].to_vec(),
            handoffs: request.handoffs(),
            handoff_log: request.answer.handoffs.take().unwrap_or_default(),
        };
        // First the place, then the news: a client that comes back at once finds it free, and its generation let go of.
        drop(request.answer.slot.take());
        drop(std::mem::take(&mut request.answer.routed));
        request.answer.writer.end(ended);
    }

    /// Takes `piece` and adds to `released` what of it, and of what was held back, is certain to be shown. Returns the stop
    /// string that ends the answer, if one does.
    fn release(&mut self) -> Option<Stopped> {
        let stopping = &mut self.stopping;
        if self.committed <= stopping.tokens_min {
            self.released.push_str(&self.piece);
            return None;
        }
        let index = stopping.matcher.push(&self.piece, &mut self.released)?;
        let string = &stopping.strings[index];
        if stopping.included {
            self.released.push_str(string);
        }
        Some(Stopped::String(string.clone()))
    }
}

impl Answer for TextAnswer {
    type Ahead = TextAhead;

    fn ahead(&self) -> Option<TextAhead> {
        let depends_on_text = !self.shaping.is_idle() || self.grammar.is_some() || self.logprobs.is_some();
        if depends_on_text || self.routed.shadow.is_some() {
            return None;
        }
        TextAhead::new(self.sampling, self.routed.lease.as_ref()?.served(), &self.writer)
    }

    fn assumed(ahead: &TextAhead, token: TokenId, by: ModelIndex, asks: Option<ModelIndex>) {
        ahead.assumed(Assumed {
            token,
            model: by,
            asked: asks,
        });
    }

    fn handed_over(&mut self, from: ModelIndex, to: ModelIndex) {
        self.handed_over = true;
        let position = self.committed;
        if let Some(handoffs) = &mut self.handoffs {
            handoffs.push(Handoff { position, from, to });
        }
        self.note_steps_ahead(from, to);
    }

    fn commit(&mut self, token: TokenId, by: ModelIndex) -> Option<Finish> {
        self.clock.wrote(by);
        let written = Written {
            token,
            model: by,
            text_offset: self.characters,
            after_handoff: std::mem::take(&mut self.handed_over),
            logprobs: self.staged.take(),
            steps: self.steps.as_mut().map(std::mem::take).unwrap_or_default(),
        };
        self.committed += 1;
        self.shaping.commit(token);
        self.released.clear();
        let is_stop = self.stopping.tokens.contains(&token);
        if !is_stop || self.stopping.included {
            self.piece.clear();
            self.detokenizer.push(&self.tokenizer, token, &mut self.piece);
            self.characters += self.piece.chars().count() as u32;
            self.newlines = trailing_newlines(self.newlines, &self.piece);
            self.stopped = self.release();
        }
        if is_stop && self.stopped.is_none() {
            self.stopped = Some(Stopped::Token(token));
        }
        if self.stopped.is_some() {
            self.writer.write_last(&self.released, Some(written));
            return Some(Finish::Stop);
        }
        self.writer.write(&self.released, Some(written));
        match self.grammar.as_mut()?.commit(token) {
            Ok(Progress::Open) => None,
            Ok(Progress::Complete) => Some(Finish::Stop),
            Err(error) => Some(Finish::Failed(error.to_string())),
        }
    }

    fn abandoned(&self) -> bool {
        self.writer.is_abandoned()
    }
}

impl Drop for TextAnswer {
    /// A request that vanishes without an end (its subserver panicked, the engine was stopped) still gets one.
    fn drop(&mut self) {
        if !self.ended {
            let finish = Finish::Failed("the server stopped working on this request".to_owned());
            self.writer.end(Ended::empty(finish, self.models));
        }
    }
}
