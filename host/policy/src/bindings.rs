//! The contract as Rust types, made from `wit/policy.wit` when this crate is compiled.

#![allow(
    unsafe_code,
    reason = "wasmtime's derives implement its unsafe traits from the WIT file"
)]
#![allow(missing_docs, unused_qualifications, clippy::all, reason = "made by a macro")]

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "policy",
    // Arguments borrow the host's columns: one copy, straight into the policy's memory.
    ownership: Borrowing { duplicate_if_necessary: true },
});

pub(crate) use self::tokenrouter::policy::types;
