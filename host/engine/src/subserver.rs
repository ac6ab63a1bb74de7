//! One model at work: a thread that takes requests in, launches steps when its scheduler says so, asks the policies, and
//! sends requests on.

mod acting;
mod restart;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokenrouter_core::ModelIndex;
use tokenrouter_core::ahead::Optimistic;
use tokenrouter_core::kv::KvPool;
use tokenrouter_core::launch::{Decision, LaunchRule, ModelView, View};
use tokenrouter_core::limits::StepLimits;
use tokenrouter_core::policy::FailureMode;
use tokenrouter_core::route::{Routing, StepResult};
use tokenrouter_core::scheduler::{Action, Scheduler, Verdict, Wanted};
use tokenrouter_core::step::StepBatch;
use tokenrouter_model::grammar::Grammar;
use tokenrouter_model::runner::{RowAsk, Runner, StepOutput};
use tokenrouter_model::text::Tokenizer;

use crate::answer::TextAnswer;
use crate::engine::Shared;
use crate::generations::Generations;
use crate::link::{Inbox, Message};
use crate::seen::Seen;
use crate::shadow::Shadows;
use crate::stats::ModelCounters;
use crate::timeline::Launched;
use crate::trace::Tracer;
use restart::Doing;

/// What a subserver is made of.
pub(crate) struct SubserverParts {
    pub(crate) model: ModelIndex,
    pub(crate) name: String,
    pub(crate) runner: Box<dyn Runner>,
    pub(crate) rule: LaunchRule,
    pub(crate) optimistic: Optimistic,
    pub(crate) limits: StepLimits,
    pub(crate) kv_blocks: usize,
    pub(crate) inbox: Inbox,
    pub(crate) shared: Arc<Shared>,
    pub(crate) tokenizer: Tokenizer,
    pub(crate) on_fault: FailureMode,
    pub(crate) counters: Arc<ModelCounters>,
    pub(crate) tracer: Option<Tracer>,
}

/// One model with its scheduler. All buffers are kept from step to step.
pub(crate) struct Subserver {
    model: ModelIndex,
    name: String,
    runner: Box<dyn Runner>,
    scheduler: Scheduler<TextAnswer>,
    rule: LaunchRule,
    inbox: Inbox,
    shared: Arc<Shared>,
    generations: Generations,
    on_fault: FailureMode,
    counters: Arc<ModelCounters>,
    tracer: Option<Tracer>,
    routing: Routing,
    shadows: Shadows,
    views: Vec<ModelView>,
    batch: StepBatch,
    output: StepOutput,
    verdicts: Vec<Verdict>,
    actions: Vec<Action<TextAnswer>>,
    doing: Doing,
    launched: Launched,
    /// Panics since the last step that ended.
    panics_running: u32,
}

impl Subserver {
    pub(crate) fn new(parts: SubserverParts) -> Self {
        let models = parts.shared.links.len();
        let kv = KvPool::new(parts.kv_blocks);
        Self {
            model: parts.model,
            name: parts.name,
            runner: parts.runner,
            scheduler: Scheduler::new(parts.model, models, parts.rule.clone(), parts.limits, kv)
                .with_optimistic(parts.optimistic),
            rule: parts.rule,
            inbox: parts.inbox,
            generations: Generations::new(parts.model, parts.tokenizer, parts.counters.clone()),
            shared: parts.shared,
            on_fault: parts.on_fault,
            counters: parts.counters,
            tracer: parts.tracer,
            routing: Routing::foreseeing(parts.optimistic != Optimistic::Off),
            shadows: Shadows::default(),
            views: Vec::new(),
            batch: parts.limits.batch(parts.kv_blocks),
            output: StepOutput::default(),
            verdicts: Vec::new(),
            actions: Vec::new(),
            doing: Doing::Nothing,
            launched: Launched::default(),
            panics_running: 0,
        }
    }

    /// Works until told to stop.
    fn work(&mut self) {
        loop {
            self.beat();
            while let Some(message) = self.inbox.take() {
                if !self.take(message) {
                    return;
                }
            }
            let until_us = match self.launch() {
                Decision::Launch => {
                    self.step();
                    continue;
                }
                Decision::Wait { until_us } => until_us,
            };
            let limit_us = (until_us != u64::MAX).then(|| until_us.saturating_sub(self.shared.board.now_us()));
            if let Some(message) = self.inbox.wait(limit_us.map(Duration::from_micros))
                && !self.take(message)
            {
                return;
            }
        }
    }

