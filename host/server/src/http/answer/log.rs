//! The one line that a request leaves in the log when it is over, however that comes about.

use std::sync::Arc;
use std::time::Instant;

use super::answers::Tally;
use crate::http::ApiError;
use crate::http::request_id::RequestId;

/// What is known of a request so far. One that is dropped before it was told the end belongs to a client that left.
pub(super) struct RequestLog {
    id: Arc<str>,
    start: Instant,
    model: String,
    model_names: Vec<String>,
    first_token: Option<Instant>,
    finishes: Vec<&'static str>,
    over: bool,
}

impl RequestLog {
    /// A request has come.
    pub(super) fn start(id: &RequestId) -> Self {
        Self {
            id: id.0.clone(),
            start: Instant::now(),
            model: String::new(),
            model_names: Vec::new(),
            first_token: None,
            finishes: Vec::new(),
            over: false,
        }
    }

    /// It is not taken.
    pub(super) fn refused(&mut self, error: &ApiError) {
        self.over = true;
        tracing::info!(request = %self.id, status = error.status().as_u16(), %error, "refused");
    }

    /// It runs, or waits for its turn.
    pub(super) fn accepted(&mut self, model: &str, model_names: Vec<String>) {
        model.clone_into(&mut self.model);
        self.model_names = model_names;
    }

    /// One of its answers has grown.
    pub(super) fn wrote(&mut self) {
        self.first_token.get_or_insert_with(Instant::now);
    }

    /// One of its answers has ended.
    pub(super) fn finished(&mut self, reason: &'static str) {
        self.finishes.push(reason);
    }

    /// All of its answers have ended.
    pub(super) fn answered(&mut self, tally: &Tally) {
        self.over = true;
        let by_model: Vec<String> = self
            .model_names
            .iter()
            .zip(&tally.tokens_by_model)
            .map(|(name, tokens)| format!("{name}={tokens}"))
            .collect();
        tracing::info!(
            request = %self.id,
            model = self.model,
            prompt_tokens = tally.prompt_tokens,
            completion_tokens = tally.completion_tokens,
            by_model = by_model.join(" "),
            handoffs = tally.handoffs,
            first_token_ms = self.first_token_ms(),
            duration_ms = self.duration_ms(),
            finish = self.finishes.join(","),
            "answered"
        );
    }

    /// One of its answers has failed.
    pub(super) fn failed(&mut self, what: &str) {
        self.over = true;
        tracing::warn!(
            request = %self.id, model = self.model, error = what, duration_ms = self.duration_ms(), "failed"
        );
    }

    fn first_token_ms(&self) -> Option<f64> {
        self.first_token.map(|at| millis(at.duration_since(self.start)))
    }

    fn duration_ms(&self) -> f64 {
        millis(self.start.elapsed())
    }
}

fn millis(duration: std::time::Duration) -> f64 {
    duration.as_micros() as f64 / 1_000.0
}

impl Drop for RequestLog {
    fn drop(&mut self) {
        if !self.over {
            tracing::info!(
                request = %self.id, model = self.model, duration_ms = self.duration_ms(), "unfinished: the client left, or the server ended"
            );
        }
    }
}
