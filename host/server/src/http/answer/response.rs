//! The parts of a response that all endpoints share: its frame, its choices and its usage.

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use tokenrouter_core::TokenId;
use tokenrouter_engine::stream::{Ended, Handoff, Stopped, Written};

use super::answers::Tally;
use super::assumed::{Behind, behind};
use super::steps::{Step, steps};
use super::{Context, Part, Shape};
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

/// A whole response, or a chunk of a stream.
#[derive(Serialize)]
pub(super) struct Object<'a, B> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: Vec<Choice<'a, B>>,
    /// Outer `None`: no such field. Inner `None`: null, as in the chunks of a stream that ends with its usage.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Option<Usage<'a>>>,
}

/// One answer, or more of it.
#[derive(Serialize)]
pub(super) struct Choice<'a, B> {
    index: usize,
    #[serde(flatten)]
    body: B,
    finish_reason: Option<&'static str>,
    /// The stop string or the token of `stop_token_ids` that ended the answer.
    stop_reason: Option<StopReason>,
    /// With this seed and the same fields the answer comes again.
    seed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_token_ids: Option<Vec<TokenId>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_ids: Option<Vec<TokenId>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attribution: Option<Vec<Attributed<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    assumed: Option<Behind<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    handoffs: Option<Vec<Moved<'a>>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum StopReason {
    String(String),
    Token(TokenId),
}

/// A token and who wrote it.
#[derive(Serialize)]
struct Attributed<'a> {
    id: TokenId,
    token: String,
    bytes: Vec<u8>,
    model: &'a str,
    after_handoff: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<Vec<Step<'a>>>,
}

/// A handoff, after so many tokens of the answer.
#[derive(Serialize)]
struct Moved<'a> {
    position: u32,
    from: &'a str,
    to: &'a str,
}

/// What the answers have cost.
#[derive(Serialize)]
pub(super) struct Usage<'a> {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_tokens_details: Option<PromptDetails>,
    tokenrouter: Routed<'a>,
}

/// How much of the prompts did not have to be computed before the first token. Known with the answers' ends.
#[derive(Serialize)]
struct PromptDetails {
    cached_tokens: u64,
}

/// Who wrote how much.
#[derive(Serialize)]
struct Routed<'a> {
    #[serde(serialize_with = "by_name")]
    tokens_by_model: Vec<(&'a str, u64)>,
    handoffs: u64,
    /// Tokens of the prompts that each model had from other requests.
    #[serde(serialize_with = "by_name", skip_serializing_if = "Vec::is_empty")]
    cached_tokens_by_model: Vec<(&'a str, u64)>,
}

/// What part of a choice is to be told.
pub(super) enum Told<'a> {
    /// The beginning of a stream.
    Opening,
    /// A piece of a stream; the last has the end.
    Chunk(&'a Part, Option<&'a Ended>),
    /// All of it.
    Whole(&'a Part, &'a Ended),
}

/// A part that has nothing.
static NOTHING: Part = Part {
    text: String::new(),
    tokens: Vec::new(),
    assumed: Vec::new(),
    assumed_text: String::new(),
    finish_reason: None,
};

