//! Hosts routing policies: WebAssembly components that decide, after every token, which model writes the next one.
//!
//! The way of a policy through this crate:
//!
//! 1. [`PolicyHost::load`] checks the uploaded bytes (size, kind, contract version, imports, exports), compiles them
//!    once, ahead of time, and asks the policy to describe itself: [`PolicyCode`].
//! 2. [`PolicyCode::configure`] gives it a deployment and options, and checks the plan it answers with:
//!    [`Generation`].
//! 3. [`Generation::instance`] makes a [`PolicyInstance`], one for each thread that routes. It holds at most one
//!    WebAssembly store, made at the first call and thrown away after any fault; a policy that keeps failing is left alone
//!    for pauses that grow.
//!
//! [`conformance`] finds out by calling whether a policy keeps the contract.
//!
//! Every call runs under the deadline, memory and stack limits of [`PolicyLimits`], whatever the policy does, and
//! everything it returns is checked before the caller sees it. The contract is `wit/policy.wit`.

mod answer;
mod backoff;
mod bindings;
mod call;
mod code;
mod compile;
pub mod conformance;
mod convert;
mod deployment;
mod description;
mod digest;
mod error;
mod generation;
mod guest;
mod host;
mod instance;
mod limits;
mod live;
mod plan;
mod settings;
mod ticker;
mod verify;

pub use call::Call;
pub use code::PolicyCode;
pub use deployment::{Deployment, HeadFacts, ModelFacts, Setting, Value};
pub use description::{Description, OptionInfo};
pub use digest::{Digest, DigestError};
pub use error::PolicyError;
pub use generation::Generation;
pub use host::PolicyHost;
pub use instance::{InstanceCounts, PolicyInstance};
pub use limits::{LOG_LINE_BYTES_MAX, PolicyLimits};
pub use verify::{CONTRACT_PACKAGE, CONTRACT_VERSION, Surface};
