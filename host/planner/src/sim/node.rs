//! One simulated model: the production scheduler, a stand-in for the model, and what was measured.

use tokenrouter_core::ahead::AheadCounts;
use tokenrouter_core::kv::{KvPool, blocks_for};
use tokenrouter_core::launch::ModelView;
use tokenrouter_core::scheduler::Scheduler;
use tokenrouter_core::signal::Plan;
use tokenrouter_core::step::StepBatch;
use tokenrouter_core::{ModelIndex, TokenId};

use super::answer::SimAnswer;
use super::kv::SimKv;
use super::latency::Latency;
use super::report::{ModelReport, Waits};
use super::routing::draw_signals;
use super::world::SimulationParts;

pub(super) struct Node {
    model: ModelIndex,
    pub(super) scheduler: Scheduler<SimAnswer>,
    kv: SimKv,
    latency: Latency,
    pub(super) batch: StepBatch,
    rows: u32,
    ahead_rows: u32,
    holding: bool,
    stalled: bool,
    started_us: u64,
    pub(super) ends_us: Option<u64>,
    /// What is left of the running step, in microseconds if it runs alone; from `timed_us` on it goes at `speed`.
    left_us: f64,
    timed_us: u64,
    speed: f64,
    /// Of all steps that have ended, warm-up included.
    ran_us: u64,
    expected_end_us: u64,
    /// When an idle model wants to decide again at the latest.
    pub(super) wake_us: u64,
    pub(super) candidates: Vec<TokenId>,
    pub(super) signals: Vec<f32>,
    pub(super) signal_starts: Vec<u32>,
    // Totals since the warm-up ended.
    steps: u64,
    rows_total: u64,
    busy_us: u64,
    tokens_before: u64,
    evictions_before: u64,
    ahead_before: AheadCounts,
    waits_us: Vec<u64>,
}

impl Node {
    pub(super) fn new(model: ModelIndex, parts: &SimulationParts) -> Self {
        let (models, blocks) = (parts.latencies.len(), blocks_for(parts.kv_tokens));
        Self {
            model,
            scheduler: Scheduler::new(model, models, parts.rule.clone(), parts.limits, KvPool::new(blocks))
                .with_optimistic(parts.optimistic),
            kv: SimKv::new(model, parts.agreement.clone(), blocks),
            latency: parts.latencies[model.index()].clone(),
            batch: StepBatch::default(),
            rows: 0,
            ahead_rows: 0,
            holding: false,
            stalled: false,
            started_us: 0,
            ends_us: None,
            left_us: 0.0,
            timed_us: 0,
            speed: 1.0,
            ran_us: 0,
            expected_end_us: 0,
            wake_us: u64::MAX,
            candidates: Vec::new(),
            signals: Vec::new(),
            signal_starts: Vec::new(),
            steps: 0,
            rows_total: 0,
            busy_us: 0,
            tokens_before: 0,
            evictions_before: 0,
            ahead_before: AheadCounts::default(),
            waits_us: Vec::new(),
        }
    }

    /// As another model, or it itself, sees it.
    pub(super) fn view(&self, reader: ModelIndex, now_us: u64) -> ModelView {
        let running_for_us = if self.ends_us.is_some() {
            now_us - self.started_us
        } else {
            0
        };
        ModelView {
            waiting: self.scheduler.waiting() as u32,
            running: self.rows,
            ahead: self.ahead_rows,
            holding: self.holding,
            stalled: self.stalled,
            ends_us: self.expected_end_us,
            step_us: self.scheduler.expected_us(self.scheduler.waiting().max(1)),
            newcomers: self.scheduler.newcomers(reader),
            to_here: self.scheduler.probability(reader),
            ran_us: self.ran_us + running_for_us,
            costs: self.scheduler.costs(),
        }
    }

