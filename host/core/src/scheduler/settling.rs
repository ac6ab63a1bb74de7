//! The end of a step: candidates are committed, dropped or assumed, and requests go on, leave or end.

use super::rows::{Holder, Running};
use super::{Action, Scheduler, Verdict, Waiting};
use crate::ahead::{Assumed, Foreseen, Optimistic};
use crate::ids::{ModelIndex, TokenId};
use crate::limits::DISCARDS_RUNNING_MAX;
use crate::request::{Answer, Expected, Finish, Request};

/// Weight of a settled request in the running mean of those that go back to wait.
const RETURNING_WEIGHT: f32 = 0.05;

impl<A: Answer> Scheduler<A> {
    /// Ends the step: the model now holds what it was fed. `candidates` and `verdicts` are in the order of
    /// [`Scheduler::candidates`], and verdicts have their places in `foreseen`. What has to be done is appended to `actions`.
    ///
    /// # Panics
    /// If there are fewer candidates or verdicts than rows of logits.
    pub fn settle(
        &mut self,
        now_us: u64,
        candidates: &[TokenId],
        verdicts: &mut Vec<Verdict>,
        foreseen: &[Foreseen],
        actions: &mut Vec<Action<A>>,
    ) {
        let us = now_us.saturating_sub(self.launched_us);
        self.latency.record(self.running.len(), us);
        if self.optimistic != Optimistic::Off {
            self.measured.us = Some(us);
            self.ended_us = now_us;
        }
        self.counts.fade();
        let settling_before = self.ahead.settled;
        let mut settled = candidates.iter().copied().zip(verdicts.drain(..));
        let mut next = || settled.next().expect("a verdict for every row of logits");
        let mut running = std::mem::take(&mut self.running);
        for mut row in running.drain(..) {
            let holder = std::mem::replace(&mut row.holder, Holder::Nobody);
            if !matches!(holder, Holder::Nobody) {
                self.kv.unpin(row.seat);
                self.kv.set_fed(row.seat, row.fed);
            }
            match holder {
                Holder::Nobody => (0..row.logits).for_each(|_| drop(next())),
                Holder::Ahead => {
                    let (candidate, verdict) = next();
                    self.settle_ahead(row.seat, candidate, &verdict, foreseen, actions);
                }
                Holder::Request(request) if row.logits == 0 => self.keep(now_us, &row, request, actions),
                Holder::Request(request) if request.suffix.writer.is_some() => {
                    self.settle_assumed(now_us, &row, request, &mut next, actions);
                }
                Holder::Request(request) => {
                    let (candidate, verdict) = next();
                    self.settle_request(now_us, &row, request, (candidate, verdict), foreseen, actions);
                }
            }
        }
        self.running = running;
        self.ahead.settling_steps += u64::from(self.ahead.settled > settling_before);
    }

    /// Ends the step that is out with an error for all its requests: the model could not run it.
    pub fn fail_step(&mut self, reason: &str, actions: &mut Vec<Action<A>>) {
        let mut running = std::mem::take(&mut self.running);
        for row in running.drain(..) {
            match row.holder {
                Holder::Request(request) => {
                    self.kv.unpin(row.seat);
                    self.end(request, Finish::Failed(reason.to_owned()), actions);
                }
                // The request is elsewhere and knows nothing of it; what the step has left in the pool is not to be used.
                Holder::Ahead => {
                    self.kv.unpin(row.seat);
                    self.drop_draft(row.seat, None);
                }
                Holder::Nobody => {}
            }
        }
        self.running = running;
    }

    /// The model was started anew in the middle of whatever it did: the step that was out fails, the KV is lost, and what
    /// waits computes it again.
    pub fn restart(&mut self, reason: &str, actions: &mut Vec<Action<A>>) {
        self.kv.lose_all();
        self.queue.extend(self.held.drain(..));
        self.fail_step(reason, actions);
        self.drop_all_drafts();
    }

    fn settle_request(
        &mut self,
        now_us: u64,
        row: &Running<A>,
        mut request: Box<Request<A>>,
        (candidate, verdict): (TokenId, Verdict),
        foreseen: &[Foreseen],
        actions: &mut Vec<Action<A>>,
    ) {
        let (to, keep, state, foreseen) = match verdict {
            Verdict::Stay { state } => (self.model, true, state, None),
            Verdict::HandOff {
                to,
                keep,
                state,
                foreseen: place,
            } => (to, keep, state, place.and_then(|place| foreseen.get(place as usize))),
            Verdict::Fail(reason) => return self.end(request, Finish::Failed(reason), actions),
        };
        // A policy that only ever discards would go round for ever.
        let keep = keep || to == self.model || request.discards_running() >= DISCARDS_RUNNING_MAX;
        let usual = 1.0 - self.counts.probability(self.model);
        let mean = self
            .leaving
            .record(request.leaving(self.model), to != self.model, usual);
        request.set_leaving(self.model, mean);
        self.count_move(to, keep);
        request.state = state;
        if keep && let Some(finish) = request.commit(candidate, self.model) {
            return self.end(request, finish, actions);
        }
        if to == self.model {
            return self.keep(now_us, row, request, actions);
        }
        if request.answer.abandoned() {
            return self.end(request, Finish::Cancelled, actions);
        }
        request.note_handoff(self.model, to, !keep);
        self.moves.handoffs += 1;
        if !keep && let Some(foreseen) = foreseen {
            self.begin_ahead(&mut request, row, to, candidate, *foreseen);
        }
        self.kv.share(row.seat, request.tokens());
        actions.push(Action::Send {
            to,
            kept: keep,
            request,
        });
    }

