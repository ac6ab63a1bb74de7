//! What every subserver can see of the others: how many wait, how many run, until when. Written by its owner, read by all
//! when they decide whether to launch.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokenrouter_core::ModelIndex;
use tokenrouter_core::cost::StepCosts;
use tokenrouter_core::launch::{LaunchRule, ModelView, next_turn};
use tokenrouter_core::limits::MODELS_MAX;

/// One model's lines. `SeqCst` throughout: a request must be seen as waiting before it is seen as gone from where it was.
#[derive(Debug, Default)]
struct Lines {
    waiting: AtomicU32,
    running: AtomicU32,
    ahead: AtomicU32,
    holding: AtomicBool,
    stalled: AtomicBool,
    ends_us: AtomicU64,
    step_us: AtomicU64,
    /// When its running step started, or the last one did.
    started_us: AtomicU64,
    /// How long its steps have taken that have ended.
    ran_us: AtomicU64,
    /// Of [`StepCosts`], in their order, as bits of an f32.
    costs: [AtomicU32; 4],
    /// For each model, as bits of an f32: requests of the running step that are expected to go there.
    newcomers: [AtomicU32; MODELS_MAX],
    /// For each model, as bits of an f32: the probability that a request goes there after a step.
    probability: [AtomicU32; MODELS_MAX],
}

impl Lines {
    /// How long the step that runs has been running; 0: none runs.
    fn running_for_us(&self, now_us: u64) -> u64 {
        if self.running.load(Ordering::SeqCst) + self.ahead.load(Ordering::SeqCst) == 0 {
            return 0;
        }
        now_us.saturating_sub(self.started_us.load(Ordering::SeqCst))
    }

    fn costs(&self) -> StepCosts {
        let [alone_us, slowdown, base_us, token_us] =
            std::array::from_fn(|place| f32::from_bits(self.costs[place].load(Ordering::SeqCst)));
        StepCosts {
            alone_us,
            slowdown,
            base_us,
            token_us,
        }
    }
}

/// The board of a deployment.
#[derive(Debug)]
pub(crate) struct Board {
    start: Instant,
    models: Vec<Lines>,
    turn: AtomicU32,
    /// Held from decision to launch under a synchronous rule, so that two models never start at once.
    gate: Mutex<()>,
}

impl Board {
    pub(crate) fn new(models: usize) -> Self {
        Self {
            start: Instant::now(),
            models: (0..models).map(|_| Lines::default()).collect(),
            turn: AtomicU32::new(0),
            gate: Mutex::new(()),
        }
    }

    /// Microseconds since the engine was started.
    pub(crate) fn now_us(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    /// Exclusive right to decide.
    pub(crate) fn gate(&self) -> MutexGuard<'_, ()> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn turn(&self) -> ModelIndex {
        ModelIndex(self.turn.load(Ordering::SeqCst))
    }

    /// Requests came to wait at `model`, or are on their way to it.
    pub(crate) fn add_waiting(&self, model: ModelIndex, requests: u32) {
        self.models[model.index()].waiting.fetch_add(requests, Ordering::SeqCst);
    }

    /// Requests do not wait at `model` any more.
    pub(crate) fn sub_waiting(&self, model: ModelIndex, requests: u32) {
        self.models[model.index()].waiting.fetch_sub(requests, Ordering::SeqCst);
    }

    pub(crate) fn waiting(&self, model: ModelIndex) -> u32 {
        self.models[model.index()].waiting.load(Ordering::SeqCst)
    }

    pub(crate) fn running(&self, model: ModelIndex) -> u32 {
        self.models[model.index()].running.load(Ordering::SeqCst)
    }

