//! What a step is made of: who runs in it, and whose logits it brings.

use std::ops::Range;

use super::{Scheduler, Waiting};
use crate::ahead::Draft;
use crate::ids::RequestId;
use crate::policy::PolicyState;
use crate::request::{Answer, GenerationId, Request, SeatIndex};
use crate::step::{StepBatch, StepRow};

/// What runs in a row of the step that is out.
#[derive(Debug)]
pub(super) struct Running<A: Answer> {
    pub(super) holder: Holder<A>,
    pub(super) seat: SeatIndex,
    /// What the model holds once the step has run.
    pub(super) fed: u32,
    /// Rows of logits: none in the middle of a long stretch; several where several positions are settled.
    pub(super) logits: u32,
    /// When it began to wait for this step.
    pub(super) since_us: u64,
}

/// Whose row it is.
#[derive(Debug)]
pub(super) enum Holder<A: Answer> {
    /// A request's, which is here.
    Request(Box<Request<A>>),
    /// The draft's of this seat.
    Ahead,
    /// Nobody's any more: the draft was dropped after the step had been launched.
    Nobody,
}

/// A row of logits of the step that is out, and what the candidate drawn from it is for.
#[derive(Debug)]
pub struct Row<'a, A: Answer> {
    /// Key of its draws.
    pub seed: u64,
    /// The generation to ask about the candidate; `None`: none.
    pub generation: Option<GenerationId>,
    /// The policy's state at this position.
    pub state: &'a PolicyState,
    /// Who wants the candidate.
    pub wanted: Wanted<'a, A>,
}

/// Who wants a candidate.
#[derive(Debug)]
pub enum Wanted<'a, A: Answer> {
    /// A request, at its next position or, if it is written ahead, at one behind it.
    Request(&'a Request<A>),
    /// A request that is elsewhere, and that this model writes ahead for.
    Ahead(&'a A::Ahead),
    /// Nobody: it lies between two that are wanted, or is of no use any more.
    Nobody,
}

impl<A: Answer> Clone for Row<'_, A> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<A: Answer> Copy for Row<'_, A> {}
impl<A: Answer> Clone for Wanted<'_, A> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<A: Answer> Copy for Wanted<'_, A> {}

/// A row of logits: whose of the running rows, and which of its.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    running: u32,
    nth: u32,
}

impl<A: Answer> Scheduler<A> {
    /// Puts waiting requests into a step in the order they came: all short stretches, and long ones as far as the step's
    /// budget goes, in chunks. What finds no room keeps its place.
    pub(super) fn fill(&mut self, batch: &mut StepBatch) {
        self.empty(batch);
        let mut long_tokens_left = self.limits.long_tokens_max;
        let terms = self.settling_terms();
        while let Some(mut waiting) = self.queue.pop_front() {
            // Another request may have computed it since this one came.
            self.adopt(&mut waiting.request, waiting.seat);
            let unseen = self.unseen(&waiting);
            let is_long = unseen >= self.limits.long_tokens_min;
            let len = if is_long { unseen.min(long_tokens_left) } else { unseen };
            // Settling several positions is for short stretches: the logits of a long one may be spread over its chunks.
            let assumed = if is_long {
                0
            } else {
                let most = self.limits.long_tokens_min - 1 - unseen;
                waiting.request.suffix.tokens_to_feed(most, terms)
            };
            let fed = self.kv.fed(waiting.seat) as usize;
            if len == 0
                || batch.rows.len() == self.limits.rows_max
                || !self.kv.reserve(waiting.seat, fed + len + assumed)
            {
                self.held.push(waiting);
                continue;
            }
            if is_long {
                long_tokens_left -= len;
                self.measured.is_long = true;
            }
            self.push_row(waiting, len, assumed, batch);
        }
        self.queue.extend(self.held.drain(..));
    }

    pub(super) fn empty(&mut self, batch: &mut StepBatch) {
        batch.clear();
        self.places.clear();
    }

