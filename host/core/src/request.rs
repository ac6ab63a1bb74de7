//! A request: everything about it that is not a model's KV cache. It moves as a whole from one model's scheduler to
//! the next, so whoever holds it may change it and nobody has to ask.

use std::ops::Range;

use crate::ahead::Suffix;
use crate::ids::{ModelIndex, RequestId, TokenId};
use crate::limits::MODELS_MAX;
use crate::policy::PolicyState;
use crate::prefix::PrefixSalt;

/// A generation of a policy: one component with one configuration. Requests keep theirs to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GenerationId(pub u32);

/// A request's place at one model: an index into that model's table of seats, valid from the first visit to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeatIndex(pub u32);

/// How a request ended. Exactly one of these, exactly once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    /// A stop token or a stop string.
    Stop,
    /// The most tokens it may have.
    Length,
    /// The client left.
    Cancelled,
    /// Something failed; the text says what, for the client.
    Failed(String),
}

/// What happens to committed tokens, supplied from above: text, stop strings, the stream to the client.
pub trait Answer {
    /// What it takes to draw candidates and to ask the policy where the request itself is not, while it is written ahead.
    type Ahead: std::fmt::Debug;

    /// The above, or `None` if this request is not to be written ahead, because what its candidates or signals depend on changes with
    /// every committed token.
    fn ahead(&self) -> Option<Self::Ahead>;

    /// `by` has written `token` ahead, behind all that it has assumed so far with this `ahead`; `asks` is the model that is asked
    /// about it, none for the writer's own. Called once for every entry of a draft, its first included, before anybody else
    /// hears of it. The end of the draft is the drop of its `ahead`.
    fn assumed(_ahead: &Self::Ahead, _token: TokenId, _by: ModelIndex, _asks: Option<ModelIndex>) {}

    /// The request has been handed over.
    fn handed_over(&mut self, from: ModelIndex, to: ModelIndex);

    /// A token has become part of the answer. Returns how the answer ends, if it ends with this token.
    fn commit(&mut self, token: TokenId, by: ModelIndex) -> Option<Finish>;

    /// Whether nobody waits for the answer any more. Asked when a request arrives and after every step.
    fn abandoned(&self) -> bool;
}

/// One request of a deployment.
#[derive(Debug)]
pub struct Request<A> {
    /// Its id; the smaller is the older.
    pub id: RequestId,
    /// Key of all its random draws.
    pub seed: u64,
    /// The generation that routes it; `None` for a request that stays at one model.
    pub generation: Option<GenerationId>,
    /// The policy's words about it.
    pub state: PolicyState,
    /// Whose prefixes it shares at every model; `None`: nobody's, and nobody shares its.
    pub prefix_salt: Option<PrefixSalt>,
    /// Text, stream and sampling settings.
    pub answer: A,
    tokens: Vec<TokenId>,
    prompt_tokens: u32,
    length_max: u32,
    tokens_by_model: [u32; MODELS_MAX],
    /// Tokens of the prompt that each model had when the request first came to it.
    cached_by_model: [u32; MODELS_MAX],
    /// The model that it came to first.
    entry: Option<ModelIndex>,
    handoffs: u32,
    discards_running: u32,
    leaving: [Option<f32>; MODELS_MAX],
    seats: [Option<SeatIndex>; MODELS_MAX],
    /// Positions assumed behind the tokens; see [`crate::ahead`].
    pub(crate) suffix: Suffix,
    /// What the model that was asked last is expected to do.
    pub(crate) expected: Option<Expected>,
}

/// What the model that is asked is expected to write, kept to see how often it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub(crate) by: ModelIndex,
    pub(crate) position: u32,
    pub(crate) token: TokenId,
    pub(crate) back: PolicyState,
}

impl<A: Answer> Request<A> {
    /// A new request. `tokens_max` bounds the answer, not counting the prompt; memory for the whole sequence is taken here,
    /// so that no commit allocates.
    ///
    /// # Panics
    /// If the prompt is empty or `tokens_max` is 0: both are refused before a request is made.
    pub fn new(id: RequestId, seed: u64, prompt: &[TokenId], tokens_max: u32, answer: A) -> Self {
        assert!(
            !prompt.is_empty() && tokens_max > 0,
            "a request has a prompt and something to write"
        );
        let length_max = prompt.len() + tokens_max as usize;
        let mut tokens = Vec::with_capacity(length_max);
        tokens.extend_from_slice(prompt);
        Self {
            id,
            seed,
            generation: None,
            state: PolicyState::default(),
            prefix_salt: None,
            answer,
            tokens,
            prompt_tokens: prompt.len() as u32,
            length_max: length_max as u32,
            tokens_by_model: [0; MODELS_MAX],
            cached_by_model: [0; MODELS_MAX],
            entry: None,
            handoffs: 0,
            discards_running: 0,
            leaving: [None; MODELS_MAX],
            seats: [None; MODELS_MAX],
            suffix: Suffix::default(),
            expected: None,
        }
    }