    /// Takes a message in. Returns false when it is the last.
    fn take(&mut self, message: Message) -> bool {
        match message {
            Message::Arrive { request, from } => self.arrive(request, from),
            Message::Forget { seat, length } => {
                self.scheduler.forget(seat, length);
                self.publish_kept();
            }
            Message::Assume {
                request,
                position,
                entry,
            } => self.scheduler.assume(request, position, *entry),
            Message::Settled { seat, length, goes_on } => self.scheduler.settled(seat, length, goes_on),
            Message::Sweep => {
                let before = self.scheduler.waiting();
                self.scheduler.sweep_abandoned(&mut self.actions);
                let swept = before - self.scheduler.waiting();
                self.shared.board.sub_waiting(self.model, swept as u32);
                self.act();
                if swept > 0 {
                    self.wake_others();
                }
            }
            Message::Retire => self.generations.retire(),
            Message::Rule(rule) => {
                self.rule = rule.clone();
                self.scheduler.set_rule(rule);
            }
            Message::Stop => return false,
        }
        true
    }

    /// A sign of life for the watchdog.
    fn beat(&self) {
        let now_us = self.shared.board.now_us();
        self.shared.pulses[self.model.index()].beat(now_us);
    }

    /// Asks the scheduler for a step.
    fn launch(&mut self) -> Decision {
        let shared = self.shared.clone();
        let board = &shared.board;
        let _gate = self.rule.is_synchronous().then(|| board.gate());
        board.set_step_us(self.model, self.scheduler.expected_us(self.scheduler.waiting().max(1)));
        board.set_costs(self.model, self.scheduler.costs());
        board.snapshot(self.model, &mut self.views);
        if self.rule.is_synchronous() && self.views[board.turn().index()].waiting == 0 {
            self.pass_turn(&self.rule);
        }
        let view = View {
            now_us: board.now_us(),
            models: &self.views,
            turn: board.turn(),
        };
        let now_us = view.now_us;
        let decision = self.scheduler.launch(view, &mut self.batch);
        if decision == Decision::Launch {
            let rows = self.batch.rows.len();
            let wait_us_max = self.counters.record_waits(self.scheduler.step_waits_us(now_us));
            self.launched = Launched::new(now_us, wait_us_max, self.scheduler.waiting());
            for to in self.models() {
                board.set_newcomers(self.model, to, self.scheduler.newcomers(to));
            }
            let requests = self.scheduler.running() as u32;
            board.started(
                self.model,
                requests,
                rows as u32 - requests,
                board.now_us() + self.scheduler.expected_us(rows),
            );
            board.sub_waiting(self.model, requests);
            if self.rule == LaunchRule::Lookahead {
                // When this step ends is what the others' decisions hang on.
                self.wake_waiting();
            }
        } else if self.rule.is_synchronous() && board.turn() == self.model && self.scheduler.waiting() > 0 {
            // Older requests hold the KV that those here need; they wait at another model, which must have its turn.
            self.pass_turn(&LaunchRule::StepSync);
        } else {
            let (holds, stalled) = (self.scheduler.waiting() > 0, self.scheduler.is_stalled());
            if board.set_holding(self.model, holds, stalled) {
                // Others that hold back as well must know, or all would wait for each other.
                self.wake_waiting();
            }
        }
        decision
    }

    /// Hands the turn on if no model runs, and wakes the one that has it.
    fn pass_turn(&self, rule: &LaunchRule) {
        if self.views.iter().any(|model| model.running > 0) {
            return;
        }
        self.shared.board.pass_turn(rule, &self.views);
        let turn = self.shared.board.turn();
        if turn != self.model {
            self.shared.links[turn.index()].wake();
        }
    }

    /// Runs the step that was launched and carries out what follows from it.
    fn step(&mut self) {
        let mut asks = Vec::with_capacity(self.batch.rows.len());
        for row in self.scheduler.candidates() {
            asks.push(match row.wanted {
                Wanted::Request(request) => RowAsk {
                    sampling: request.answer.sampling,
                    seed: request.seed,
                    plan: self.generations.plan_index(&request.answer.routed),
                    newlines: request.answer.newlines,
                    shaping: request.answer.shaping.logits(),
                    allowed: request.answer.grammar.as_deref().map(Grammar::allowed),
                    logprobs: request.answer.logprobs,
                },
                Wanted::Ahead(ahead) => RowAsk {
                    sampling: ahead.sampling,
                    seed: row.seed,
                    plan: self.generations.plan_index_of(&ahead.served, None),
                    ..RowAsk::GREEDY
                },
                Wanted::Nobody => RowAsk::GREEDY,
            });
        }
        let kept_before = self.scheduler.waiting();
        self.doing = Doing::Step { kept_before };
        let start = Instant::now();
        let mut plans = self.generations.plans();
        if let Some(tracer) = &mut self.tracer {
            plans = tracer.extend(plans);
        }
        let ran = self.runner.step(&self.batch, &asks, plans, &mut self.output);
        drop(asks);
        match ran {
            Ok(()) => self.settle(),
            Err(error) => {
                tracing::error!(model = self.model.0, %error, "step failed");
                self.scheduler
                    .fail_step(&format!("the model failed: {error}"), &mut self.actions);
            }
        }
        let step_us = start.elapsed().as_micros() as u64;
        self.count(step_us);
        let kept = self.scheduler.waiting() - kept_before;
        self.shared.board.add_waiting(self.model, kept as u32);
        self.doing = Doing::Nothing;
        self.panics_running = 0;
        for to in self.models() {
            self.shared
                .board
                .set_probability(self.model, to, self.scheduler.probability(to));
        }
        self.act();
        self.finish_step();
    }

