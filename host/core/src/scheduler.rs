//! One model's scheduler: requests come in, steps go out, tokens are committed, requests leave or end.
//!
//! A driver (a thread in production, a loop in simulation) calls, over and over: [`Scheduler::arrive`] for what came in,
//! [`Scheduler::launch`] to get the next step, and, when the model has run it, [`Scheduler::settle`] with what the policy
//! decided. Nothing here reads a clock, and in steady state nothing allocates.

use std::collections::VecDeque;

use crate::estimate::{Leaving, Moves, RoutingCounts, StepLatency};
use crate::ids::{ModelIndex, TokenId};
use crate::kv::KvPool;
use crate::launch::{self, Decision, LaunchRule, Queue, View};
use crate::limits::{DISCARDS_RUNNING_MAX, StepLimits};
use crate::policy::PolicyState;
use crate::request::{Answer, Finish, Request, SeatIndex};
use crate::step::{StepBatch, StepRow};

/// What is to become of a row's candidate and its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Commit the candidate and go on here.
    Stay {
        /// The policy's new state.
        state: PolicyState,
    },
    /// Move the request.
    HandOff {
        /// Where to.
        to: ModelIndex,
        /// Whether the candidate is committed first.
        keep: bool,
        /// The state that travels.
        state: PolicyState,
    },
    /// End the request with an error.
    Fail(String),
}

/// What the driver has to carry out after a step.
#[derive(Debug)]
pub enum Action<A> {
    /// Take the request to another model.
    Send {
        /// The model that goes on.
        to: ModelIndex,
        /// Whether the candidate was committed before it left; for the policy's `receive`.
        kept: bool,
        /// The request, with the state that travels.
        request: Box<Request<A>>,
    },
    /// The request has ended. Its seats at other models are still taken: tell them ([`Request::seats`]).
    End {
        /// The request, as it ended.
        request: Box<Request<A>>,
        /// How.
        finish: Finish,
    },
}

/// A row that ran and has a candidate, or is in the middle of a long stretch and has none.
#[derive(Debug)]
struct Running<A> {
    request: Box<Request<A>>,
    seat: SeatIndex,
    /// What the model holds once the step has run.
    fed: u32,
    has_candidate: bool,
    /// When it began to wait for this step.
    since_us: u64,
}

#[derive(Debug)]
struct Waiting<A> {
    request: Box<Request<A>>,
    seat: SeatIndex,
    since_us: u64,
}

/// The scheduler of one model.
#[derive(Debug)]
pub struct Scheduler<A> {
    model: ModelIndex,
    rule: LaunchRule,
    limits: StepLimits,
    kv: KvPool,
    queue: VecDeque<Waiting<A>>,
    running: Vec<Running<A>>,
    held: Vec<Waiting<A>>,
    launched_us: u64,
    latency: StepLatency,
    counts: RoutingCounts,
    leaving: Leaving,
    moves: Moves,
    stalled: bool,
}

impl<A: Answer> Scheduler<A> {
    /// A scheduler with an empty queue, for one of `models` models.
    pub fn new(model: ModelIndex, models: usize, rule: LaunchRule, limits: StepLimits, kv: KvPool) -> Self {
        Self {
            model,
            rule,
            limits,
            kv,
            queue: VecDeque::new(),
            running: Vec::new(),
            held: Vec::new(),
            launched_us: 0,
            latency: StepLatency::default(),
            counts: RoutingCounts::new(models),
            leaving: Leaving::default(),
            moves: Moves::default(),
            stalled: false,
        }
    }

    /// The model it schedules.
    pub fn model(&self) -> ModelIndex {
        self.model
    }

