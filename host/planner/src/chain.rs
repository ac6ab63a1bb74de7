//! The embedded Markov chain of N requests that circulate among models which launch once B_i of them wait.
//!
//! A state is taken right after the steps that end at one moment have ended and what they trigger has been launched:
//! for each model the requests that wait there, the size of the batch that runs, and the quanta until it ends. The
//! chain moves to the next moment at which a step ends. Latencies are constant, moves are independent, a launch takes
//! the whole queue.

use indexmap::IndexSet;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::departures::Departures;
use crate::error::PlanError;
use crate::markov::Transitions;
use crate::stationary;
use crate::system::System;
use crate::thresholds;

/// Sizes that a chain may not pass, so that a plan fails with a message rather than for lack of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainLimits {
    /// Most states. One takes about 100 bytes.
    pub states_max: usize,
    /// Most transitions. One takes about 50 bytes while the law is computed.
    pub transitions_max: usize,
}

impl Default for ChainLimits {
    fn default() -> Self {
        Self {
            states_max: 300_000,
            transitions_max: 10_000_000,
        }
    }
}

/// All states that can be reached from "all requests wait at model 0", with what happens until the next.
#[derive(Debug)]
pub struct Chain {
    transitions: Transitions,
    /// Quanta from a state to the next.
    hold: Vec<u16>,
    /// Expected tokens committed at the end of that time.
    commits: Vec<f64>,
    quantum_ms: f64,
}

impl Chain {
    /// Enumerates the chain of `n` requests under the thresholds `b`.
    ///
    /// # Errors
    /// Thresholds that are not feasible, a chain beyond `limits`.
    pub fn new(system: &System, n: usize, b: &[usize], limits: ChainLimits) -> Result<Self, PlanError> {
        thresholds::check(n, b, system.models())?;
        let quantum_ms = system.latencies().quantum_ms();
        let too_large = |what, max| PlanError::TooLarge {
            n,
            b: b.to_vec(),
            what,
            max,
            quantum_ms,
        };
        let commits_per_step: Vec<f64> = (0..b.len()).map(|i| system.routing().commits_per_step(i)).collect();
        let mut walk = Walk::new(system, n, b);
        let mut chain = Self {
            transitions: Transitions::default(),
            hold: vec![],
            commits: vec![],
            quantum_ms,
        };
        while chain.hold.len() < walk.states.len() {
            let step = walk.step(chain.hold.len());
            chain.hold.push(step.hold);
            chain.commits.push(
                step.ended
                    .iter()
                    .map(|&(i, batch)| f64::from(batch) * commits_per_step[i])
                    .sum(),
            );
            chain.transitions.push_row(step.row.into_iter());
            if walk.states.len() > limits.states_max {
                return Err(too_large("states", limits.states_max));
            }
            if chain.transitions.len() > limits.transitions_max {
                return Err(too_large("transitions", limits.transitions_max));
            }
        }
        Ok(chain)
    }

    /// How many states there are.
    pub fn states(&self) -> usize {
        self.hold.len()
    }

    /// Tokens per second by renewal reward: expected commits of a move of the stationary chain over its expected time.
    ///
    /// # Errors
    /// [`PlanError::NotConverged`].
    pub fn tokens_per_s(&self) -> Result<f64, PlanError> {
        let law = stationary::law(&self.transitions)?;
        let tokens: f64 = law.iter().zip(&self.commits).map(|(pi, x)| pi * x).sum();
        let quanta: f64 = law.iter().zip(&self.hold).map(|(pi, &h)| pi * f64::from(h)).sum();
        Ok(1e3 * tokens / (quanta * self.quantum_ms))
    }
}

/// One move out of a state.
struct Step {
    /// Quanta until it.
    hold: u16,
    /// The models whose steps end, with their batches.
    ended: Vec<(usize, u16)>,
    /// Next states with probabilities; no state twice.
    row: Vec<(u32, f64)>,
}