impl Context {
    /// A part of a choice; `None` for an opening that has nothing.
    pub(super) fn choice<'a, S: Shape>(
        &'a self,
        shape: &mut S,
        index: usize,
        told: &Told<'a>,
    ) -> Option<Choice<'a, S::Body>> {
        let (part, ended, first) = match told {
            Told::Opening => (&NOTHING, None, true),
            Told::Chunk(part, ended) => (*part, *ended, false),
            Told::Whole(part, ended) => (*part, Some(*ended), true),
        };
        let body = match told {
            Told::Opening => match shape.opening(index) {
                Some(body) => body,
                None if self.params.return_token_ids => shape.chunk(index, part),
                None => return None,
            },
            Told::Chunk(..) => shape.chunk(index, part),
            Told::Whole(..) => shape.whole(index, part),
        };
        let reason = part.finish_reason;
        let own_stops = &self.params.stopping.tokens;
        let attribution = self.params.own.attribution;
        let ids = self.params.return_token_ids;
        Some(Choice {
            index,
            body,
            finish_reason: reason.map(|reason| shape.finish_reason(index, reason)),
            stop_reason: match ended.and_then(|ended| ended.stopped.as_ref()) {
                Some(Stopped::String(string)) => Some(StopReason::String(string.clone())),
                Some(Stopped::Token(token)) if own_stops.contains(token) => Some(StopReason::Token(*token)),
                _ => None,
            },
            seed: self.frame.seeds[index],
            prompt_token_ids: (ids && first).then(|| self.prompts[index / self.params.n].clone()),
            token_ids: ids.then(|| part.tokens.iter().map(|written| written.token).collect()),
            attribution: attribution.then(|| self.attribute(index, &part.tokens)),
            assumed: behind(&self.app, part),
            handoffs: ended
                .filter(|_| attribution)
                .map(|ended| moved(&self.app, &ended.handoff_log)),
        })
    }

    /// The tokens with their text. A token that is only a part of a character has U+FFFD in its text, but all of its bytes.
    fn attribute<'a>(&'a self, index: usize, written: &'a [Written]) -> Vec<Attributed<'a>> {
        let (app, tokenizer) = (&*self.app, self.app.engine.tokenizer());
        let tells_steps = self.params.own.steps;
        let attributed = |written: &'a Written| Attributed {
            id: written.token,
            token: tokenizer.token_text(written.token),
            bytes: tokenizer.token_bytes(written.token),
            model: &app.models[written.model.index()].name,
            after_handoff: written.after_handoff,
            steps: tells_steps.then(|| steps(app, &self.signals[index], &written.steps)),
        };
        written.iter().map(attributed).collect()
    }
}

impl Frame {
    /// An object with these choices.
    pub(super) fn object<'a, B>(
        &'a self,
        object: &'static str,
        choices: Vec<Choice<'a, B>>,
        usage: Option<Option<Usage<'a>>>,
    ) -> Object<'a, B> {
        Object {
            id: &self.id,
            object,
            created: self.created,
            model: &self.model,
            choices,
            usage,
        }
    }
}

impl<'a> Usage<'a> {
    /// Every model of the deployment is named, those that wrote nothing too.
    pub(super) fn new(app: &'a App, tally: &Tally) -> Self {
        let names = || app.models.iter().map(|model| model.name.as_str());
        let cached = tally.cached.as_ref();
        let cached_by_model = cached.map_or(&[][..], |cached| &cached.by_model);
        Self {
            prompt_tokens: tally.prompt_tokens,
            completion_tokens: tally.completion_tokens,
            total_tokens: tally.prompt_tokens + tally.completion_tokens,
            prompt_tokens_details: cached.map(|cached| PromptDetails {
                cached_tokens: cached.tokens,
            }),
            tokenrouter: Routed {
                tokens_by_model: names().zip(tally.tokens_by_model.iter().copied()).collect(),
                handoffs: tally.handoffs,
                cached_tokens_by_model: names().zip(cached_by_model.iter().copied()).collect(),
            },
        }
    }
}

fn moved<'a>(app: &'a App, handoffs: &[Handoff]) -> Vec<Moved<'a>> {
    let moved = |handoff: &Handoff| Moved {
        position: handoff.position,
        from: &app.models[handoff.from.index()].name,
        to: &app.models[handoff.to.index()].name,
    };
    handoffs.iter().map(moved).collect()
}

/// A JSON object in the deployment's order of models.
fn by_name<S: Serializer>(entries: &[(&str, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(entries.len()))?;
    for (name, tokens) in entries {
        map.serialize_entry(name, tokens)?;
    }
    map.end()
}
