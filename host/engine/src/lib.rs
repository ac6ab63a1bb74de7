//! Drives the core with real models and real policies: one thread a subserver, bounded links between them, and a stream
//! for every answer. Usable in a program of one's own: make the parts, [`Engine::start`], [`Engine::submit`], read the
//! [`stream::AnswerStream`].
#![forbid(unsafe_code)]

mod ahead;
mod answer;
mod board;
mod comparison;
mod engine;
mod generations;
mod health;
mod histogram;
mod job;
mod link;
mod meter;
mod replan;
mod roster;
mod seen;
mod served;
mod shadow;
pub mod stats;
pub mod stream;
mod subserver;
mod timeline;
pub mod trace;
mod traffic;

pub use comparison::{Comparison, ComparisonReport};
pub use engine::{Engine, EngineError, EngineLimits, EngineModel, EngineParts};
pub use health::NotReady;
pub use job::{Job, SubmitError, Target};
pub use served::{Served, ServedStats};
pub use timeline::{STEPS_KEPT, StepRecord};
pub use tokenrouter_core::ahead::Optimistic;
pub use tokenrouter_core::launch::{LaunchRule, ThresholdTable};
pub use tokenrouter_core::policy::FailureMode;
pub use tokenrouter_core::request::{Finish, GenerationId};
pub use traffic::{Canary, Shadow, Traffic};
