//! One model's scheduler: requests come in, steps go out, tokens are committed, requests leave or end.
//!
//! A driver (a thread in production, a loop in simulation) calls, over and over: [`Scheduler::arrive`] for what came in,
//! [`Scheduler::launch`] to get the next step, and, when the model has run it, [`Scheduler::settle`] with what the policy
//! decided. Nothing here reads a clock, and in steady state nothing allocates.

mod drafting;
mod rows;
mod settling;
mod worth;

use std::collections::VecDeque;

use crate::agreement::Agreements;
use crate::ahead::{AheadCounts, Assumed, Draft, Optimistic};
use crate::cost::StepCost;
use crate::estimate::{Leaving, Moves, Progress, RoutingCounts, StepLatency};
use crate::ids::{ModelIndex, RequestId};
use crate::kv::KvPool;
use crate::launch::{self, Decision, LaunchRule, Queue, View};
use crate::limits::StepLimits;
use crate::policy::PolicyState;
use crate::request::{Answer, Finish, Request, SeatIndex};
use crate::step::StepBatch;

use rows::{Place, Running};
pub use rows::{Row, Wanted};
use worth::Measured;

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
        /// Place of the states in [`crate::route::Routing::foreseen`], if the request may be written ahead.
        foreseen: Option<u32>,
    },
    /// End the request with an error.
    Fail(String),
}

/// What the driver has to carry out after a step.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a box would be an allocation for every token that is written ahead"
)]
pub enum Action<A: Answer> {
    /// Take the request to another model.
    Send {
        /// The model that goes on.
        to: ModelIndex,
        /// Whether the candidate was committed before it left; for the policy's `receive`.
        kept: bool,
        /// The request, with the state that travels.
        request: Box<Request<A>>,
    },
    /// Take the request to another model without asking the policy to receive it: one model has written ahead, the other settles, and
    /// the policy's state is what it foresaw.
    Pass {
        /// The model that goes on.
        to: ModelIndex,
        /// The request.
        request: Box<Request<A>>,
    },
    /// Tell a model what was written ahead for a request that it settles: [`Scheduler::assume`].
    Assume {
        /// The model that settles.
        at: ModelIndex,
        /// The request.
        request: RequestId,
        /// Position of the entry in the whole sequence.
        position: u32,
        /// What is assumed there.
        entry: Assumed,
    },
    /// Tell a model how far what it wrote ahead is settled: [`Scheduler::settled`].
    Settled {
        /// The model that writes ahead.
        to: ModelIndex,
        /// The request's seat there.
        seat: SeatIndex,
        /// Tokens of the whole sequence that are committed and as it assumed.
        length: u32,
        /// Whether what it wrote behind them may still be right.
        goes_on: bool,
    },
    /// The request has ended. Its seats at other models are still taken: tell them ([`Request::seats`]).
    End {
        /// The request, as it ended.
        request: Box<Request<A>>,
        /// How.
        finish: Finish,
    },
}

#[derive(Debug)]
struct Waiting<A: Answer> {
    request: Box<Request<A>>,
    seat: SeatIndex,
    since_us: u64,
}

