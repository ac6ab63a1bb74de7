//! Writing ahead for requests that another model decides about; see [`crate::ahead`].

use super::rows::{Holder, Running};
use super::{Action, Scheduler, Verdict, Waiting};
use crate::ahead::{Assumed, Draft, Foreseen, Optimistic};
use crate::ids::{ModelIndex, RequestId, TokenId};
use crate::request::{Answer, Finish, Request, SeatIndex};

impl<A: Answer> Scheduler<A> {
    /// The request leaves with a candidate that was discarded: goes on behind it if that is likely to be of use.
    pub(super) fn begin_ahead(
        &mut self,
        request: &mut Request<A>,
        row: &Running<A>,
        to: ModelIndex,
        candidate: TokenId,
        foreseen: Foreseen,
    ) {
        if self.rule.is_synchronous() {
            return;
        }
        let may = match self.optimistic {
            Optimistic::Off => return,
            Optimistic::Window(_) => true,
            Optimistic::Auto => {
                Self::expect(request, self.model, candidate, foreseen);
                self.agreements.probability(request.generation) >= super::worth::CHANCE_MIN
            }
        };
        let Some(ahead) = may.then(|| request.answer.ahead()).flatten() else {
            return;
        };
        A::assumed(&ahead, candidate, self.model, Some(to));
        // The draft sees for itself whether it is confirmed.
        request.expected = None;
        let first = Assumed {
            token: candidate,
            asked: Some(foreseen.there),
            after: foreseen.back,
        };
        request.suffix.clear();
        request.suffix.writer = Some(self.model);
        // Room for all there can be, so that nothing grows later.
        request.suffix.entries.reserve(self.optimistic.entries_max());
        request.suffix.entries.push_back(first);
        let mut memory = self.memory.pop().unwrap_or_default();
        memory.clear();
        memory.reserve(self.optimistic.entries_max());
        let mut draft = Draft::new(request, ahead, (row.seat, to), first, memory);
        draft.leaving = request.leaving(self.model);
        let place = row.seat.0 as usize;
        if self.drafts.len() <= place {
            self.drafts.resize_with(place + 1, || None);
        }
        debug_assert!(self.drafts[place].is_none(), "a request has one draft");
        self.drafts[place] = Some(draft);
        self.drafts_live += 1;
    }

    pub(super) fn draft_of(&self, seat: SeatIndex) -> Option<&Draft<A>> {
        self.drafts.get(seat.0 as usize)?.as_ref()
    }

    /// A token has been written ahead.
    pub(super) fn settle_ahead(
        &mut self,
        seat: SeatIndex,
        candidate: TokenId,
        verdict: &Verdict,
        foreseen: &[Foreseen],
        actions: &mut Vec<Action<A>>,
    ) {
        let Some(draft) = &mut self.drafts[seat.0 as usize] else {
            return;
        };
        draft.running = false;
        let entry = match *verdict {
            Verdict::Stay { state } => Some((None, state)),
            Verdict::HandOff {
                to,
                keep: false,
                foreseen: Some(place),
                ..
            } if to == draft.settler => foreseen
                .get(place as usize)
                .map(|states| (Some(states.there), states.back)),
            _ => None,
        };
        let Some((asked, after)) = entry else {
            // What it would take cannot be assumed. When all before it is settled, the row is run again, and gives the same.
            draft.blocked = true;
            return;
        };
        let entry = Assumed {
            token: candidate,
            asked,
            after,
        };
        let position = draft.end();
        draft.push(entry);
        A::assumed(&draft.ahead, candidate, self.model, asked.map(|_| draft.settler));
        self.ahead.written += 1;
        actions.push(Action::Assume {
            at: draft.settler,
            request: draft.request,
            position,
            entry,
        });
    }

