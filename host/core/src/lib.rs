//! The room where a newcomer learns the system: what a request is, how a model's scheduler decides what to run,
//! and what a routing policy is asked. No threads, no clock, no input or output, no model: events go in, actions come
//! out, so that production and simulation run the same code.
#![forbid(unsafe_code)]

pub mod admission;
pub mod agreement;
pub mod ahead;
pub mod cost;
pub mod draw;
pub mod estimate;
pub mod ids;
pub mod kv;
pub mod launch;
pub mod limits;
pub mod policy;
pub mod prefix;
pub mod request;
pub mod route;
pub mod scheduler;
pub mod signal;
pub mod step;
pub mod texts;

pub use ids::{BlockId, ModelIndex, RequestId, TokenId};
