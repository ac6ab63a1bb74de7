//! The stream of one answer, from the subserver that writes to the client that reads. Pieces are joined while
//! nobody reads, so a writer never waits for a reader, and a stream never holds more than its answer.

mod assumed;
mod draft;
#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use tokenrouter_core::request::{Finish, GenerationId};
use tokenrouter_core::signal::Signal;
use tokenrouter_core::{ModelIndex, RequestId, TokenId};
use tokenrouter_model::TokenLogprob;

use crate::meter::Timing;

pub use assumed::Assumed;
pub(crate) use assumed::{Assumptions, Kept};
pub(crate) use draft::DraftWriter;

/// A committed token and who wrote it.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// The token.
    pub token: TokenId,
    /// The model that wrote it.
    pub model: ModelIndex,
    /// Characters of the answer's text before what this token completes, counted as if there were no stop strings.
    pub text_offset: u32,
    /// Whether the request has changed hands since the token before it, or since it started.
    pub after_handoff: bool,
    /// Log-probabilities, if the job asked for them and the model has logits.
    pub logprobs: Option<Box<Logprobs>>,
    /// The steps since the token before it, if the job asked for them: those whose candidates were discarded, and last its own.
    pub steps: Vec<StepNote>,
}

/// A step that wrote a candidate of the answer, and what the policy made of it.
#[derive(Clone, Debug, PartialEq)]
pub struct StepNote {
    /// The model that ran it.
    pub model: ModelIndex,
    /// What it wrote.
    pub candidate: TokenId,
    /// The signals that the policy was shown, in the order of its plan for this model; none for a request without policy.
    pub signals: Box<[f32]>,
    /// Which model was to go on.
    pub to: ModelIndex,
}

/// What the model that wrote a token thought of it: ln softmax of its raw logits.
#[derive(Clone, Debug, PartialEq)]
pub struct Logprobs {
    /// Of the token itself, in nats.
    pub logprob: f32,
    /// The most probable tokens, descending, as many as the job asked for.
    pub top: Vec<TokenLogprob>,
}

/// What ended an answer short of its length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// One of its stop strings.
    String(String),
    /// A token that ends answers, one of the models' or one of the job's.
    Token(TokenId),
}

/// A request that went to another model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handoff {
    /// Tokens that the answer had.
    pub position: u32,
    /// Whence.
    pub from: ModelIndex,
    /// Where to.
    pub to: ModelIndex,
}

/// How an answer ended, with its counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How.
    pub finish: Finish,
    /// What ended it, if it was not its length.
    pub stopped: Option<Stopped>,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Tokens of the answer, a stop token included.
    pub answer_tokens: u32,
    /// Tokens of the answer by the model that wrote them, one entry for each model of the deployment.
    pub tokens_by_model: Vec<u32>,
    /// Tokens of the prompt that the model it started at held for other requests.
    pub cached_tokens: u32,
    /// The same for each model of the deployment.
    pub cached_by_model: Vec<u32>,
    /// How often the request moved to another model.
    pub handoffs: u32,
    /// Each of these moves, in order, if the job asked for attribution.
    pub handoff_log: Vec<Handoff>,
    /// When things happened to it.
    pub timing: Timing,
}

impl Ended {
    /// The end of an answer that has nothing.
    pub(crate) fn empty(finish: Finish, models: usize) -> Self {
        Self {
            finish,
            stopped: None,
            prompt_tokens: 0,
            answer_tokens: 0,
            tokens_by_model: vec![0; models],
            cached_tokens: 0,
            cached_by_model: vec![0; models],
            handoffs: 0,
            handoff_log: Vec::new(),
            timing: Timing::default(),
        }
    }
}

/// What a reader gets.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// More of the answer. Text may lag behind tokens: a character or a stop string may still be open.
    Piece {
        /// Text, perhaps empty.
        text: String,
        /// Tokens committed since the last piece.
        tokens: Vec<Written>,
        /// All that is assumed behind them now, in order; nothing unless the job asked for it. It replaces what the piece before
        /// had.
        assumed: Vec<Assumed>,
    },
    /// The end; nothing comes after it.
    End(Ended),
}