    /// What is written ahead for a request that is settled here. Passed over if the request has gone on since.
    pub fn assume(&mut self, request: RequestId, position: u32, entry: Assumed) {
        let waiting = self.queue.iter_mut().map(|waiting| &mut *waiting.request);
        let running = self.running.iter_mut().filter_map(|running| match &mut running.holder {
            Holder::Request(request) => Some(&mut **request),
            _ => None,
        });
        let Some(found) = waiting.chain(running).find(|found| found.id == request) else {
            return;
        };
        let next = found.tokens().len() + found.suffix.entries.len();
        let suffix = &mut found.suffix;
        if suffix.writer.is_some() && next == position as usize {
            suffix.entries.push_back(entry);
        }
    }

    /// The draft at `seat` is confirmed up to `length` tokens of the whole sequence; if it does not go on, all behind that is
    /// wrong.
    pub fn settled(&mut self, seat: SeatIndex, length: u32, goes_on: bool) {
        self.confirm(seat, length, |_, _| true);
        if !goes_on {
            self.refuse(seat);
        }
    }

    /// Counts what is confirmed, and takes it out of the draft: all before `length` that is `right`, by position and token.
    fn confirm(&mut self, seat: SeatIndex, length: u32, right: impl Fn(u32, TokenId) -> bool) {
        let Some(mut draft) = self.drafts.get_mut(seat.0 as usize).and_then(Option::take) else {
            return;
        };
        while draft.start < length
            && let Some(front) = draft.entries.front()
            && right(draft.start, front.token)
            && let Some(entry) = draft.pop()
        {
            if entry.asked.is_some() {
                self.agreements.record(draft.generation, true);
            }
            self.count_assumed(&mut draft, entry);
        }
        self.drafts[seat.0 as usize] = Some(draft);
    }

    /// Counts the move of an entry that was just taken out, as if it had been made at its own step.
    fn count_assumed(&mut self, draft: &mut Draft<A>, entry: Assumed) {
        if draft.start <= draft.counted {
            return;
        }
        draft.counted = draft.start;
        let to = if entry.asked.is_some() {
            draft.settler
        } else {
            self.model
        };
        let usual = 1.0 - self.counts.probability(self.model);
        draft.leaving = Some(self.leaving.record(draft.leaving, to != self.model, usual));
        self.count_move(to, to == self.model);
        self.moves.handoffs += u64::from(to != self.model);
    }

    /// The draft's first position was not what it assumed.
    fn refuse(&mut self, seat: SeatIndex) {
        let Some(mut draft) = self.drafts.get_mut(seat.0 as usize).and_then(Option::take) else {
            return;
        };
        let length = draft.start;
        self.agreements.record(draft.generation, false);
        // It was asked about all the same. The candidate itself was not written ahead, unless another came before it.
        let ahead_before = draft.entries.len() as u64;
        if let Some(entry) = draft.pop() {
            self.count_assumed(&mut draft, entry);
        }
        self.ahead.dropped += ahead_before.saturating_sub(1);
        self.discard_draft(draft, length);
    }

    /// Drops a draft for another reason than a wrong assumption. `length`: how much of the sequence is known to be
    /// committed, if more than the draft knows.
    pub(super) fn drop_draft(&mut self, seat: SeatIndex, length: Option<u32>) {
        if let Some(length) = length {
            self.confirm(seat, length, |_, _| true);
        }
        if let Some(draft) = self.drafts.get_mut(seat.0 as usize).and_then(Option::take) {
            self.ahead.dropped += (draft.entries.len() as u64).saturating_sub(1);
            let length = draft.start;
            self.discard_draft(draft, length);
        }
    }

    pub(super) fn drop_all_drafts(&mut self) {
        for seat in 0..self.drafts.len() as u32 {
            self.drop_draft(SeatIndex(seat), None);
        }
    }

    /// The draft is no more, and the model holds no more than `length` tokens of its request.
    fn discard_draft(&mut self, draft: Draft<A>, length: u32) {
        self.drafts_live -= 1;
        if draft.running {
            self.kv.unpin(draft.seat);
            let row = self.running.iter_mut().find(|row| row.seat == draft.seat);
            if let Some(row) = row {
                row.holder = Holder::Nobody;
            }
        }
        self.kv.truncate(draft.seat, length);
        self.memory.push(draft.entries);
    }

