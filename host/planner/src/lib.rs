//! Delayed batching, planned: which threshold B_i each model should wait for before it launches a step.
//!
//! A large model that launches for every request that reaches it runs many small batches; one that waits runs fewer,
//! larger ones and delays those that wait. How long to wait depends on the latencies of the models, on how the policy
//! moves requests, and on how many requests there are. The model is that of appendix D of the TokenRouter paper
//! (arXiv 2610.12242): constant latencies, independent moves, a closed system of N requests.
//!
//! * [`System`]: latencies ([`Latencies`]) and the policy's matrices ([`Routing`]).
//! * [`Planner`]: exact tokens per second for N requests and thresholds B, by the general [`Chain`] or, where it
//!   applies, by the much faster [`Handback`]; and the search for the best B ([`Search`]).
//! * [`Row`]: a line of the resulting table; [`plot`] draws it as a [`chart`].
//! * [`sim`]: the production scheduler in virtual time, for all that the model leaves out.
//! * [`approximation`]: closed forms for use before there is anything to plan with.
#![forbid(unsafe_code)]

pub mod approximation;
mod binomial;
mod chain;
pub mod chart;
mod departures;
mod error;
mod extrapolation;
mod handback;
mod markov;
mod planner;
pub mod plot;
mod quantum;
mod routing;
mod search;
pub mod sim;
mod stationary;
mod system;
mod table;
mod thresholds;

pub use chain::{Chain, ChainLimits};
pub use error::PlanError;
pub use handback::Handback;
pub use planner::Planner;
pub use quantum::Latencies;
pub use routing::Routing;
pub use search::Search;
pub use system::System;
pub use table::Row;
pub use thresholds::REQUESTS_MAX;
