//! What the tests of the simulator share: a random number source that prints its seed, and the sequential reference router.
#![allow(dead_code, reason = "every test file uses its own part of it")]

use tokenrouter_core::draw::{Purpose, bits, uniform_f32};
use tokenrouter_core::policy::{Decisions, LeavingRow, Parcel, Policy, PolicyState, RouteBatch};
use tokenrouter_core::signal::Signal;
use tokenrouter_core::texts::Texts;
use tokenrouter_planner::sim::{Agreement, Commit, SimPolicy, SimRequest, SimRouting, next_token};

/// Numbers for making random cases: a counter and a seed.
pub struct Random {
    seed: u64,
    count: u64,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Self { seed, count: 0 }
    }

    /// A whole number in `low..=high`.
    pub fn whole(&mut self, low: u64, high: u64) -> u64 {
        self.count += 1;
        low + bits(self.seed, self.count, Purpose::Admission) % (high - low + 1)
    }

    /// A number in [0, 1).
    pub fn share(&mut self) -> f64 {
        self.count += 1;
        f64::from(uniform_f32(self.seed, self.count, Purpose::Admission))
    }

    /// Whether something of this probability happens.
    pub fn happens(&mut self, probability: f64) -> bool {
        self.share() < probability
    }
}

/// The answer to one request, by the definition: one model after the other, the whole sequence computed anew for every
/// token, no batch, no cache, no scheduler.
pub fn reference(routing: &SimRouting, models: usize, agreement: &Agreement, request: &SimRequest) -> Vec<Commit> {
    const DISCARDS_RUNNING_MAX: u32 = 8;
    let mut policy = SimPolicy::new(routing.clone(), models);
    let mut tokens = request.prompt.clone();
    let mut commits = Vec::new();
    let (mut at, mut state, mut discards) = (request.admission.model, request.admission.state.words().to_vec(), 0);
    loop {
        let candidate = next_token(&tokens, request.seed, at, agreement);
        let position = tokens.len() as u64;
        let signals: Vec<f32> = policy.plan().signals[at.index()]
            .iter()
            .map(|signal| match signal {
                Signal::Uniform(number) => uniform_f32(request.seed, position, Purpose::Policy(*number)),
                other => unreachable!("the simulated policies do not ask for {other:?}"),
            })
            .collect();
        let row = RouteBatch {
            candidates: vec![candidate],
            signals: signals.clone(),
            state,
            texts: Texts::default(),
        };
        let mut decisions = Decisions::default();
        policy.route(at, &row, &mut decisions).unwrap();
        let to = decisions.destinations[0];
        let mut parcel = Parcel {
            keep_candidate: true,
            state: PolicyState::new(&decisions.state),
        };
        if to != at {
            let leaving = LeavingRow {
                candidate,
                signals: &signals,
                state: &decisions.state,
                text: "",
            };
            parcel = policy.send(at, to, leaving).unwrap();
        }
        if parcel.keep_candidate || discards >= DISCARDS_RUNNING_MAX {
            discards = 0;
            tokens.push(candidate);
            commits.push((candidate, at));
            if request.stop_token == Some(candidate) || commits.len() == request.tokens_max as usize {
                return commits;
            }
        } else {
            discards += 1;
        }
        if to != at {
            parcel.state = policy.receive(to, at, &parcel).unwrap();
        }
        state = parcel.state.words().to_vec();
        at = to;
    }
}

/// Two models, one token from the large one.
pub fn handback(p: f64) -> SimRouting {
    SimRouting::Matrix {
        p: vec![vec![1.0 - p, p], vec![1.0, 0.0]],
        keep: vec![vec![true, false], vec![true, true]],
    }
}