    /// A step of `rows` requests, and of `ahead` rows that are written ahead, starts and is expected to end at `ends_us`.
    pub(crate) fn started(&self, model: ModelIndex, rows: u32, ahead: u32, ends_us: u64) {
        let lines = &self.models[model.index()];
        lines.started_us.store(self.now_us(), Ordering::SeqCst);
        lines.ends_us.store(ends_us, Ordering::SeqCst);
        lines.ahead.store(ahead, Ordering::SeqCst);
        lines.running.store(rows, Ordering::SeqCst);
        lines.holding.store(false, Ordering::SeqCst);
        lines.stalled.store(false, Ordering::SeqCst);
    }

    /// `model` holds back what waits (or has nothing waiting), and whether that is for want of KV. Returns whether it begins
    /// to do either.
    pub(crate) fn set_holding(&self, model: ModelIndex, holding: bool, stalled: bool) -> bool {
        let lines = &self.models[model.index()];
        let held = lines.holding.swap(holding, Ordering::SeqCst);
        let was_stalled = lines.stalled.swap(stalled, Ordering::SeqCst);
        (holding && !held) || (stalled && !was_stalled)
    }

    /// The step has ended and its requests are where they go.
    pub(crate) fn ended(&self, model: ModelIndex) {
        let lines = &self.models[model.index()];
        lines
            .ran_us
            .fetch_add(lines.running_for_us(self.now_us()), Ordering::SeqCst);
        lines.running.store(0, Ordering::SeqCst);
        lines.ahead.store(0, Ordering::SeqCst);
    }

    /// What decoding ahead has to reckon with at `model`.
    pub(crate) fn set_costs(&self, model: ModelIndex, costs: StepCosts) {
        let values = [costs.alone_us, costs.slowdown, costs.base_us, costs.token_us];
        for (line, value) in self.models[model.index()].costs.iter().zip(values) {
            line.store(value.to_bits(), Ordering::SeqCst);
        }
    }

    /// What `model`'s next step would take.
    pub(crate) fn set_step_us(&self, model: ModelIndex, step_us: u64) {
        self.models[model.index()].step_us.store(step_us, Ordering::SeqCst);
    }

    /// How many requests of `model`'s step are expected to go to `to`.
    pub(crate) fn set_newcomers(&self, model: ModelIndex, to: ModelIndex, requests: f32) {
        self.models[model.index()].newcomers[to.index()].store(requests.to_bits(), Ordering::SeqCst);
    }

    /// The probability that a request goes from `model` to `to` after a step.
    pub(crate) fn set_probability(&self, model: ModelIndex, to: ModelIndex, probability: f32) {
        self.models[model.index()].probability[to.index()].store(probability.to_bits(), Ordering::SeqCst);
    }

    /// All models as `reader` sees them.
    pub(crate) fn snapshot(&self, reader: ModelIndex, views: &mut Vec<ModelView>) {
        let now_us = self.now_us();
        views.clear();
        views.extend(self.models.iter().map(|lines| ModelView {
            waiting: lines.waiting.load(Ordering::SeqCst),
            running: lines.running.load(Ordering::SeqCst),
            ahead: lines.ahead.load(Ordering::SeqCst),
            holding: lines.holding.load(Ordering::SeqCst),
            stalled: lines.stalled.load(Ordering::SeqCst),
            ends_us: lines.ends_us.load(Ordering::SeqCst),
            step_us: lines.step_us.load(Ordering::SeqCst),
            newcomers: f32::from_bits(lines.newcomers[reader.index()].load(Ordering::SeqCst)),
            to_here: f32::from_bits(lines.probability[reader.index()].load(Ordering::SeqCst)),
            ran_us: lines.ran_us.load(Ordering::SeqCst) + lines.running_for_us(now_us),
            costs: lines.costs(),
        }));
    }

    /// Under a synchronous rule: hands on the turn after a step of the model that has it.
    pub(crate) fn pass_turn(&self, rule: &LaunchRule, views: &[ModelView]) {
        let turn = next_turn(rule, self.turn(), views);
        self.turn.store(turn.0, Ordering::SeqCst);
    }
}