    /// A request comes back that was written ahead here. Its draft's next tokens count, up to one that is still asked about.
    /// Returns the request if it has to be taken in like any other.
    pub(super) fn merge(
        &mut self,
        now_us: u64,
        mut request: Box<Request<A>>,
        seat: SeatIndex,
        actions: &mut Vec<Action<A>>,
    ) -> Option<Box<Request<A>>> {
        let is_confirmed = request.suffix.writer == Some(self.model);
        request.suffix.clear();
        if self.draft_of(seat).is_none() {
            return Some(request);
        }
        let length = request.tokens().len() as u32;
        let tokens = request.tokens();
        self.confirm(seat, length, |position, token| tokens[position as usize] == token);
        let draft = self.drafts[seat.0 as usize].as_ref()?;
        let leaving = draft.leaving.or(request.leaving(self.model));
        if !is_confirmed || draft.start != length {
            // It comes with another token than was assumed, or had been sent on where the draft went back.
            self.refuse(seat);
            return Some(request);
        }
        if let Some(mean) = leaving {
            request.set_leaving(self.model, mean);
        }
        // All that was written ahead up to here is committed.
        self.kv.share(seat, request.tokens());
        if let Some(finish) = self.commit_draft(seat, &mut request) {
            self.drop_draft(seat, None);
            self.end(request, finish, actions);
            return None;
        }
        let draft = self.drafts[seat.0 as usize].as_ref()?;
        if let Some(asked) = draft.entries.front().and_then(|entry| entry.asked) {
            request.state = asked;
            request.suffix.writer = Some(self.model);
            request.suffix.entries.extend(&draft.entries);
            let to = draft.settler;
            request.note_handoff(self.model, to, true);
            actions.push(Action::Pass { to, request });
            return None;
        }
        self.end_draft(now_us, request, seat)
    }

    /// Commits the draft's first tokens up to one that is asked about. Returns how the request ends, if it does.
    fn commit_draft(&mut self, seat: SeatIndex, request: &mut Request<A>) -> Option<Finish> {
        let mut draft = self.drafts[seat.0 as usize].take()?;
        let mut finish = None;
        while finish.is_none() && draft.entries.front().is_some_and(|entry| entry.asked.is_none()) {
            let Some(entry) = draft.pop() else { break };
            self.count_assumed(&mut draft, entry);
            request.state = entry.after;
            finish = request.commit(entry.token, self.model);
        }
        if let Some(mean) = draft.leaving {
            request.set_leaving(self.model, mean);
        }
        self.drafts[seat.0 as usize] = Some(draft);
        finish
    }

    /// All of the draft is committed: the request takes its place, in the step that is out or in the queue.
    fn end_draft(&mut self, now_us: u64, request: Box<Request<A>>, seat: SeatIndex) -> Option<Box<Request<A>>> {
        let draft = self.drafts[seat.0 as usize].take()?;
        self.drafts_live -= 1;
        let (running, entries) = (draft.running, draft.entries);
        self.memory.push(entries);
        if running && let Some(row) = self.running.iter_mut().find(|row| row.seat == seat) {
            row.holder = Holder::Request(request);
            row.since_us = now_us;
            return None;
        }
        Some(request)
    }

    /// What has come of writing ahead.
    pub fn ahead_counts(&self) -> crate::ahead::AheadCounts {
        self.ahead
    }

    /// Requests that are written ahead here.
    pub fn drafts(&self) -> usize {
        self.drafts_live
    }

    /// How often the models that are asked confirm what was assumed, by the requests of the generation that was seen last.
    pub fn agreement(&self) -> f32 {
        self.agreements.latest()
    }

    /// Takes a request in.
    pub(super) fn enqueue(&mut self, now_us: u64, mut request: Box<Request<A>>, seat: SeatIndex) {
        // Where every model discards, a request can come back without a token that is new here. Its last token is then
        // fed once more, because the logits behind it are wanted again.
        let unseen_from = request.tokens().len() as u32 - 1;
        self.kv.truncate(seat, unseen_from);
        self.adopt(&mut request, seat);
        self.queue.push_back(Waiting {
            request,
            seat,
            since_us: now_us,
        });
    }
}