    /// Its KV bookkeeping.
    pub fn kv(&self) -> &KvPool {
        &self.kv
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Whether the last decision was to launch, and no waiting request could have the KV that it needs.
    pub fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// Changes the launch rule; takes effect at the next decision.
    pub fn set_rule(&mut self, rule: LaunchRule) {
        self.rule = rule;
    }

    /// The measured latencies of its steps.
    pub fn latency(&self) -> &StepLatency {
        &self.latency
    }

    /// Where requests went after its steps, all told.
    pub fn moves(&self) -> &Moves {
        &self.moves
    }

    /// How many requests of the step that is out are expected to go to `to`.
    pub fn newcomers(&self, to: ModelIndex) -> f32 {
        let usual = 1.0 - self.counts.probability(self.model);
        let leaving = |request: &Request<A>| self.leaving.probability(request.leaving(self.model), usual);
        self.candidates().map(leaving).sum::<f32>() * self.counts.probability_leaving(self.model, to)
    }

    /// The probability that a request goes to `to` after a step here.
    pub fn probability(&self, to: ModelIndex) -> f32 {
        self.counts.probability(to)
    }

    /// A request comes in: new, or handed over by another model. Its KV from an earlier visit is still here, so
    /// it goes on where it was.
    pub fn arrive(&mut self, now_us: u64, mut request: Box<Request<A>>) {
        let seat = request.seat(self.model).unwrap_or_else(|| {
            let seat = self.kv.sit(request.id, request.length_max() as usize);
            request.set_seat(self.model, seat);
            seat
        });
        // Where every model discards, a request can come back without a token that is new here. Its last token is then
        // fed once more, because the logits behind it are wanted again.
        let unseen_from = request.tokens().len() as u32 - 1;
        self.kv.truncate(seat, unseen_from);
        self.queue.push_back(Waiting {
            request,
            seat,
            since_us: now_us,
        });
    }

    /// A request that was here has ended elsewhere.
    pub fn forget(&mut self, seat: SeatIndex) {
        self.kv.leave(seat);
    }

    /// Ends the waiting requests that nobody waits for any more.
    pub fn sweep_abandoned(&mut self, actions: &mut Vec<Action<A>>) {
        for index in (0..self.queue.len()).rev() {
            if self.queue[index].request.answer.abandoned()
                && let Some(waiting) = self.queue.remove(index)
            {
                self.end(waiting.request, Finish::Cancelled, actions);
            }
        }
    }

    /// Decides whether to launch, and if so fills `batch` with the step. [`Decision::Launch`] means the step must be run
    /// and settled before the next call.
    pub fn launch(&mut self, view: View<'_>, batch: &mut StepBatch) -> Decision {
        debug_assert!(self.running.is_empty(), "one step at a time");
        self.stalled = false;
        let decision = launch::decide(&self.rule, self.model, self.queue_view(), view, self.limits.wait_us_max);
        if decision != Decision::Launch {
            return decision;
        }
        self.fill(batch);
        self.launched_us = view.now_us;
        if batch.rows.is_empty() {
            // Older requests that are away hold all the KV: they will come back or end.
            self.stalled = true;
            return Decision::Wait { until_us: u64::MAX };
        }
        Decision::Launch
    }

    fn queue_view(&self) -> Queue {
        let long = self
            .queue
            .iter()
            .any(|waiting| self.unseen(waiting) >= self.limits.long_tokens_min);
        let oldest_us = self.queue.iter().map(|waiting| waiting.since_us).min().unwrap_or(0);
        Queue {
            ready: self.queue.len() as u32,
            long,
            oldest_us,
        }
    }

    fn unseen(&self, waiting: &Waiting<A>) -> usize {
        waiting.request.tokens().len() - self.kv.fed(waiting.seat) as usize
    }

    /// Puts waiting requests into a step in the order they came: all short stretches, and long ones as far as the step's
    /// budget goes, in chunks. What finds no room keeps its place.
    fn fill(&mut self, batch: &mut StepBatch) {
        batch.clear();
        let mut long_tokens_left = self.limits.long_tokens_max;
        while let Some(waiting) = self.queue.pop_front() {
            let unseen = self.unseen(&waiting);
            let is_long = unseen >= self.limits.long_tokens_min;
            let len = if is_long { unseen.min(long_tokens_left) } else { unseen };
            let fed = self.kv.fed(waiting.seat) as usize;
            if len == 0 || batch.rows.len() == self.limits.rows_max || !self.kv.reserve(waiting.seat, fed + len) {
                self.held.push(waiting);
                continue;
            }
            if is_long {
                long_tokens_left -= len;
            }
            self.push_row(waiting, len, batch);
        }
        self.queue.extend(self.held.drain(..));
    }

    fn push_row(&mut self, waiting: Waiting<A>, len: usize, batch: &mut StepBatch) {
        let Waiting {
            request,
            seat,
            since_us,
        } = waiting;
        let tokens = request.tokens();
        let position = self.kv.fed(seat);
        let unseen = &tokens[position as usize..];
        let has_candidate = len == unseen.len();
        let first = batch.tokens.len() as u32;
        let first_block = batch.blocks.len() as u32;
        batch.tokens.extend_from_slice(&unseen[..len]);
        batch.blocks.extend_from_slice(self.kv.blocks(seat));
        batch.rows.push(StepRow {
            request: request.id,
            first,
            len: len as u32,
            position,
            logits: u32::from(has_candidate),
            blocks: first_block..batch.blocks.len() as u32,
        });
        self.running.push(Running {
            request,
            seat,
            fed: position + len as u32,
            has_candidate,
            since_us,
        });
    }

    /// The requests of the step that is out and that have a candidate, in the order of the step's logits.
    pub fn candidates(&self) -> impl Iterator<Item = &Request<A>> + Clone {
        self.running
            .iter()
            .filter(|running| running.has_candidate)
            .map(|running| &*running.request)
    }

    /// The same requests, to be changed: what travels with them is theirs.
    pub fn candidates_mut(&mut self) -> impl Iterator<Item = &mut Request<A>> {
        self.running
            .iter_mut()
            .filter(|running| running.has_candidate)
            .map(|running| &mut *running.request)
    }

    /// How long each request of the step that is out had waited when it was launched, at `launched_us`.
    pub fn step_waits_us(&self, launched_us: u64) -> impl Iterator<Item = u64> {
        self.running
            .iter()
            .map(move |running| launched_us.saturating_sub(running.since_us))
    }

    /// Ends the step: the model now holds what it was fed. `candidates` and `verdicts` are in the order of
    /// [`Scheduler::candidates`]. What has to be done is appended to `actions`.
    ///
    /// # Panics
    /// If there are fewer candidates or verdicts than rows that wait for one.
    pub fn settle(
        &mut self,
        now_us: u64,
        candidates: &[TokenId],
        verdicts: &mut Vec<Verdict>,
        actions: &mut Vec<Action<A>>,
    ) {
        self.latency
            .record(self.running.len(), now_us.saturating_sub(self.launched_us));
        self.counts.fade();
        let mut settled = candidates.iter().copied().zip(verdicts.drain(..));
        let mut running = std::mem::take(&mut self.running);
        for row in running.drain(..) {
            self.kv.unpin(row.seat);
            self.kv.set_fed(row.seat, row.fed);
            if !row.has_candidate {
                self.keep(now_us, row, actions);
                continue;
            }
            let (candidate, verdict) = settled.next().expect("a verdict for every row with a candidate");
            self.settle_row(now_us, row, candidate, verdict, actions);
        }
        self.running = running;
    }

    /// Ends the step that is out with an error for all its requests: the model could not run it.
    pub fn fail_step(&mut self, reason: &str, actions: &mut Vec<Action<A>>) {
        let mut running = std::mem::take(&mut self.running);
        for row in running.drain(..) {
            self.kv.unpin(row.seat);
            self.end(row.request, Finish::Failed(reason.to_owned()), actions);
        }
        self.running = running;
    }

    /// The model was started anew in the middle of whatever it did: the step that was out fails, the KV is lost, and what
    /// waits computes it again.
    pub fn restart(&mut self, reason: &str, actions: &mut Vec<Action<A>>) {
        self.kv.lose_all();
        self.queue.extend(self.held.drain(..));
        self.fail_step(reason, actions);
    }

    fn settle_row(
        &mut self,
        now_us: u64,
        mut row: Running<A>,
        candidate: TokenId,
        verdict: Verdict,
        actions: &mut Vec<Action<A>>,
    ) {
        let (to, keep, state) = match verdict {
            Verdict::Stay { state } => (self.model, true, state),
            Verdict::HandOff { to, keep, state } => (to, keep, state),
            Verdict::Fail(reason) => return self.end(row.request, Finish::Failed(reason), actions),
        };
        let request = &mut row.request;
        // A policy that only ever discards would go round for ever.
        let keep = keep || to == self.model || request.discards_running() >= DISCARDS_RUNNING_MAX;
        let usual = 1.0 - self.counts.probability(self.model);
        let mean = self
            .leaving
            .record(request.leaving(self.model), to != self.model, usual);
        request.set_leaving(self.model, mean);
        self.counts.record(to);
        self.moves.requests[to.index()] += 1;
        self.moves.committed[to.index()] += u64::from(keep);
        request.state = state;
        if keep && let Some(finish) = request.commit(candidate, self.model) {
            return self.end(row.request, finish, actions);
        }
        if to == self.model {
            return self.keep(now_us, row, actions);
        }
        if request.answer.abandoned() {
            return self.end(row.request, Finish::Cancelled, actions);
        }
        request.note_handoff(!keep);
        actions.push(Action::Send {
            to,
            kept: keep,
            request: row.request,
        });
    }

    /// Puts a request back into the queue. One in the middle of a long stretch goes first again, so that prompts are
    /// finished one after the other.
    fn keep(&mut self, now_us: u64, row: Running<A>, actions: &mut Vec<Action<A>>) {
        if row.request.answer.abandoned() {
            return self.end(row.request, Finish::Cancelled, actions);
        }
        let waiting = Waiting {
            request: row.request,
            seat: row.seat,
            since_us: now_us,
        };
        if row.has_candidate {
            self.queue.push_back(waiting);
        } else {
            self.queue.push_front(waiting);
        }
    }

    /// Ends a request that is not in the queue and not in a step: one that has just come, or has just been settled.
    pub fn end(&mut self, request: Box<Request<A>>, finish: Finish, actions: &mut Vec<Action<A>>) {
        if let Some(seat) = request.seat(self.model) {
            self.kv.leave(seat);
        }
        actions.push(Action::End { request, finish });
    }
}
