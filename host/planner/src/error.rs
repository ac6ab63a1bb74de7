//! What can be wrong with a plan's input, and what would be right.

use thiserror::Error;

/// Why a plan cannot be made.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// No model at all.
    #[error("latency_ms: a deployment has at least one model, got none")]
    NoModels,
    /// A latency that is not a positive, finite number of milliseconds.
    #[error("latency_ms[{model}]: a step latency is positive and finite, got {value}")]
    Latency {
        /// Index of the model.
        model: usize,
        /// The latency given, in ms.
        value: f64,
    },
    /// A quantum that cannot represent the latencies.
    #[error("quantum_ms: a quantum is positive and at most the smallest latency ({latency_ms_min} ms), got {value}")]
    Quantum {
        /// The quantum given, in ms.
        value: f64,
        /// The smallest latency, in ms.
        latency_ms_min: f64,
    },
    /// A latency of more quanta than a state can hold.
    #[error("quantum_ms: latency_ms[{model}] is {quanta} quanta long, at most {quanta_max} fit; use a longer quantum")]
    QuantumTooShort {
        /// Index of the model.
        model: usize,
        /// Its latency in quanta.
        quanta: f64,
        /// The most quanta that a latency may have.
        quanta_max: u16,
    },
    /// A matrix or vector of the wrong size.
    #[error("{field}: expected {expected} entries, one for each model, got {got}")]
    Size {
        /// The field, with its row where it is a matrix.
        field: String,
        /// How many entries belong there.
        expected: usize,
        /// How many were given.
        got: usize,
    },
    /// A probability outside of 0..=1.
    #[error("{field}: a probability is within 0..=1, got {value}")]
    Probability {
        /// The entry, such as `routing[0][1]`.
        field: String,
        /// The value given.
        value: f64,
    },
    /// Probabilities that do not add up.
    #[error("{field}: probabilities sum to 1, got {sum}")]
    RowSum {
        /// The row, such as `routing[0]`.
        field: String,
        /// Its sum.
        sum: f64,
    },
    /// A commit count that is not a finite number of tokens.
    #[error("commit[{from}][{to}]: committed tokens are finite and at least 0, got {value}")]
    Commit {
        /// The model that ran.
        from: usize,
        /// The model that runs next.
        to: usize,
        /// The value given.
        value: f64,
    },
    /// A system in which no token is ever committed.
    #[error("commit: no move that a request makes for ever commits a token, so there is nothing to plan")]
    CommitsNothing,
    /// Where requests end up is decided by early moves, so that there is no single long-run rate.
    #[error(
        "routing: starting at model 0, requests can settle in several separate ways, each with its own rate; plan each alone"
    )]
    SeveralClasses,
    /// A number of requests outside of what a state can hold.
    #[error("n: between 1 and {n_max} requests, got {n}")]
    Requests {
        /// The number given.
        n: usize,
        /// The most that are supported.
        n_max: usize,
    },
    /// A threshold vector outside of the feasible set.
    #[error(
        "b: {b:?} is not feasible for n = {n}: every threshold is within 1..={n} and the sum of (b_i - 1) is below {n}, \
         else all requests can wait with no model running"
    )]
    Infeasible {
        /// The thresholds given.
        b: Vec<usize>,
        /// The number of requests.
        n: usize,
    },
    /// A chain too large to hold.
    #[error(
        "the chain for n = {n}, b = {b:?} has more than {max} {what}; use a longer quantum (now {quantum_ms} ms) or \
         fewer requests"
    )]
    TooLarge {
        /// The number of requests.
        n: usize,
        /// The thresholds.
        b: Vec<usize>,
        /// What there are too many of: states or transitions.
        what: &'static str,
        /// The bound.
        max: usize,
        /// The quantum in use, in ms.
        quantum_ms: f64,
    },
    /// An iteration that did not settle.
    #[error("the stationary law did not converge in {sweeps} sweeps: residual {residual:.1e}, needed {tolerance:.1e}")]
    NotConverged {
        /// Sweeps made.
        sweeps: usize,
        /// L1 distance left.
        residual: f64,
        /// L1 distance asked for.
        tolerance: f64,
    },
}
