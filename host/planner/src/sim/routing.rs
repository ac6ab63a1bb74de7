//! How simulated requests are routed: by probabilities, in bursts, in long steps, or as a recorded trace says. Each is a
//! policy like any other, so the scheduler asks it as it asks a component.

use tokenrouter_core::ModelIndex;
use tokenrouter_core::draw::{Purpose, uniform_f32};
use tokenrouter_core::policy::{Decisions, LeavingRow, Parcel, Policy, PolicyFault, PolicyState, RouteBatch};
use tokenrouter_core::signal::{Plan, Signal};

use crate::error::PlanError;
use crate::routing::Routing;

/// A routing rule for a simulation.
#[derive(Clone, Debug, PartialEq)]
pub enum SimRouting {
    /// After a step at i a request goes to j with probability `p[i][j]`. Moving there commits the candidate iff `keep[i][j]`.
    Matrix {
        /// Rows sum to 1.
        p: Vec<Vec<f64>>,
        /// Whether a move commits.
        keep: Vec<Vec<bool>>,
    },
    /// Two models, one-token hand-back, with a hidden state per request that makes hand-overs come in bursts: calm with
    /// probability `calm_p` to hand over, stormy with `storm_p`; the state changes after a step with probability `flip`.
    Bursty {
        /// Hand-over probability while calm.
        calm_p: f64,
        /// Hand-over probability in a burst.
        storm_p: f64,
        /// Probability to change between the two after a step of the small model.
        flip: f64,
    },
    /// Two models, whole stretches: at the beginning of a stretch the large model takes it with probability `large_p`;
    /// a stretch has `small_tokens` or `large_tokens` tokens by who writes it.
    Stretches {
        /// Probability that the large model writes a stretch.
        large_p: f64,
        /// Tokens of a stretch of the small model.
        small_tokens: u32,
        /// Tokens of a stretch of the large model.
        large_tokens: u32,
    },
    /// Two models, one-token hand-back, hand-overs as recorded: the small model's step number s of a request hands over iff
    /// `hands_over[s mod len]`, starting at a place that depends on the request.
    Trace {
        /// One entry a small-model step.
        hands_over: Vec<bool>,
    },
}

impl SimRouting {
    /// The policy of a plan. A move commits its candidate iff the plan counts a token for it, so the plan's counts must be 0
    /// or 1, as those of [`Routing`]'s named policies are.
    pub fn of(routing: &Routing) -> Self {
        let keep = routing
            .c()
            .iter()
            .map(|row| row.iter().map(|&tokens| tokens > 0.0).collect());
        Self::Matrix {
            p: routing.p().to_vec(),
            keep: keep.collect(),
        }
    }

    /// The matrices with the same mean moves, for a planner, which knows no bursts, stretches or traces.
    ///
    /// # Errors
    /// Probabilities outside of 0..=1, rows that do not sum to 1, an empty trace.
    pub fn mean(&self) -> Result<Routing, PlanError> {
        match self {
            Self::Matrix { p, keep } => {
                let counts = keep
                    .iter()
                    .map(|row| row.iter().map(|&keep| f64::from(u8::from(keep))).collect());
                Routing::new(p.clone(), counts.collect())
            }
            // It changes as often from calm to stormy as back, so half of the steps are in a burst.
            Self::Bursty { calm_p, storm_p, .. } => Routing::one_token_handback((calm_p + storm_p) / 2.0),
            Self::Stretches {
                large_p,
                small_tokens,
                large_tokens,
            } => {
                // A stretch takes one step of the small model if the large one gets it, else one for each of its tokens.
                let small_steps = large_p + (1.0 - large_p) * f64::from(*small_tokens);
                Routing::r_stitch(large_p / small_steps, 1.0 / f64::from(*large_tokens))
            }
            Self::Trace { hands_over } => {
                let handed_over = hands_over.iter().filter(|&&hand_over| hand_over).count();
                Routing::one_token_handback(handed_over as f64 / hands_over.len() as f64)
            }
        }
    }
}

/// A [`SimRouting`] as a policy.
#[derive(Clone, Debug)]
pub struct SimPolicy {
    routing: SimRouting,
    plan: Plan,
}

const SMALL: ModelIndex = ModelIndex(0);
const LARGE: ModelIndex = ModelIndex(1);

impl SimPolicy {
    /// A request's first state under any of these policies.
    pub fn first_state() -> PolicyState {
        PolicyState::new(&[0, 0])
    }

    /// The policy for a deployment of `models` models.
    pub fn new(routing: SimRouting, models: usize) -> Self {
        // Two draws a step: where to, and whether the hidden state changes.
        let signals = (0..models as u32)
            .map(|model| vec![Signal::Uniform(2 * model), Signal::Uniform(2 * model + 1)])
            .collect();
        Self {
            routing,
            plan: Plan {
                entry: SMALL,
                state_words: 2,
                signals,
                texts: false,
            },
        }
    }