    fn push_row(&mut self, waiting: Waiting<A>, len: usize, assumed: usize, batch: &mut StepBatch) {
        let Waiting {
            request,
            seat,
            since_us,
        } = waiting;
        let position = self.kv.fed(seat);
        let unseen = &request.tokens()[position as usize..];
        let logits = if len == unseen.len() { 1 + assumed as u32 } else { 0 };
        let first = batch.tokens.len() as u32;
        batch.tokens.extend_from_slice(&unseen[..len]);
        let ahead = request.suffix.entries.iter().take(assumed);
        batch.tokens.extend(ahead.map(|entry| entry.token));
        let (id, len) = (request.id, (len + assumed) as u32);
        self.push_step_row(batch, seat, id, (first, len), (position, logits));
        self.running.push(Running {
            holder: Holder::Request(request),
            seat,
            fed: position + len,
            logits,
            since_us,
        });
    }

    /// Adds a draft's next token to a step.
    pub(super) fn push_ahead_row(&mut self, seat: SeatIndex, now_us: u64, batch: &mut StepBatch) {
        let position = self.kv.fed(seat);
        let first = batch.tokens.len() as u32;
        let Some(draft) = &mut self.drafts[seat.0 as usize] else {
            return;
        };
        draft.running = true;
        let id = draft.request;
        let unseen = draft.entries.iter().skip((position - draft.start) as usize);
        batch.tokens.extend(unseen.map(|entry| entry.token));
        let len = batch.tokens.len() as u32 - first;
        self.push_step_row(batch, seat, id, (first, len), (position, 1));
        self.running.push(Running {
            holder: Holder::Ahead,
            seat,
            fed: position + len,
            logits: 1,
            since_us: now_us,
        });
    }

    /// Adds a row whose tokens, the first of them and their number, are in the batch; it stands at a position and needs logits.
    fn push_step_row(
        &mut self,
        batch: &mut StepBatch,
        seat: SeatIndex,
        request: RequestId,
        (first, len): (u32, u32),
        (position, logits): (u32, u32),
    ) {
        let first_block = batch.blocks.len() as u32;
        batch.blocks.extend_from_slice(self.kv.blocks(seat));
        let running = self.running.len() as u32;
        self.places.extend((0..logits).map(|nth| Place { running, nth }));
        batch.rows.push(StepRow {
            request,
            first,
            len,
            position,
            logits,
            blocks: first_block..batch.blocks.len() as u32,
            shared: self.kv.shared(seat),
        });
    }

    /// What the step's rows of logits are for, in their order.
    pub fn candidates(&self) -> impl Iterator<Item = Row<'_, A>> + Clone {
        self.places.iter().map(|place| {
            let running = &self.running[place.running as usize];
            match &running.holder {
                Holder::Request(request) => request_row(request, place.nth as usize),
                Holder::Ahead => self.draft_of(running.seat).map_or_else(nobody, draft_row),
                Holder::Nobody => nobody(),
            }
        })
    }

    /// The requests of the step that is out, each with its rows of logits, at least one, to be changed: what travels with them is
    /// theirs.
    pub fn candidates_mut(&mut self) -> impl Iterator<Item = (Range<usize>, &mut Request<A>)> {
        let mut row = 0;
        self.running.iter_mut().filter_map(move |running| {
            let rows = row..row + running.logits as usize;
            row = rows.end;
            match &mut running.holder {
                Holder::Request(request) if !rows.is_empty() => Some((rows, &mut **request)),
                _ => None,
            }
        })
    }

    /// The requests that run in the step that is out, without what is written ahead.
    pub(super) fn running_requests(&self) -> impl Iterator<Item = (&Running<A>, &Request<A>)> {
        self.running.iter().filter_map(|running| match &running.holder {
            Holder::Request(request) => Some((running, &**request)),
            _ => None,
        })
    }
}

fn nobody<'a, A: Answer>() -> Row<'a, A> {
    static EMPTY: PolicyState = PolicyState::EMPTY;
    Row {
        seed: 0,
        generation: None,
        state: &EMPTY,
        wanted: Wanted::Nobody,
    }
}

fn request_row<A: Answer>(request: &Request<A>, nth: usize) -> Row<'_, A> {
    let state = match nth {
        0 => Some(&request.state),
        _ => request.suffix.entries.get(nth).and_then(|entry| entry.asked.as_ref()),
    };
    state.map_or_else(nobody, |state| Row {
        seed: request.seed,
        generation: request.generation,
        state,
        wanted: Wanted::Request(request),
    })
}

fn draft_row<A: Answer>(draft: &Draft<A>) -> Row<'_, A> {
    Row {
        seed: draft.seed,
        generation: draft.generation,
        state: &draft.state,
        wanted: Wanted::Ahead(&draft.ahead),
    }
}
