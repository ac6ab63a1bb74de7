//! One-token hand-back over two models with an eager small one, exactly and fast.
//!
//! This is the case of R2R, CITER, Co-LLM and random routing, and it has a structure that the general chain does not
//! see. The large model keeps every request for one step, and the small one never holds one back. So while a step of
//! the large model runs, the requests at the small one leave independently of one another: nothing but how many
//! trials each had matters, and the chain need only be looked at when the large model launches. There a state is
//!
//! * the batch that the large model launches,
//! * the batch that its step before returned, which joins the small model at its next launch, and
//! * the phase: how far the small model's running step has come. Without a pause of the large model the phase follows
//!   from the number of its steps since the last *fresh* launch, one at which the small model launches too; a pause
//!   ends at such a moment, and so does a time with no request at the small model.
//!
//! So the chain at fresh launches has at most N states, and its transition is applied without being written out, as a
//! pass over the `d0 / gcd(d0, d1)` phases in which each law of departures is two binomial ones: the requests in
//! the running step try once, then all that are left try alike. Power iteration on it, extrapolated, settles in
//! about a dozen passes. Where it has not after N of them, N passes more give the transition matrix, and
//! the law is computed directly. No state of the general chain is neglected: the result is the general chain's.

use crate::binomial::BinomialTable;
use crate::error::PlanError;
use crate::extrapolation;
use crate::markov::Transitions;
use crate::stationary;
use crate::system::System;
use crate::thresholds;

/// L1 distance to the stationary law that iteration stops at.
const TOLERANCE: f64 = 1e-10;
/// Passes of a cycle at whose end the law is extrapolated.
const CYCLE: usize = 6;
/// The fast exact solution for systems it applies to; keeps the binomial laws that all N and B share.
#[derive(Debug)]
pub struct Handback {
    quantum_ms: f64,
    small_quanta: u16,
    large_quanta: u16,
    /// Tokens committed by one step of the large model and by the steps of the small one that lead to it.
    tokens_per_visit: f64,
    /// Law of how many leave in one step of the small model.
    leave: BinomialTable,
    /// Laws of how many leave in the steps after the first that end during a step of the large model.
    leave_later: Vec<BinomialTable>,
    phases: Vec<Phase>,
}

/// Where the small model is in its step when the large one launches.
#[derive(Clone, Copy, Debug)]
struct Phase {
    /// Index of the law of later departures, `leave_later`.
    later: usize,
    /// Quanta that the small model's step has left when the large one's ends.
    wait_quanta: u16,
}

/// Sums over the launches of one pass, weighted by their probabilities.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    /// Requests that the large model launched.
    visits: f64,
    /// Time, in quanta.
    quanta: f64,
}

impl Handback {
    /// The solver for `system`; `None` where this structure is not there: other routing, no hand-overs, or a large
    /// model whose step is shorter than the small one's.
    pub fn new(system: &System) -> Option<Self> {
        let p = system.routing().handover_of_one_token_handback().filter(|&p| p > 0.0)?;
        let &[small_quanta, large_quanta] = system.latencies().quanta() else {
            return None;
        };
        if large_quanta < small_quanta {
            return None;
        }
        let mut phases = Vec::new();
        let mut later_trials = Vec::new();
        let mut left = small_quanta;
        loop {
            let trials_after_first = (large_quanta - left) / small_quanta;
            left = small_quanta - (large_quanta - left) % small_quanta;
            let later = later_trials
                .iter()
                .position(|&t| t == trials_after_first)
                .unwrap_or_else(|| {
                    later_trials.push(trials_after_first);
                    later_trials.len() - 1
                });
            phases.push(Phase {
                later,
                wait_quanta: left,
            });
            // Both steps end at once: the next launch is fresh.
            if left == small_quanta {
                break;
            }
        }
        let leaves_within = |trials: u16| -(f64::from(trials) * (-p).ln_1p()).exp_m1();
        let [small, large] = [0, 1].map(|i| system.routing().commits_per_step(i));
        Some(Self {
            quantum_ms: system.latencies().quantum_ms(),
            small_quanta,
            large_quanta,
            tokens_per_visit: large + small / p,
            leave: BinomialTable::new(p, 0),
            leave_later: later_trials
                .into_iter()
                // No trial is no departure, also where p is 1 and the logarithm infinite.
                .map(|t| BinomialTable::new(if t == 0 { 0.0 } else { leaves_within(t) }, 0))
                .collect(),
            phases,
        })
    }