/// The scheduler of one model.
#[derive(Debug)]
pub struct Scheduler<A: Answer> {
    model: ModelIndex,
    rule: LaunchRule,
    limits: StepLimits,
    kv: KvPool,
    queue: VecDeque<Waiting<A>>,
    running: Vec<Running<A>>,
    /// Of each row of logits of the step that is out, whose it is.
    places: Vec<Place>,
    held: Vec<Waiting<A>>,
    launched_us: u64,
    latency: StepLatency,
    counts: RoutingCounts,
    leaving: Leaving,
    moves: Moves,
    stalled: bool,
    optimistic: Optimistic,
    /// By seat.
    drafts: Vec<Option<Draft<A>>>,
    drafts_live: usize,
    /// Of drafts that are gone, for new ones.
    memory: Vec<VecDeque<Assumed>>,
    /// How often what this model assumes is confirmed.
    agreements: Agreements,
    /// How often this model confirms what others assume.
    confirming: Agreements,
    /// How often a request that was settled goes back to wait, and not where its draft is.
    returning: f32,
    cost: StepCost,
    /// How long steps would have taken with no other model beside them.
    alone: StepLatency,
    /// The step that is out, or has ended and is not in `cost` yet.
    measured: Measured,
    progress: Progress,
    ended_us: u64,
    ahead: AheadCounts,
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
            places: Vec::new(),
            held: Vec::new(),
            launched_us: 0,
            latency: StepLatency::default(),
            counts: RoutingCounts::new(models),
            leaving: Leaving::default(),
            moves: Moves::default(),
            stalled: false,
            optimistic: Optimistic::Off,
            drafts: Vec::new(),
            drafts_live: 0,
            memory: Vec::new(),
            agreements: Agreements::default(),
            confirming: Agreements::default(),
            returning: 1.0,
            cost: StepCost::default(),
            alone: StepLatency::default(),
            measured: Measured::default(),
            progress: Progress::default(),
            ended_us: 0,
            ahead: AheadCounts::default(),
        }
    }

    /// Lets the model write ahead for requests that it has handed over.
    #[must_use]
    pub fn with_optimistic(mut self, optimistic: Optimistic) -> Self {
        self.optimistic = optimistic;
        self
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

    /// How many requests of the step that is out are expected to go to `to`. One that is written ahead there counts as far as
    /// it is likely that it comes back to wait.
    pub fn newcomers(&self, to: ModelIndex) -> f32 {
        let usual = 1.0 - self.counts.probability(self.model);
        let requests = self.running_requests().filter(|(running, _)| running.logits > 0);
        let leaving = requests.map(|(_, request)| {
            let leaving = self.leaving.probability(request.leaving(self.model), usual);
            match request.suffix.writer {
                Some(_) => leaving * self.returning,
                None => leaving,
            }
        });
        leaving.sum::<f32>() * self.counts.probability_leaving(self.model, to)
    }

    /// The probability that a request goes to `to` after a step here.
    pub fn probability(&self, to: ModelIndex) -> f32 {
        self.counts.probability(to)
    }

    /// A request comes in: new, or handed over by another model. Its KV from an earlier visit is still here, so
    /// it goes on where it was. One that was written ahead here may also go on elsewhere, or end.
    pub fn arrive(&mut self, now_us: u64, mut request: Box<Request<A>>, actions: &mut Vec<Action<A>>) {
        let seat = request.seat(self.model).unwrap_or_else(|| {
            let seat = self
                .kv
                .sit(request.id, request.length_max() as usize, request.prefix_salt);
            request.set_seat(self.model, seat);
            seat
        });
        if let Some(agreed) = request.take_agreed(self.model) {
            self.agreements.record(request.generation, agreed);
        }
        let comes_back = request.suffix.writer == Some(self.model) || self.draft_of(seat).is_some();
        let taken = if comes_back {
            self.merge(now_us, request, seat, actions)
        } else {
            Some(request)
        };
        if let Some(request) = taken {
            self.enqueue(now_us, request, seat);
        }
    }

    /// A request that was here has ended elsewhere, with so many tokens.
    pub fn forget(&mut self, seat: SeatIndex, length: u32) {
        self.drop_draft(seat, Some(length));
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
        self.learn_cost(view);
        if let Some(until_us) = self.waits_for_drafts(view) {
            return Decision::Wait { until_us };
        }
        let decision = launch::decide(&self.rule, self.model, self.queue_view(), view, self.limits.wait_us_max);
        if decision == Decision::Launch {
            self.fill(batch);
        } else if self.queue.is_empty() && self.is_worth_a_step(view) {
            self.empty(batch);
        } else {
            return decision;
        }
        self.fill_ahead(view, batch);
        self.launched_us = view.now_us;
        self.measured.begin(batch, view.others_ran_us(self.model));
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
        let (losing, losing_next) = self.losing();
        Queue {
            ready: self.queue.len() as u32,
            long,
            oldest_us,
            losing,
            losing_next,
        }
    }

    fn unseen(&self, waiting: &Waiting<A>) -> usize {
        waiting.request.tokens().len() - self.kv.fed(waiting.seat) as usize
    }

    /// Takes over what other requests have computed of the request's sequence.
    fn adopt(&mut self, request: &mut Request<A>, seat: SeatIndex) {
        let positions = self.kv.adopt(seat, request.tokens());
        request.note_cached(self.model, positions);
    }

    /// How long each request of the step that is out had waited when it was launched, at `launched_us`.
    pub fn step_waits_us(&self, launched_us: u64) -> impl Iterator<Item = u64> {
        self.running_requests()
            .map(move |(running, _)| launched_us.saturating_sub(running.since_us))
    }

    /// Requests in the step that is out, without what is written ahead.
    pub fn running(&self) -> usize {
        self.running_requests().count()
    }

    /// Ends a request that is not in the queue and not in a step: one that has just come, or has just been settled.
    pub fn end(&mut self, request: Box<Request<A>>, finish: Finish, actions: &mut Vec<Action<A>>) {
        if let Some(seat) = request.seat(self.model) {
            self.drop_draft(seat, None);
            if let Finish::Failed(_) = finish {
                self.kv.leave_nothing(seat);
            } else {
                self.kv.share(seat, request.tokens());
                self.kv.leave(seat);
            }
        }
        actions.push(Action::End { request, finish });
    }
}
