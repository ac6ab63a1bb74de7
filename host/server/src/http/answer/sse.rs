//! An answer as server-sent events: a chunk for every piece, a last chunk for every choice with its `finish_reason`, the
//! usage if it was asked for, and `[DONE]`, which also follows an error.

use std::task::{Context, Poll};

use axum::response::Response;
use serde::Serialize;
use tokenrouter_engine::stream::Event;

use super::answers::finish_reason;
use super::assumed::AssumedText;
use super::event_body::{self, EventWriter, Events};
use super::response::{Told, Usage};
use super::{Part, Running, Shape};
use crate::http::ApiError;

const DONE: &str = "[DONE]";

pub(super) fn respond<S: Shape>(running: Running<S>) -> Response {
    let silence_max = running.context.app.event_silence_max();
    let count = if running.context.params.own.assumed {
        running.answers.len()
    } else {
        0
    };
    let mut chunks = Chunks {
        running,
        assumed: vec![AssumedText::default(); count],
        over: false,
    };
    let mut out = EventWriter::default();
    for index in 0..chunks.running.answers.len() {
        chunks.push(index, &Told::Opening, &mut out);
    }
    event_body::respond(chunks, out, silence_max)
}

/// What is left to send.
struct Chunks<S> {
    running: Running<S>,
    /// One for each answer, if the client wants to know what is assumed.
    assumed: Vec<AssumedText>,
    over: bool,
}

impl<S: Shape> Events for Chunks<S> {
    fn poll_write(&mut self, context: &mut Context<'_>, out: &mut EventWriter) -> Poll<()> {
        while !self.over && !out.is_full() {
            match self.running.answers.poll_next(context) {
                Poll::Ready(Some((index, event))) => self.take(index, event, out),
                Poll::Ready(None) => self.over = true,
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(())
    }
}

impl<S: Shape> Chunks<S> {
    fn take(&mut self, index: usize, event: Event, out: &mut EventWriter) {
        match event {
            Event::Piece { text, tokens, assumed } => {
                self.running.tally.wrote(&tokens);
                let assumed_text = self.assumed.get_mut(index).map(|behind| {
                    let tokenizer = self.running.context.app.engine.tokenizer();
                    behind.wrote(tokenizer, &tokens, &text);
                    behind.text(tokenizer, &assumed)
                });
                // Held-back text is no news, unless somebody counts tokens.
                if !text.is_empty() || self.running.context.params.tells_tokens() {
                    let part = Part {
                        text,
                        tokens,
                        assumed,
                        assumed_text: assumed_text.unwrap_or_default(),
                        finish_reason: None,
                    };
                    self.push(index, &Told::Chunk(&part, None), out);
                }
            }
            Event::End(ended) => match finish_reason(&ended.finish) {
                Ok(reason) => {
                    self.running.log.finished(reason, ended.timing);
                    self.running.tally.ended(index, &ended);
                    let part = Part {
                        finish_reason: Some(reason),
                        ..Part::default()
                    };
                    self.push(index, &Told::Chunk(&part, Some(&ended)), out);
                    if self.running.answers.all_ended() {
                        self.end(out);
                    }
                }
                Err(what) => self.fail(what, out),
            },
        }
    }

    fn push(&mut self, index: usize, told: &Told<'_>, out: &mut EventWriter) {
        let Running {
            context, shape, tally, ..
        } = &mut self.running;
        let Some(choice) = context.choice(shape, index, told) else {
            return;
        };
        let params = &context.params;
        let so_far = params.continuous_usage.then(|| Usage::new(&context.app, tally));
        let usage = params.include_usage.then_some(so_far);
        write(&context.frame.object(S::CHUNK, vec![choice], usage), out);
    }

    fn end(&mut self, out: &mut EventWriter) {
        let Running { context, tally, .. } = &self.running;
        if context.params.include_usage {
            let usage = Some(Some(Usage::new(&context.app, tally)));
            write(&context.frame.object::<S::Body>(S::CHUNK, Vec::new(), usage), out);
        }
        self.running.log.answered(&self.running.tally);
        self.close(out);
    }

    fn fail(&mut self, what: String, out: &mut EventWriter) {
        self.running.log.failed(&what);
        out.text(&ApiError::Failed(what).to_json().to_string());
        self.close(out);
    }

    fn close(&mut self, out: &mut EventWriter) {
        out.text(DONE);
        self.over = true;
    }
}

/// A chunk has texts, numbers and lists only, and those can always be written.
fn write(chunk: &impl Serialize, out: &mut EventWriter) {
    if let Err(error) = out.json(chunk) {
        tracing::error!(%error, "a chunk cannot be written as JSON");
        let error = ApiError::Failed("the server failed on this request".to_owned());
        out.text(&error.to_json().to_string());
    }
}
