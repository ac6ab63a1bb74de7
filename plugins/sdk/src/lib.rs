//! Writes a routing policy in one short Rust file.
//!
//! A policy is a type that implements [`Policy`]: `init` reads its options and says which signals it wants, `route`
//! names, for one row of a step, the model that goes on. Admission, `send` and `receive` have defaults. One line,
//! [`export!`], makes it a component.
//!
//! ```
//! use tokenrouter_sdk::prelude::*;
//!
//! /// Hands over to the last model while the entry model is unsure.
//! struct Unsure {
//!     plan: Plan,
//!     threshold: f64,
//! }
//!
//! const THRESHOLD: Number = Number {
//!     name: "threshold",
//!     summary: "hand over when the largest probability is below this, 0 to 1",
//!     default: 0.5,
//!     min: 0.0,
//!     max: 1.0,
//!     per_request: false,
//! };
//!
//! impl Policy for Unsure {
//!     const ABOUT: About = About {
//!         name: "unsure",
//!         version: "0.1.0",
//!         summary: "Hands one token over when the entry model is unsure",
//!         options: &[&THRESHOLD],
//!     };
//!
//!     fn init(deployment: &Deployment, options: &Options) -> Result<Self, String> {
//!         let plan = plan(0, 0, vec![vec![Signal::MaxProbability]; deployment.models.len()]);
//!         Ok(Self { plan, threshold: options.get(&THRESHOLD) })
//!     }
//!
//!     fn plan(&self) -> &Plan {
//!         &self.plan
//!     }
//!
//!     fn route(&self, at: ModelIndex, row: Row<'_>) -> ModelIndex {
//!         let last = self.plan.signals.len() as ModelIndex - 1;
//!         if at == 0 && f64::from(row.signals[0]) < self.threshold { last } else { 0 }
//!     }
//! }
//!
//! tokenrouter_sdk::export!(Unsure);
//! # fn main() {}
//! ```
//!
//! Nothing of a policy's logic needs Wasm, so `cargo test` on any machine tests it: the types are plain structs, and
//! the exports exist only when the target is Wasm.

pub mod bindings;
mod export;
mod heads;
mod log;
mod models;
mod options;
mod policy;
pub mod testing;
mod threshold;

pub use heads::head;
pub use log::{Level, log};
pub use models::{LARGE, Pair, SMALL, check_models};
pub use options::decimal;
pub use options::{Boolean, Choice, Declared, Number, Numbers, OptionKind, Options, Text, Texts};
pub use policy::{About, Policy, Row, plan};
pub use threshold::Threshold;

#[doc(hidden)]
pub use export::{describe, install_panic_hook};

/// The contract's types; `wit/policy.wit` documents them.
pub use bindings::tokenrouter::policy::types::{
    Admission, Batch, Decisions, Deployment, Description, ModelIndex, ModelInfo, OptionInfo, Parcel, Plan, Request,
    Setting, Signal, StateWord, Step, Token, Value,
};

/// All that a policy needs, for one `use`.
pub mod prelude {
    pub use crate::{
        About, Admission, Batch, Boolean, Choice, Decisions, Declared, Deployment, LARGE, Level, ModelIndex, ModelInfo,
        Number, Numbers, Options, Pair, Parcel, Plan, Policy, Request, Row, SMALL, Setting, Signal, StateWord, Step,
        Text, Texts, Threshold, Token, Value, check_models, decimal, head, log, plan,
    };
}

/// The policy in the project's README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// So does the page on writing one.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/write-a-policy.md")]
struct WriteAPolicy;
