//! The production scheduler in virtual time: the same `host/core` code as a running engine, driven by an event loop that
//! knows how long steps take instead of running them. Exact where the Markov model's assumptions hold, and still right
//! where they do not: latencies that depend on the batch or on a busy peer, bursty or recorded routing, limited KV,
//! cancellations.

mod agreement;
mod answer;
mod closed_loop;
mod kv;
mod latency;
mod node;
mod report;
mod routing;
mod world;

pub use agreement::Agreement;
pub use answer::{Commit, SimAnswer};
pub use closed_loop::{ANSWER_TOKENS, ClosedLoop, PROMPT};
pub use kv::next_token;
pub use latency::{Latency, LatencyCurve};
pub use report::{ModelReport, Report, Waits};
pub use routing::{SimPolicy, SimRouting};
pub use world::{Outcome, SimRequest, Simulation, SimulationParts};
