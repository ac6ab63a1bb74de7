//! The text side of a request: committed tokens become text, stop strings are looked for, and the stream is fed. It
//! travels with the request, so nothing of it belongs to a model.

use std::sync::Arc;

use tokenrouter_core::request::{Answer, Finish, Request};
use tokenrouter_core::{ModelIndex, TokenId};
use tokenrouter_model::runner::Sampling;
use tokenrouter_model::text::{Detokenizer, StopMatcher, Tokenizer, trailing_newlines};

use crate::engine::Slot;
use crate::stream::{AnswerWriter, Ended, Written};

/// What a request carries besides its tokens.
#[derive(Debug)]
pub(crate) struct TextAnswer {
    pub(crate) sampling: Sampling,
    /// Newlines that the committed text ends with, for policies that ask.
    pub(crate) newlines: u8,
    tokenizer: Tokenizer,
    detokenizer: Detokenizer,
    stop_strings: Arc<[String]>,
    stops: StopMatcher,
    stop_tokens: Arc<[TokenId]>,
    stopped_by: Option<usize>,
    writer: AnswerWriter,
    ended: bool,
    models: usize,
    /// Returned when the request is gone, however that comes about.
    slot: Option<Slot>,
}

/// What a [`TextAnswer`] is made of.
pub(crate) struct TextParts {
    pub(crate) sampling: Sampling,
    pub(crate) newlines: u8,
    pub(crate) tokenizer: Tokenizer,
    pub(crate) stop_strings: Arc<[String]>,
    pub(crate) stops: StopMatcher,
    pub(crate) stop_tokens: Arc<[TokenId]>,
    pub(crate) writer: AnswerWriter,
    pub(crate) models: usize,
    pub(crate) slot: Slot,
}

impl TextAnswer {
    pub(crate) fn new(parts: TextParts) -> Self {
        Self {
            sampling: parts.sampling,
            newlines: parts.newlines,
            tokenizer: parts.tokenizer,
            detokenizer: Detokenizer::new(),
            stop_strings: parts.stop_strings,
            stops: parts.stops,
            stop_tokens: parts.stop_tokens,
            stopped_by: None,
            writer: parts.writer,
            ended: false,
            models: parts.models,
            slot: Some(parts.slot),
        }
    }

    /// Its share of the budget has been taken, and goes back when the request is gone.
    pub(crate) fn take_budget(&mut self, tokens: usize) {
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

    /// Tells the client how its answer ended. Text that was held back for a stop string which never came is part
    /// of the answer.
    pub(crate) fn end(mut request: Box<Request<Self>>, finish: Finish) {
        let mut text = String::new();
        let answer = &mut request.answer;
        if answer.stopped_by.is_none() {
            let mut rest = String::new();
            answer.detokenizer.flush(&answer.tokenizer, &mut rest);
            answer.stopped_by = answer.stops.push(&rest, &mut text);
            answer.stops.flush(&mut text);
        }
        answer.ended = true;
        if !text.is_empty() {
            answer.writer.write(&text, None);
        }
        let ended = Ended {
            finish,
            stop: answer.stopped_by.map(|index| answer.stop_strings[index].clone()),
            prompt_tokens: request.prompt_tokens(),
            answer_tokens: request.answer_tokens(),
            tokens_by_model: request.tokens_by_model()[..request.answer.models].to_vec(),
            handoffs: request.handoffs(),
        };
        // First the place, then the news: a client that comes back at once finds it free.
        drop(request.answer.slot.take());
        request.answer.writer.end(ended);
    }
}

impl Answer for TextAnswer {
    fn commit(&mut self, token: TokenId, by: ModelIndex) -> Option<Finish> {
        let written = Some(Written { token, model: by });
        if self.stop_tokens.contains(&token) {
            self.writer.write("", written);
            return Some(Finish::Stop);
        }
        let mut text = String::new();
        self.detokenizer.push(&self.tokenizer, token, &mut text);
        self.newlines = trailing_newlines(self.newlines, &text);
        let mut released = String::new();
        self.stopped_by = self.stops.push(&text, &mut released);
        self.writer.write(&released, written);
        self.stopped_by.map(|_| Finish::Stop)
    }

    fn abandoned(&self) -> bool {
        self.writer.is_abandoned()
    }
}

impl Drop for TextAnswer {
    /// A request that vanishes without an end (its subserver panicked, the engine was stopped) still gets one.
    fn drop(&mut self) {
        if !self.ended {
            self.writer.end(Ended {
                finish: Finish::Failed("the server stopped working on this request".to_owned()),
                stop: None,
                prompt_tokens: 0,
                answer_tokens: 0,
                tokens_by_model: vec![0; self.models],
                handoffs: 0,
            });
        }
    }
}