    /// Prompt and committed answer.
    pub fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// Tokens of the prompt.
    pub fn prompt_tokens(&self) -> u32 {
        self.prompt_tokens
    }

    /// Tokens of the answer so far.
    pub fn answer_tokens(&self) -> u32 {
        self.tokens.len() as u32 - self.prompt_tokens
    }

    /// Tokens that prompt and answer may have together.
    pub fn length_max(&self) -> u32 {
        self.length_max
    }

    /// Tokens of the answer that each model wrote.
    pub fn tokens_by_model(&self) -> &[u32; MODELS_MAX] {
        &self.tokens_by_model
    }

    /// Tokens of the prompt that each model did not have to be fed, because it held them for another request. What a request computes
    /// itself, loses and finds again does not count.
    pub fn cached_by_model(&self) -> &[u32; MODELS_MAX] {
        &self.cached_by_model
    }

    /// [`Request::cached_by_model`] of the model that the request came to first: what its first token did not have to wait for.
    pub fn cached_tokens(&self) -> u32 {
        self.entry.map_or(0, |entry| self.cached_by_model[entry.index()])
    }

    /// A model holds these positions for the first time, and another request's KV saved it from being fed them.
    pub(crate) fn note_cached(&mut self, at: ModelIndex, positions: Range<u32>) {
        let prompt = self.prompt_tokens;
        self.cached_by_model[at.index()] += positions.end.min(prompt) - positions.start.min(prompt);
    }

    /// How often the request moved to another model.
    pub fn handoffs(&self) -> u32 {
        self.handoffs
    }

    /// Candidates discarded one after the other since the last commit.
    pub fn discards_running(&self) -> u32 {
        self.discards_running
    }

    /// Makes a candidate part of the answer. Returns how the request ends, if it does.
    pub(crate) fn commit(&mut self, token: TokenId, by: ModelIndex) -> Option<Finish> {
        debug_assert!(
            self.tokens.len() < self.length_max as usize,
            "a full request was not ended"
        );
        self.tokens.push(token);
        self.tokens_by_model[by.index()] += 1;
        self.discards_running = 0;
        let ended = self.answer.commit(token, by);
        if ended.is_none() && self.tokens.len() == self.length_max as usize {
            return Some(Finish::Length);
        }
        ended
    }

    /// Running mean of whether it left `model` after its steps there; see [`crate::estimate::Leaving`].
    pub(crate) fn leaving(&self, model: ModelIndex) -> Option<f32> {
        self.leaving[model.index()]
    }

    pub(crate) fn set_leaving(&mut self, model: ModelIndex, mean: f32) {
        self.leaving[model.index()] = Some(mean);
    }

    pub(crate) fn note_handoff(&mut self, from: ModelIndex, to: ModelIndex, discarded: bool) {
        self.handoffs += 1;
        self.discards_running += u32::from(discarded);
        self.answer.handed_over(from, to);
    }

    /// Whether the model that was asked last did what was expected of it. Asked once, where it is back.
    pub(crate) fn take_agreed(&mut self, at: ModelIndex) -> Option<bool> {
        let expected = self.expected.take_if(|expected| expected.by == at)?;
        let came_back_at_once = self.tokens.len() as u32 == expected.position + 1;
        Some(came_back_at_once && self.tokens.last() == Some(&expected.token) && self.state == expected.back)
    }

    pub(crate) fn seat(&self, model: ModelIndex) -> Option<SeatIndex> {
        self.seats[model.index()]
    }

    pub(crate) fn set_seat(&mut self, model: ModelIndex, seat: SeatIndex) {
        self.entry.get_or_insert(model);
        self.seats[model.index()] = Some(seat);
    }

    /// The models that hold a seat for it, with the seat.
    pub fn seats(&self) -> impl Iterator<Item = (ModelIndex, SeatIndex)> + '_ {
        (0u32..)
            .map(ModelIndex)
            .zip(&self.seats)
            .filter_map(|(model, seat)| seat.map(|seat| (model, seat)))
    }
}