    /// Asks the policies about the step's candidates and settles it.
    fn settle(&mut self) {
        if let Some(tracer) = &mut self.tracer {
            tracer.split(&mut self.output);
        }
        let result = StepResult {
            candidates: &self.output.candidates,
            signals: &self.output.signals,
            signal_starts: &self.output.signal_starts,
            finite: &self.output.finite,
        };
        let start = Instant::now();
        self.routing.decide(
            self.model,
            &self.scheduler.candidates(),
            result,
            &mut self.generations,
            self.on_fault,
            &mut self.verdicts,
        );
        if let Some(tracer) = &self.tracer {
            tracer.step(self.model, self.scheduler.candidates(), &self.output, &self.verdicts);
        }
        self.counters.route_times_us.record(start.elapsed().as_micros() as u64);
        let seen = |row: usize| Seen {
            at: self.model,
            candidate: self.output.candidates[row],
            signals: result.all_signals(row),
            verdict: &self.verdicts[row],
        };
        if self.scheduler.drafts() > 0 {
            for (row, wanted) in self.scheduler.candidates().map(|row| row.wanted).enumerate() {
                if let Wanted::Ahead(ahead) = wanted {
                    ahead.note_step(seen(row));
                }
            }
        }
        for (rows, request) in self.scheduler.candidates_mut() {
            request.answer.stage(self.output.row_logprobs(rows.start));
            for (nth, row) in (0..).zip(rows) {
                request.answer.note_step(nth, seen(row));
            }
        }
        self.shadows.watch(
            self.model,
            self.scheduler
                .candidates_mut()
                .map(|(rows, request)| (rows.start, request)),
            result,
            &self.verdicts,
            &mut self.generations,
        );
        let now_us = self.shared.board.now_us();
        self.scheduler.settle(
            now_us,
            &self.output.candidates,
            &mut self.verdicts,
            self.routing.foreseen(),
            &mut self.actions,
        );
    }

    fn count(&mut self, step_us: u64) {
        let rows = self.batch.rows.len();
        let counters = &*self.counters;
        ModelCounters::add(&counters.steps, 1);
        ModelCounters::add(&counters.rows, rows as u64);
        ModelCounters::add(&counters.tokens_fed, self.batch.tokens.len() as u64);
        counters.set_moves(self.scheduler.moves());
        counters.set_ahead(self.scheduler.ahead_counts(), self.scheduler.agreement());
        ModelCounters::add(&counters.step_us, step_us);
        counters.step_times_us.record(step_us);
        counters.batch_rows.record(rows as u64);
        ModelCounters::set(&counters.kv_evictions, self.scheduler.kv().evictions());
        counters.timeline.push(self.launched.ended(step_us, &self.batch));
    }

    fn models(&self) -> impl Iterator<Item = ModelIndex> + use<> {
        (0..self.shared.links.len() as u32).map(ModelIndex)
    }

    /// Shows what requests keep at this model, pending ones included.
    fn publish_kept(&self) {
        let kv = self.scheduler.kv();
        ModelCounters::set(
            &self.counters.kv_blocks_used,
            (kv.blocks_total() - kv.blocks_free()) as u64,
        );
        ModelCounters::set(&self.counters.kv_blocks_retained, kv.blocks_retained() as u64);
        ModelCounters::set(&self.counters.seats_taken, kv.seats_taken() as u64);
        self.counters.set_prefixes(kv.prefix_counts());
    }

    /// The step is over for the others too: models that held back decide again.
    fn finish_step(&mut self) {
        let shared = self.shared.clone();
        let board = &shared.board;
        let _gate = self.rule.is_synchronous().then(|| board.gate());
        board.ended(self.model);
        board.snapshot(self.model, &mut self.views);
        if self.rule.is_synchronous() && board.turn() == self.model {
            self.pass_turn(&self.rule);
            return;
        }
        self.wake_waiting();
    }

    /// Fewer requests wait here than the others believed: those that hold back decide again.
    fn wake_others(&mut self) {
        self.shared.board.snapshot(self.model, &mut self.views);
        self.wake_waiting();
    }

    /// Wakes the idle models at which something waits.
    fn wake_waiting(&self) {
        for (index, view) in self.views.iter().enumerate() {
            if index != self.model.index() && view.waiting > 0 && view.running == 0 {
                self.shared.links[index].wake();
            }
        }
    }
}