/// Breadth-first search over the states.
struct Walk<'a> {
    latency: &'a [u16],
    threshold: Vec<u16>,
    departures: Departures,
    /// 3 M numbers each: waiting requests, running batch, quanta left, one after the other, for all models.
    states: IndexSet<Box<[u16]>, FxBuildHasher>,
}

impl<'a> Walk<'a> {
    fn new(system: &'a System, n: usize, b: &[usize]) -> Self {
        let mut walk = Self {
            latency: system.latencies().quanta(),
            threshold: b.iter().map(|&b| b as u16).collect(),
            departures: Departures::new(system, n),
            states: IndexSet::default(),
        };
        let mut start = vec![0; 3 * b.len()];
        start[0] = n as u16;
        walk.launch(&mut start);
        walk.states.insert(start.into());
        walk
    }

    /// Launches the whole queue of every idle model that has enough.
    fn launch(&self, state: &mut [u16]) {
        let models = self.threshold.len();
        for i in 0..models {
            if state[models + i] == 0 && state[i] >= self.threshold[i] {
                state[models + i] = std::mem::take(&mut state[i]);
                state[2 * models + i] = self.latency[i];
            }
        }
    }

    /// What follows the state of this number; new states get the next numbers.
    fn step(&mut self, number: usize) -> Step {
        let models = self.threshold.len();
        let mut state = self.states[number].to_vec();
        let running = |state: &[u16], i: usize| state[models + i] > 0;
        let hold = (0..models)
            .filter(|&i| running(&state, i))
            .map(|i| state[2 * models + i])
            .min();
        let hold = hold.expect("feasible thresholds leave no state without a running model");
        let mut ended = Vec::new();
        for i in (0..models).filter(|&i| running(&self.states[number], i)) {
            state[2 * models + i] -= hold;
            if state[2 * models + i] == 0 {
                ended.push((i, std::mem::take(&mut state[models + i])));
            }
        }
        // Different arrivals make different states, so rows need no merging.
        let row = self.arrivals(&ended).into_iter().map(|(arrivals, p)| {
            let mut next = state.clone();
            next.iter_mut().zip(&arrivals).for_each(|(waiting, a)| *waiting += a);
            self.launch(&mut next);
            (self.number(&next), p)
        });
        Step {
            hold,
            row: row.collect(),
            ended,
        }
    }

    /// The law of how many requests arrive at each model when these batches end at once.
    fn arrivals(&self, ended: &[(usize, u16)]) -> Vec<(Vec<u16>, f64)> {
        let mut law = vec![(vec![0; self.threshold.len()], 1.0)];
        for (count, &(i, batch)) in ended.iter().enumerate() {
            let mut sum = Sum::new(count > 0);
            for (before, p) in &mut law {
                self.departures
                    .for_each(i, batch, before, *p, &mut |arrivals, p| sum.add(arrivals, p));
            }
            law = sum.law;
        }
        law
    }

    fn number(&mut self, state: &[u16]) -> u32 {
        let number = self
            .states
            .get_index_of(state)
            .unwrap_or_else(|| self.states.insert_full(state.into()).0);
        number as u32
    }
}

/// Outcomes with their probabilities, equal ones merged when several sources can give the same.
struct Sum {
    law: Vec<(Vec<u16>, f64)>,
    at: Option<FxHashMap<Vec<u16>, usize>>,
}

impl Sum {
    fn new(merge: bool) -> Self {
        Self {
            law: Vec::new(),
            at: merge.then(FxHashMap::default),
        }
    }

    fn add(&mut self, outcome: &[u16], p: f64) {
        if let Some(at) = &mut self.at {
            if let Some(&index) = at.get(outcome) {
                self.law[index].1 += p;
                return;
            }
            at.insert(outcome.to_vec(), self.law.len());
        }
        self.law.push((outcome.to_vec(), p));
    }
}
