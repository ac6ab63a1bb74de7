//! The policies of a running host: uploaded, checked, activated, tried, rolled back and taken out while requests run.
//!
//! | module | what it knows |
//! |---|---|
//! | [`set`](PolicySet) | which generations there are and what each is for: plain data |
//! | [`store`](Store) | the state directory, safe against an end of the process at any moment |
//! | `prepare` | from a component's bytes to a generation that may route: every check, in order |
//! | [`manager`](Manager) | the one place that changes the set, the state directory and the engine's traffic, in this order |
//! | `keeper` | the thread that takes failing policies out, ends drain limits and watches a file |
//! | [`audit`](Audit) | who changed what |

mod audit;
mod breaker;
mod error;
mod keeper;
mod manager;
mod overview;
mod prepare;
mod set;
mod signature;
mod store;
mod watch;

#[cfg(test)]
mod tests;

pub use audit::{Audit, Entry, now_ms};
pub use breaker::BreakerLimits;
pub use error::SwapError;
pub use keeper::Keeper;
pub use manager::{Activation, Change, Done, First, Manager, ManagerParts, ManagerSettings, Upload};
pub use overview::Overview;
pub use set::{FORMER_MAX, NAMES_MAX, PolicySet, Record, Trial, Withdrawn};
pub use signature::{SigningKey, parse_key, parse_signature};
pub use store::{BeforeStep, Components, Restored, Store, StoreError};
pub use watch::Watch;