    /// Tokens per second of `n` requests with thresholds (1, `threshold`).
    ///
    /// # Errors
    /// A threshold that is not feasible, [`PlanError::NotConverged`].
    pub fn tokens_per_s(&mut self, n: usize, threshold: usize) -> Result<f64, PlanError> {
        thresholds::check(n, &[1, threshold], 2)?;
        self.leave.grow(n);
        self.leave_later.iter_mut().for_each(|table| table.grow(n));
        let mut pass = Pass::new(&*self, n, threshold);
        let mut fresh = vec![0.0; n + 1];
        pass.start(&mut fresh);
        let mut change = f64::INFINITY;
        let mut recent = Vec::new();
        for _ in 0..n.max(CYCLE) {
            let (next, totals) = pass.run(&fresh);
            let last: f64 = next.iter().zip(&fresh).map(|(a, b)| (a - b).abs()).sum();
            // The change understates the distance when passes shrink it slowly; a geometric tail does not.
            let shrink = (last / change).min(1.0);
            change = last;
            if last / (1.0 - shrink).max(1e-6) <= TOLERANCE {
                return Ok(self.rate(totals));
            }
            fresh.copy_from_slice(next);
            recent.push(fresh.clone());
            if recent.len() == CYCLE {
                fresh = extrapolation::limit(&recent);
                fresh.iter_mut().for_each(|p| *p = p.max(0.0));
                recent.clear();
                change = f64::INFINITY;
            }
            let sum: f64 = fresh.iter().sum();
            fresh.iter_mut().for_each(|p| *p /= sum);
        }
        let law = pass.law()?;
        let (_, totals) = pass.run(&law);
        Ok(self.rate(totals))
    }

    fn rate(&self, totals: Totals) -> f64 {
        1e3 * self.tokens_per_visit * totals.visits / (totals.quanta * self.quantum_ms)
    }
}

/// Applies the transition from fresh launch to fresh launch.
struct Pass<'a> {
    model: &'a Handback,
    n: usize,
    threshold: usize,
    /// Launches of this phase and of the next: `[batch * (n + 1) + returned]`.
    now: Vec<f64>,
    next: Vec<f64>,
    /// By requests that wait at the large model while both models are about to launch and it may not.
    wait: Vec<f64>,
    /// By batch of the next fresh launch.
    fresh: Vec<f64>,
    /// By departures in the small model's first step, then in all of them.
    left_first: Vec<f64>,
    left: Vec<f64>,
}

impl<'a> Pass<'a> {
    fn new(model: &'a Handback, n: usize, threshold: usize) -> Self {
        let size = n + 1;
        Self {
            model,
            n,
            threshold,
            now: vec![0.0; size * size],
            next: vec![0.0; size * size],
            wait: vec![0.0; threshold],
            fresh: vec![0.0; size],
            left_first: vec![0.0; size],
            left: vec![0.0; size],
        }
    }

    /// The law of the first fresh launch when all requests start at the small model.
    fn start(&mut self, fresh: &mut [f64]) {
        self.wait[0] = 1.0;
        self.end_waits(&mut Totals::default());
        fresh.copy_from_slice(&self.fresh);
    }

    /// The stationary law of fresh launches, from the transition matrix.
    fn law(&mut self) -> Result<Vec<f64>, PlanError> {
        let mut chain = Transitions::default();
        let (n, threshold) = (self.n, self.threshold);
        let mut from = vec![0.0; n + 1];
        for batch in threshold..=n {
            from.fill(0.0);
            from[batch] = 1.0;
            let (to, _) = self.run(&from);
            let row = (0..).zip(&to[threshold..]).map(|(state, &p)| (state, p));
            chain.push_row(row.filter(|&(_, p)| p > 0.0));
        }
        from.fill(0.0);
        from[threshold..].copy_from_slice(&stationary::law(&chain)?);
        Ok(from)
    }

