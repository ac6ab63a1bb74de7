//! The API's objects: a completion, its choices and its usage.

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use tokenrouter_engine::stream::Written;

use super::answers::Tally;
use crate::http::App;

/// What all objects of one response have in common.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) id: String,
    pub(super) created: u64,
    pub(super) model: String,
    /// The seed of each answer.
    pub(super) seeds: Vec<u64>,
}

/// A whole answer, or a chunk of a stream.
#[derive(Debug, Serialize)]
pub(super) struct Completion<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    pub(super) choices: Vec<Choice>,
    /// Outer `None`: no such field. Inner `None`: null, as in the chunks of a stream that ends with its usage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage: Option<Option<Usage<'a>>>,
}

/// One answer, or more of it.
#[derive(Debug, Serialize)]
pub(super) struct Choice {
    pub(super) index: usize,
    pub(super) text: String,
    pub(super) logprobs: Option<()>,
    pub(super) finish_reason: Option<&'static str>,
    /// With this seed and the same fields the answer comes again.
    pub(super) seed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) attribution: Option<Vec<Attributed>>,
}

/// A token and who wrote it.
#[derive(Debug, Serialize)]
pub(super) struct Attributed {
    id: u32,
    token: String,
    model: String,
}

/// What the answers have cost.
#[derive(Debug, Serialize)]
pub(super) struct Usage<'a> {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    #[serde(serialize_with = "by_name")]
    tokens_by_model: Vec<(&'a str, u64)>,
    handoffs: u64,
}

impl Frame {
    /// An object with these choices.
    pub(super) fn completion(&self, choices: Vec<Choice>) -> Completion<'_> {
        let Self { id, created, model, .. } = self;
        Completion {
            id,
            object: "text_completion",
            created: *created,
            model,
            choices,
            usage: None,
        }
    }

    /// A choice of a stream or the beginning of a whole one.
    pub(super) fn choice(&self, index: usize) -> Choice {
        let seed = self.seeds[index];
        Choice {
            index,
            text: String::new(),
            logprobs: None,
            finish_reason: None,
            seed,
            attribution: None,
        }
    }
}

impl<'a> Usage<'a> {
    /// Every model of the deployment is named, those that wrote nothing too.
    pub(super) fn new(app: &'a App, tally: &Tally) -> Self {
        let written = tally.tokens_by_model.iter().copied().chain(std::iter::repeat(0));
        Self {
            prompt_tokens: tally.prompt_tokens,
            completion_tokens: tally.completion_tokens,
            total_tokens: tally.prompt_tokens + tally.completion_tokens,
            tokens_by_model: app
                .models
                .iter()
                .map(|model| model.name.as_str())
                .zip(written)
                .collect(),
            handoffs: tally.handoffs,
        }
    }
}

/// The tokens with their text. A token that is only a part of a character has U+FFFD in its text.
pub(super) fn attribute(app: &App, written: &[Written]) -> Vec<Attributed> {
    let attributed = |written: &Written| Attributed {
        id: written.token,
        token: app.engine.tokenizer().token_text(written.token),
        model: app.models[written.model.index()].name.clone(),
    };
    written.iter().map(attributed).collect()
}

/// A JSON object in the deployment's order of models.
fn by_name<S: Serializer>(entries: &[(&str, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(entries.len()))?;
    for (name, tokens) in entries {
        map.serialize_entry(name, tokens)?;
    }
    map.end()
}