#[derive(Debug, Default)]
struct State {
    text: String,
    tokens: Vec<Written>,
    end: Option<Ended>,
    closed: bool,
    /// What is written ahead, if anybody wants to know.
    assumptions: Option<Box<Assumptions>>,
    waker: Option<Waker>,
    /// A thread sleeps until something changes. Notifying nobody would cost a system call for every token.
    sleeper: bool,
}

/// Where a request is that waits in the queue.
const AT_NO_MODEL: u32 = u32::MAX;

#[derive(Debug)]
struct Shared {
    /// Whether there are [`State::assumptions`], for those who need not lock to find none.
    assumes: bool,
    state: Mutex<State>,
    changed: Condvar,
    abandoned: AtomicBool,
    /// Index of the model that has the request.
    at: AtomicU32,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // The state is whole between any two statements of this module, so a poisoned lock is still good.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether this is the end: only the first one counts.
    fn end(&self, ended: Ended) -> bool {
        let mut state = self.state();
        let first = !std::mem::replace(&mut state.closed, true);
        if first {
            state.end = Some(ended);
            if let Some(assumptions) = &mut state.assumptions {
                assumptions.drop_all();
            }
        }
        self.wake(state);
        first
    }

    fn wake(&self, mut state: MutexGuard<'_, State>) {
        let waker = state.waker.take();
        let sleeper = std::mem::take(&mut state.sleeper);
        drop(state);
        if sleeper {
            self.changed.notify_all();
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// See [`AnswerWriter::handle`].
#[derive(Debug)]
pub(crate) struct AnswerHandle(Weak<Shared>);

impl AnswerHandle {
    /// Ends the answer if its request is at `model`, and marks the request as abandoned. Returns whether it was, and had not
    /// ended.
    pub(crate) fn fail_at(&self, model: ModelIndex, reason: &str) -> bool {
        let Some(shared) = self.0.upgrade().filter(|it| it.at.load(Ordering::Relaxed) == model.0) else {
            return false;
        };
        shared.abandoned.store(true, Ordering::Release);
        shared.end(Ended::empty(Finish::Failed(reason.to_owned()), 0))
    }
}

/// The subserver's end.
#[derive(Debug)]
pub(crate) struct AnswerWriter(Arc<Shared>);

impl AnswerWriter {
    /// Adds to the answer.
    pub(crate) fn write(&self, text: &str, token: Option<Written>) {
        self.add(text, token, false);
    }

    /// Adds what ends the answer, behind which nothing can be assumed any more.
    pub(crate) fn write_last(&self, text: &str, token: Option<Written>) {
        self.add(text, token, true);
    }

    fn add(&self, text: &str, mut token: Option<Written>, is_last: bool) {
        let mut state = self.0.state();
        if state.closed {
            return;
        }
        if let Some(assumptions) = &mut state.assumptions {
            if let Some(token) = &mut token {
                assumptions.commit(token);
            }
            if is_last {
                assumptions.drop_all();
            }
        }
        state.text.push_str(text);
        state.tokens.extend(token);
        self.0.wake(state);
    }

    /// Ends the answer; whatever comes later is ignored.
    pub(crate) fn end(&self, ended: Ended) {
        self.0.end(ended);
    }

    /// The way for what is written ahead from now on, if anybody wants to know.
    pub(crate) fn draft(&self) -> Option<DraftWriter> {
        if !self.0.assumes {
            return None;
        }
        DraftWriter::begin(&self.0)
    }

    /// The step in which `by` wrote the token ahead that is to be settled next, if it was and steps are kept.
    pub(crate) fn take_step_ahead(&self, by: ModelIndex) -> Option<StepNote> {
        if !self.0.assumes {
            return None;
        }
        self.0.state().assumptions.as_mut()?.take_step(by)
    }

    /// The request goes to a model.
    pub(crate) fn moves_to(&self, model: ModelIndex) {
        self.0.at.store(model.0, Ordering::Relaxed);
    }

    /// A way to end the answer for somebody who has not got the request.
    pub(crate) fn handle(&self) -> AnswerHandle {
        AnswerHandle(Arc::downgrade(&self.0))
    }

    /// Whether the reader is gone.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.0.abandoned.load(Ordering::Acquire)
    }
}

/// Called with the request's id when a reader leaves before the end.
pub(crate) type OnAbandon = Box<dyn Fn(RequestId) + Send + Sync>;

/// The reader's end. Dropping it before the end cancels the request.
pub struct AnswerStream {
    id: RequestId,
    seed: u64,
    generation: Option<GenerationId>,
    signals: Vec<Vec<Signal>>,
    shared: Arc<Shared>,
    ended: bool,
    on_abandon: OnAbandon,
}

impl std::fmt::Debug for AnswerStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnswerStream")
            .field("id", &self.id)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl AnswerStream {
    pub(crate) fn set_generation(&mut self, generation: Option<GenerationId>) {
        self.generation = generation;
    }

    pub(crate) fn set_signals(&mut self, signals: Vec<Vec<Signal>>) {
        self.signals = signals;
    }

    /// What [`StepNote::signals`] are, by model; empty unless the job asked for steps and a policy routes it.
    pub fn signals(&self) -> &[Vec<Signal>] {
        &self.signals
    }

    /// The request's id.
    pub fn id(&self) -> RequestId {
        self.id
    }

    /// The generation that routes it; `None` for a request that stays at one model.
    pub fn generation(&self) -> Option<GenerationId> {
        self.generation
    }

    /// The seed the request runs with.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The next event; `None` after the end.
    pub async fn next(&mut self) -> Option<Event> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// The next event, for executors.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Event>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let mut state = self.shared.state();
        if let Some(event) = take(&mut state) {
            drop(state);
            return Poll::Ready(Some(self.note(event)));
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// The next event, waiting on this thread; `None` after the end.
    pub fn next_blocking(&mut self) -> Option<Event> {
        if self.ended {
            return None;
        }
        let mut state = self.shared.state();
        loop {
            if let Some(event) = take(&mut state) {
                drop(state);
                return Some(self.note(event));
            }
            state.sleeper = true;
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The request was never taken: leaving now means nothing to anybody.
    pub(crate) fn refuse(&mut self) {
        self.ended = true;
    }

    fn note(&mut self, event: Event) -> Event {
        self.ended |= matches!(event, Event::End(_));
        event
    }
}

fn take(state: &mut State) -> Option<Event> {
    let assumptions = state.assumptions.as_deref_mut();
    let changed = assumptions.is_some_and(Assumptions::take_changed);
    if changed || !state.text.is_empty() || !state.tokens.is_empty() {
        let assumptions = state.assumptions.as_deref();
        return Some(Event::Piece {
            text: std::mem::take(&mut state.text),
            tokens: std::mem::take(&mut state.tokens),
            assumed: assumptions.map_or_else(Vec::new, Assumptions::shown),
        });
    }
    state.end.take().map(Event::End)
}

impl Drop for AnswerStream {
    fn drop(&mut self) {
        if !self.ended {
            self.shared.abandoned.store(true, Ordering::Release);
            (self.on_abandon)(self.id);
        }
    }
}

/// The two ends of a new stream.
pub(crate) fn answer_stream(
    id: RequestId,
    seed: u64,
    assumptions: Option<Assumptions>,
    on_abandon: OnAbandon,
) -> (AnswerWriter, AnswerStream) {
    let shared = Arc::new(Shared {
        assumes: assumptions.is_some(),
        state: Mutex::new(State {
            assumptions: assumptions.map(Box::new),
            ..State::default()
        }),
        changed: Condvar::new(),
        abandoned: AtomicBool::new(false),
        at: AtomicU32::new(AT_NO_MODEL),
    });
    (
        AnswerWriter(shared.clone()),
        AnswerStream {
            id,
            seed,
            generation: None,
            signals: Vec::new(),
            shared,
            ended: false,
            on_abandon,
        },
    )
}
