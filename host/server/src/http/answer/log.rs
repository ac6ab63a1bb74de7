//! The one line that a request leaves in the log when it is over, however that comes about.

use std::sync::Arc;
use std::time::Instant;

use tokenrouter_engine::stats::Timing;

use super::answers::Tally;
use crate::http::ApiError;
use crate::http::request_id::RequestId;

/// What is known of a request so far. One that is dropped before it was told the end belongs to a client that left.
pub(super) struct RequestLog {
    id: Arc<str>,
    start: Instant,
    model: String,
    model_names: Vec<String>,
    /// Numbers of the policy generations that route its answers.
    generations: String,
    finishes: Vec<&'static str>,
    /// Of the first of its answers that ended.
    timing: Timing,
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
            generations: String::new(),
            finishes: Vec::new(),
            timing: Timing::default(),
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

    /// Which generations route its answers.
    pub(super) fn routed_by(&mut self, generations: &[u32]) {
        let numbers: Vec<String> = generations.iter().map(u32::to_string).collect();
        self.generations = numbers.join(",");
    }

    /// One of its answers has ended.
    pub(super) fn finished(&mut self, reason: &'static str, timing: Timing) {
        if self.finishes.is_empty() {
            self.timing = timing;
        }
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
            cached_tokens = tally.cached.as_ref().map(|cached| cached.tokens),
            completion_tokens = tally.completion_tokens,
            by_model = by_model.join(" "),
            handoffs = tally.handoffs,
            generation = self.generations,
            queue_ms = self.timing.queue_us.map(us_in_ms),
            first_token_ms = self.timing.first_token_us.map(us_in_ms),
            token_ms = self.token_ms(tally),
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

    /// Mean time from one token of the answer to the next, where there is one answer.
    fn token_ms(&self, tally: &Tally) -> Option<f64> {
        let gaps = tally.completion_tokens.checked_sub(1).filter(|&gaps| gaps > 0)?;
        let writing_us = self.timing.total_us - self.timing.first_token_us?;
        (self.finishes.len() == 1).then(|| us_in_ms(writing_us / gaps))
    }

    fn duration_ms(&self) -> f64 {
        us_in_ms(self.start.elapsed().as_micros() as u64)
    }
}

fn us_in_ms(us: u64) -> f64 {
    us as f64 / 1_000.0
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