    /// One request of the step moves, or stays.
    pub(super) fn count_move(&mut self, to: ModelIndex, committed: bool) {
        self.counts.record(to);
        self.moves.requests[to.index()] += 1;
        self.moves.committed[to.index()] += u64::from(committed);
    }

    /// Settles the positions of a request that was written ahead, in their order: as long as this model writes what was assumed and
    /// the policy hands back with the state that was assumed, the next one counts too.
    fn settle_assumed(
        &mut self,
        now_us: u64,
        row: &Running<A>,
        mut request: Box<Request<A>>,
        next: &mut impl FnMut() -> (TokenId, Verdict),
        actions: &mut Vec<Action<A>>,
    ) {
        let writer = request.suffix.writer.unwrap_or(self.model);
        let length = request.tokens().len() as u32;
        if let Some((before_us, length_before)) = request.suffix.settled.replace((now_us, length)) {
            self.progress.record(length - length_before, now_us - before_us);
        }
        for nth in 0..row.logits {
            let (candidate, verdict) = next();
            let Some(entry) = request.suffix.entries.front().copied() else {
                debug_assert!(false, "logits for a position that is not assumed");
                continue;
            };
            let Some(asked) = entry.asked else {
                if let Some(finish) = self.commit_assumed(&mut request, entry, writer) {
                    (nth + 1..row.logits).for_each(|_| drop(next()));
                    return self.end(request, finish, actions);
                }
                continue;
            };
            if nth > 0 {
                request.note_handoff(writer, self.model, true);
                request.state = asked;
            }
            self.ahead.settled += 1;
            let confirmed = candidate == entry.token && hands_back(&verdict, writer, &request);
            self.confirming.record(None, confirmed);
            if !confirmed {
                (nth + 1..row.logits).for_each(|_| drop(next()));
                let length = request.tokens().len() as u32;
                self.kv.truncate(row.seat, length);
                request.suffix.clear();
                self.note_return(true);
                if !matches!(verdict, Verdict::HandOff { to, .. } if to == writer) {
                    actions.push(self.settled_action(&request, writer, false));
                }
                return self.settle_request(now_us, row, request, (candidate, verdict), &[], actions);
            }
            self.ahead.confirmed += 1;
            self.count_move(writer, true);
            request.suffix.entries.pop_front();
            let finish = request.commit(candidate, self.model);
            if let Some(finish) = finish {
                (nth + 1..row.logits).for_each(|_| drop(next()));
                return self.end(request, finish, actions);
            }
            request.note_handoff(self.model, writer, false);
            self.moves.handoffs += 1;
            request.state = entry.after;
        }
        self.go_on_behind(now_us, row, request, writer, actions);
    }

    /// All that this step could settle is confirmed. What the writer wrote behind it without asking counts as well; if it asked
    /// again, the request stays for that, else it goes back.
    fn go_on_behind(
        &mut self,
        now_us: u64,
        row: &Running<A>,
        mut request: Box<Request<A>>,
        writer: ModelIndex,
        actions: &mut Vec<Action<A>>,
    ) {
        self.note_return(request.suffix.entries.is_empty());
        while let Some(entry) = request.suffix.entries.front().copied() {
            if let Some(asked) = entry.asked {
                request.note_handoff(writer, self.model, true);
                request.state = asked;
                actions.push(self.settled_action(&request, writer, true));
                return self.keep(now_us, row, request, actions);
            }
            if let Some(finish) = self.commit_assumed(&mut request, entry, writer) {
                return self.end(request, finish, actions);
            }
        }
        if request.answer.abandoned() {
            return self.end(request, Finish::Cancelled, actions);
        }
        self.kv.share(row.seat, request.tokens());
        actions.push(Action::Pass { to: writer, request });
    }

    fn note_return(&mut self, waits: bool) {
        self.returning += RETURNING_WEIGHT * (f32::from(u8::from(waits)) - self.returning);
    }

    /// Commits a token that the writer wrote without asking, and before which all is settled.
    fn commit_assumed(&mut self, request: &mut Request<A>, entry: Assumed, writer: ModelIndex) -> Option<Finish> {
        request.suffix.entries.pop_front();
        request.state = entry.after;
        request.commit(entry.token, writer)
    }

    /// Tells the writer how far its draft is settled.
    fn settled_action(&self, request: &Request<A>, writer: ModelIndex, goes_on: bool) -> Action<A> {
        Action::Settled {
            to: writer,
            seat: request.seat(writer).unwrap_or(crate::request::SeatIndex(u32::MAX)),
            length: request.tokens().len() as u32,
            goes_on,
        }
    }

    /// Puts a request back into the queue. One in the middle of a long stretch goes first again, so that prompts are
    /// finished one after the other.
    fn keep(&mut self, now_us: u64, row: &Running<A>, request: Box<Request<A>>, actions: &mut Vec<Action<A>>) {
        if request.answer.abandoned() {
            return self.end(request, Finish::Cancelled, actions);
        }
        self.kv.share(row.seat, request.tokens());
        let waiting = Waiting {
            request,
            seat: row.seat,
            since_us: now_us,
        };
        if row.logits > 0 {
            self.queue.push_back(waiting);
        } else {
            self.queue.push_front(waiting);
        }
    }

    /// Notes what the model that is asked is expected to do.
    pub(super) fn expect(request: &mut Request<A>, by: ModelIndex, token: TokenId, foreseen: Foreseen) {
        request.expected = Some(Expected {
            by,
            position: request.tokens().len() as u32,
            token,
            back: foreseen.back,
        });
    }
}

/// Whether the request goes back to the writer at once, with the state that was foreseen: the one it came with.
fn hands_back<A: Answer>(verdict: &Verdict, writer: ModelIndex, request: &Request<A>) -> bool {
    matches!(verdict, Verdict::HandOff { to, keep: true, state, .. } if *to == writer && *state == request.state)
}
