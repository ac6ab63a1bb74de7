//! An answer as server-sent events: a chunk for every piece, a last chunk for every choice with its `finish_reason`, the
//! usage if it was asked for, and `[DONE]`, which also follows an error.

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use serde::Serialize;
use tokenrouter_engine::stream::Event;

use super::Running;
use super::answers::{Tally, finish_reason};
use super::response::{Choice, Usage, attribute};
use crate::http::ApiError;

const DONE: &str = "[DONE]";

pub(super) fn respond(running: Running) -> Response {
    let chunks = Chunks {
        running,
        tally: Tally::default(),
        ready: VecDeque::new(),
        over: false,
    };
    let events = stream::unfold(chunks, async |mut chunks| {
        let data = chunks.next().await?;
        Some((Ok::<_, Infallible>(sse::Event::default().data(data)), chunks))
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

/// What is left to send.
struct Chunks {
    running: Running,
    tally: Tally,
    ready: VecDeque<String>,
    over: bool,
}

impl Chunks {
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
        let mut choice = self.running.frame.choice(index);
        match event {
            Event::Piece { text, tokens } => {
                self.running.log.wrote();
                choice.text = text;
                choice.attribution = self.running.attribution.then(|| attribute(&self.running.app, &tokens));
                // Held-back text is no news, unless somebody counts tokens.
                if !choice.text.is_empty() || choice.attribution.is_some() {
                    self.push_choice(choice);
                }
            }
            Event::End(ended) => match finish_reason(&ended.finish) {
                Ok(reason) => {
                    choice.finish_reason = Some(reason);
                    self.running.log.finished(reason);
                    self.tally.add(&ended);
                    self.push_choice(choice);
                    if self.running.answers.all_ended() {
                        self.end();
                    }
                }
                Err(what) => self.fail(what),
            },
        }
    }

    fn push_choice(&mut self, choice: Choice) {
        let mut chunk = self.running.frame.completion(vec![choice]);
        if self.running.include_usage {
            chunk.usage = Some(None);
        }
        self.ready.push_back(to_json(&chunk));
    }

    fn end(&mut self) {
        if self.running.include_usage {
            let mut chunk = self.running.frame.completion(Vec::new());
            chunk.usage = Some(Some(Usage::new(&self.running.app, &self.tally)));
            self.ready.push_back(to_json(&chunk));
        }
        self.running.log.answered(&self.tally);
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