    /// Starts the step in `batch`, which its scheduler has launched.
    pub(super) fn start_step(&mut self, plan: &Plan, now_us: u64) {
        self.rows = self.scheduler.running() as u32;
        self.ahead_rows = self.batch.rows.len() as u32 - self.rows;
        (self.holding, self.stalled) = (false, false);
        self.waits_us.extend(self.scheduler.step_waits_us(now_us));
        self.candidates.clear();
        self.signals.clear();
        self.signal_starts.clear();
        self.signal_starts.push(0);
        let mut wanted = self.scheduler.candidates();
        let mut seeds = || wanted.next().expect("somebody wants every row of logits").seed;
        for row in &self.batch.rows {
            self.kv.feed(&self.batch, row, &mut seeds, &mut self.candidates);
        }
        drop(wanted);
        let ends = self.batch.rows.iter().map(|row| (row.position + row.len, row.logits));
        let positions = ends.flat_map(|(end, logits)| end + 1 - logits..end + 1);
        for (wanted, position) in self.scheduler.candidates().zip(positions) {
            draw_signals(plan, self.model, wanted.seed, u64::from(position), &mut self.signals);
            self.signal_starts.push(self.signals.len() as u32);
        }
        let us = self
            .latency
            .step_us(self.batch.rows.len(), self.batch.tokens.len(), false);
        self.started_us = now_us;
        (self.left_us, self.timed_us, self.speed) = (us.round().max(1.0), now_us, 1.0);
        self.ends_us = Some(now_us + self.left_us as u64);
        let expected_us = self.scheduler.expected_us(self.batch.rows.len());
        self.expected_end_us = now_us + if expected_us > 0 { expected_us } else { us as u64 };
    }

    /// From now on another model runs beside the running step, or none.
    pub(super) fn retime(&mut self, now_us: u64, beside: bool) {
        if self.ends_us.is_none() {
            return;
        }
        self.left_us -= (now_us - self.timed_us) as f64 * self.speed;
        self.timed_us = now_us;
        self.speed = if beside { 1.0 / self.latency.busy_factor() } else { 1.0 };
        self.ends_us = Some(now_us + (self.left_us / self.speed).round().max(0.0) as u64);
    }

    /// The step's time is over.
    pub(super) fn end_step(&mut self, now_us: u64) {
        self.ends_us = None;
        self.busy_us += now_us - self.started_us;
        self.ran_us += now_us - self.started_us;
        self.steps += 1;
        self.rows_total += u64::from(self.rows + self.ahead_rows);
        (self.rows, self.ahead_rows) = (0, 0);
    }

    /// Notes whether it holds back what waits, and whether for want of KV. Returns whether it begins to do either.
    pub(super) fn hold_back(&mut self) -> bool {
        let holds = self.scheduler.waiting() > 0;
        let held = std::mem::replace(&mut self.holding, holds);
        let was_stalled = std::mem::replace(&mut self.stalled, self.scheduler.is_stalled());
        (holds && !held) || (self.stalled && !was_stalled)
    }

    /// Measures from now on.
    pub(super) fn reset(&mut self) {
        (self.steps, self.rows_total, self.busy_us) = (0, 0, 0);
        self.tokens_before = self.tokens();
        self.evictions_before = self.scheduler.kv().evictions();
        self.ahead_before = self.scheduler.ahead_counts();
        self.waits_us.clear();
    }

    /// What was measured in `seconds`.
    pub(super) fn report(&mut self, seconds: f64) -> ModelReport {
        let (ahead, before) = (self.scheduler.ahead_counts(), self.ahead_before);
        let settling_steps = ahead.settling_steps - before.settling_steps;
        ModelReport {
            ahead_tokens: ahead.written - before.written,
            ahead_dropped: ahead.dropped - before.dropped,
            settled_per_step: (ahead.settled - before.settled) as f64 / settling_steps.max(1) as f64,
            steps: self.steps,
            batch_mean: self.rows_total as f64 / self.steps.max(1) as f64,
            utilisation: self.busy_us as f64 / 1e6 / seconds,
            tokens: self.tokens() - self.tokens_before,
            waits: Waits::of(std::mem::take(&mut self.waits_us)),
            kv_evictions: self.scheduler.kv().evictions() - self.evictions_before,
        }
    }

    fn tokens(&self) -> u64 {
        self.scheduler.moves().committed.iter().sum()
    }
}
