//! An answer as server-sent events: a chunk for every piece, a last chunk for every choice with its `finish_reason`, the
//! usage if it was asked for, and `[DONE]`, which also follows an error.

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use serde::Serialize;
use tokenrouter_engine::stream::Event;

use super::answers::finish_reason;
use super::response::{Told, Usage};
use super::{Part, Running, Shape};
use crate::http::ApiError;

const DONE: &str = "[DONE]";

pub(super) fn respond<S: Shape>(running: Running<S>) -> Response {
    let silence = KeepAlive::new().interval(running.context.app.event_silence_max());
    let mut chunks = Chunks {
        running,
        ready: VecDeque::new(),
        over: false,
    };
    for index in 0..chunks.running.answers.len() {
        chunks.push(index, &Told::Opening);
    }
    let events = stream::unfold(chunks, async |mut chunks| {
        let data = chunks.next().await?;
        Some((Ok::<_, Infallible>(sse::Event::default().data(data)), chunks))
    });
    Sse::new(events).keep_alive(silence).into_response()
}

/// What is left to send.
struct Chunks<S> {
    running: Running<S>,
    ready: VecDeque<String>,
    over: bool,
}

impl<S: Shape> Chunks<S> {
    /// The next event's data; `None` after `[DONE]`.
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(data) = self.ready.pop_front() {
                return Some(data);
            }
            if self.over {
                return None;
            }
            match self.running.answers.next().await {
                Some((index, event)) => self.take(index, event),
                None => self.over = true,
            }
        }
    }

    fn take(&mut self, index: usize, event: Event) {
        match event {
            Event::Piece { text, tokens } => {
                self.running.tally.wrote(&tokens);
                // Held-back text is no news, unless somebody counts tokens.
                if !text.is_empty() || self.running.context.params.tells_tokens() {
                    let part = Part {
                        text,
                        tokens,
                        finish_reason: None,
                    };
                    self.push(index, &Told::Chunk(&part, None));
                }
            }
            Event::End(ended) => match finish_reason(&ended.finish) {
                Ok(reason) => {
                    self.running.log.finished(reason, ended.timing);
                    self.running.tally.ended(&ended);
                    let part = Part {
                        finish_reason: Some(reason),
                        ..Part::default()
                    };
                    self.push(index, &Told::Chunk(&part, Some(&ended)));
                    if self.running.answers.all_ended() {
                        self.end();
                    }
                }
                Err(what) => self.fail(what),
            },
        }
    }

    fn push(&mut self, index: usize, told: &Told<'_>) {
        let Running {
            context, shape, tally, ..
        } = &mut self.running;
        let Some(choice) = context.choice(shape, index, told) else {
            return;
        };
        let params = &context.params;
        let so_far = params.continuous_usage.then(|| Usage::new(&context.app, tally));
        let usage = params.include_usage.then_some(so_far);
        let chunk = to_json(&context.frame.object(S::CHUNK, vec![choice], usage));
        self.ready.push_back(chunk);
    }

    fn end(&mut self) {
        let Running { context, tally, .. } = &self.running;
        if context.params.include_usage {
            let usage = Some(Some(Usage::new(&context.app, tally)));
            let chunk = context.frame.object::<S::Body>(S::CHUNK, Vec::new(), usage);
            self.ready.push_back(to_json(&chunk));
        }
        self.running.log.answered(&self.running.tally);
        self.close();
    }

    fn fail(&mut self, what: String) {
        self.running.log.failed(&what);
        self.ready.push_back(ApiError::Failed(what).to_json().to_string());
        self.close();
    }

    fn close(&mut self) {
        self.ready.push_back(DONE.to_owned());
        self.over = true;
    }
}

/// A chunk has texts, numbers and lists only, and those can always be written.
fn to_json(chunk: &impl Serialize) -> String {
    serde_json::to_string(chunk).unwrap_or_else(|error| {
        tracing::error!(%error, "a chunk cannot be written as JSON");
        ApiError::Failed("the server failed on this request".to_owned())
            .to_json()
            .to_string()
    })
}
