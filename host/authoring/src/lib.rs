//! What the author of a routing policy needs around the policy itself: [`scaffold`] writes a crate that builds, and
//! [`package::build`] makes a component of it, with whichever compiler for WebAssembly the machine has. `tokenrouter-host
//! policy` and `cargo xtask policies` are made of this.
#![forbid(unsafe_code)]

pub mod command;
pub mod component;
mod embedded;
mod error;
pub mod package;
pub mod scaffold;
mod sysroot;
pub mod toolchain;

pub use error::AuthoringError;
