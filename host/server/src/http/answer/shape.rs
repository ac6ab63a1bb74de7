//! How an endpoint's answers look.

use serde::Serialize;
use tokenrouter_engine::stream::{Assumed, Written};

/// A part of an answer: a piece of a stream, or all of it.
#[derive(Debug, Default)]
pub(in crate::http) struct Part {
    pub(in crate::http) text: String,
    /// The tokens that were committed with it; text may lag behind.
    pub(in crate::http) tokens: Vec<Written>,
    /// What is assumed behind it, if the client wants to know. It is no part of the answer, so shapes leave it alone.
    pub(in crate::http) assumed: Vec<Assumed>,
    /// The text that would follow what has been sent, if that came true.
    pub(in crate::http) assumed_text: String,
    /// How the answer ended, in its last part.
    pub(in crate::http) finish_reason: Option<&'static str>,
}

/// An endpoint's own part of its responses. One value serves all choices of a request and may keep what it needs of them.
pub(in crate::http) trait Shape: Send + 'static {
    /// The endpoint's fields of a choice; they are written among the common ones.
    type Body: Serialize + Send;

    /// What response ids begin with.
    const ID_PREFIX: &'static str;
    /// `object` of a whole response.
    const WHOLE: &'static str;
    /// `object` of a chunk of a stream.
    const CHUNK: &'static str;

    /// What a choice's stream begins with, before any token.
    fn opening(&mut self, _choice: usize) -> Option<Self::Body> {
        None
    }

    /// A chunk of a choice. A part without text and tokens must be shown as one.
    fn chunk(&mut self, choice: usize, part: &Part) -> Self::Body;

    /// A whole choice.
    fn whole(&mut self, choice: usize, part: &Part) -> Self::Body;

    /// The `finish_reason` to show, after the choice's last part was.
    fn finish_reason(&self, _choice: usize, reason: &'static str) -> &'static str {
        reason
    }
}

/// A log-probability as JSON can have it: without infinities. A token that the model rules out has -9999, as in OpenAI's API.
pub(in crate::http) fn shown_logprob(logprob: f32) -> f32 {
    logprob.max(-9999.0)
}