    /// One step from fresh launches with these probabilities to the next fresh ones, and what happens between.
    fn run(&mut self, fresh: &[f64]) -> (&[f64], Totals) {
        let (n, size) = (self.n, self.n + 1);
        let mut totals = Totals::default();
        self.fresh.fill(0.0);
        for (index, &phase) in self.model.phases.iter().enumerate() {
            let last = index + 1 == self.model.phases.len();
            for (batch, &mass) in fresh.iter().enumerate().skip(self.threshold) {
                let others = n - batch;
                let mass = if index == 0 {
                    // The small model launches now, with all others.
                    self.left_first[..=others].fill(0.0);
                    add_scaled(&mut self.left_first, self.model.leave.row(others), mass);
                    mass
                } else {
                    self.leave_running_step(batch)
                };
                if mass == 0.0 {
                    continue;
                }
                totals.visits += mass * batch as f64;
                totals.quanta += mass * f64::from(self.model.large_quanta);
                let later = &self.model.leave_later[phase.later];
                self.left[..=others].fill(0.0);
                for first in 0..=others {
                    let mass = self.left_first[first];
                    add_scaled(&mut self.left[first..], later.row(others - first), mass);
                }
                self.end_large_step(batch, phase, last, &mut totals);
            }
            std::mem::swap(&mut self.now, &mut self.next);
            self.next[self.threshold * size..].fill(0.0);
        }
        self.end_waits(&mut totals);
        (&self.fresh, totals)
    }

    /// For the launches of `batch` in this phase: who leaves when the small model's running step ends. The returned
    /// requests are not in that step. Gives the probability of these launches.
    fn leave_running_step(&mut self, batch: usize) -> f64 {
        let others = self.n - batch;
        let row = &self.now[batch * (self.n + 1)..][..others];
        self.left_first[..=others].fill(0.0);
        let mut mass = 0.0;
        for (returned, &p) in row.iter().enumerate().skip(self.threshold) {
            add_scaled(&mut self.left_first, self.model.leave.row(others - returned), p);
            mass += p;
        }
        mass
    }

    /// The large model's step on `batch` ends, with `left` telling how many wait for it then.
    fn end_large_step(&mut self, batch: usize, phase: Phase, last: bool, totals: &mut Totals) {
        let others = self.n - batch;
        for waiting in 0..=others {
            let mass = self.left[waiting];
            // With nobody left at the small model it launches what returns, at this moment.
            let both_launch = last || waiting == others;
            match (waiting >= self.threshold, both_launch) {
                (true, true) => self.fresh[waiting] += mass,
                (true, false) => self.next[waiting * (self.n + 1) + batch] += mass,
                (false, true) => self.wait[waiting] += mass,
                (false, false) => {
                    totals.quanta += mass * f64::from(phase.wait_quanta);
                    self.arrive(waiting, self.model.leave.row(others - waiting), mass);
                }
            }
        }
    }

    /// Adds a law of newcomers to `waiting` requests at a moment at which the small model launches.
    fn arrive(&mut self, waiting: usize, newcomers: &[f64], mass: f64) {
        let below = self.threshold.saturating_sub(waiting).min(newcomers.len());
        let (still_few, enough) = newcomers.split_at(below);
        add_scaled(&mut self.wait[waiting..], still_few, mass);
        add_scaled(&mut self.fresh[waiting + below..], enough, mass);
    }

    /// Steps of the small model alone until the large one may launch.
    fn end_waits(&mut self, totals: &mut Totals) {
        for waiting in 0..self.threshold {
            let newcomers = self.model.leave.row(self.n - waiting);
            // Steps from which nobody leaves repeat: a geometric number of them.
            let steps = std::mem::take(&mut self.wait[waiting]) / newcomers[1..].iter().sum::<f64>();
            totals.quanta += steps * f64::from(self.model.small_quanta);
            self.arrive(waiting + 1, &newcomers[1..], steps);
        }
    }
}

/// `sum[i] += scale * law[i]` over the entries of `law`.
fn add_scaled(sum: &mut [f64], law: &[f64], scale: f64) {
    if scale != 0.0 {
        sum.iter_mut().zip(law).for_each(|(s, p)| *s += scale * p);
    }
}