    /// Where one row goes, and its new state.
    fn decide(&self, at: ModelIndex, draws: &[f32], state: [u64; 2]) -> (ModelIndex, [u64; 2]) {
        let (to_draw, flip_draw) = (f64::from(draws[0]), f64::from(draws[1]));
        let [first, second] = state;
        match &self.routing {
            SimRouting::Matrix { p, .. } => (categorical(&p[at.index()], to_draw), state),
            _ if at == LARGE && !matches!(self.routing, SimRouting::Stretches { .. }) => (SMALL, state),
            SimRouting::Bursty { calm_p, storm_p, flip } => {
                let stormy = (first == 1) != (flip_draw < *flip);
                let hand_over = to_draw < if stormy { *storm_p } else { *calm_p };
                (if hand_over { LARGE } else { SMALL }, [u64::from(stormy), second])
            }
            SimRouting::Stretches {
                large_p,
                small_tokens,
                large_tokens,
            } => {
                // first: tokens left of the stretch; 0 at its beginning.
                if at == LARGE {
                    let left = if first == 0 {
                        u64::from(*large_tokens) - 1
                    } else {
                        first - 1
                    };
                    (if left == 0 { SMALL } else { LARGE }, [left, second])
                } else if first == 0 && to_draw < *large_p {
                    (LARGE, [0, second])
                } else {
                    let left = if first == 0 { u64::from(*small_tokens) } else { first } - 1;
                    (SMALL, [left, second])
                }
            }
            SimRouting::Trace { hands_over } => {
                // first: steps done at the small model, plus one; 0: not started.
                let place = if first == 0 {
                    (to_draw * hands_over.len() as f64) as u64
                } else {
                    first - 1
                };
                let hand_over = hands_over[(place % hands_over.len() as u64) as usize];
                (if hand_over { LARGE } else { SMALL }, [place + 2, second])
            }
        }
    }

    fn keeps(&self, at: ModelIndex, to: ModelIndex) -> bool {
        match &self.routing {
            SimRouting::Matrix { keep, .. } => keep[at.index()][to.index()],
            _ => at == LARGE,
        }
    }
}

/// The signals of a candidate at `position`, appended to `out`: uniform draws and positions as a runner computes them; all that
/// a model would have to give is drawn evenly from [0, 1), so that a policy with a threshold t hands over with a probability
/// that follows from t.
pub(super) fn draw_signals(plan: &Plan, at: ModelIndex, seed: u64, position: u64, out: &mut Vec<f32>) {
    for (index, signal) in plan.signals[at.index()].iter().enumerate() {
        for column in 0..signal.columns() {
            out.push(match signal {
                Signal::Uniform(number) => uniform_f32(seed, position, Purpose::Policy(*number)),
                Signal::Position => position as f32,
                Signal::Newlines => 0.0,
                _ => uniform_f32(seed, position, Purpose::Policy(model_signal(at, index, column))),
            });
        }
    }
}

/// A number for the draw that stands for a model's signal, away from the small numbers that policies use.
fn model_signal(at: ModelIndex, signal: usize, column: usize) -> u32 {
    1 << 31 | at.0 << 24 | (signal as u32) << 12 | column as u32
}

fn categorical(row: &[f64], draw: f64) -> ModelIndex {
    let mut sum = 0.0;
    for (index, p) in row.iter().enumerate() {
        sum += p;
        if draw < sum {
            return ModelIndex(index as u32);
        }
    }
    // The row sums to 1 but for rounding: the last model that can be drawn.
    ModelIndex(row.iter().rposition(|&p| p > 0.0).unwrap_or(0) as u32)
}

impl Policy for SimPolicy {
    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn route(&mut self, at: ModelIndex, batch: &RouteBatch, out: &mut Decisions) -> Result<(), PolicyFault> {
        out.destinations.clear();
        out.state.clear();
        for (draws, state) in batch.signals.chunks_exact(2).zip(batch.state.chunks_exact(2)) {
            let (to, state) = self.decide(at, draws, [state[0], state[1]]);
            out.destinations.push(to);
            out.state.extend_from_slice(&state);
        }
        Ok(())
    }

    fn send(&mut self, at: ModelIndex, to: ModelIndex, row: LeavingRow<'_>) -> Result<Parcel, PolicyFault> {
        Ok(Parcel {
            keep_candidate: self.keeps(at, to),
            state: PolicyState::new(row.state),
        })
    }

    fn receive(&mut self, _: ModelIndex, _: ModelIndex, parcel: &Parcel) -> Result<PolicyState, PolicyFault> {
        Ok(parcel.state)
    }
}
