//! The server `tokenrouter-host`, as a library: a program of one's own can read a deployment file, load it, and serve it.
//!
//! | module | what it knows |
//! |---|---|
//! | [`deployment`] | the deployment file, loading its models and policy |
//! | [`policies`] | the policies of a running host: uploaded, activated, tried, rolled back while requests run |
//! | [`admin`] | the API for that, on a listener of its own |
//! | [`trace`] | what policies were asked and what was decided, in a file |
//! | [`hub`] | models by name: the Hugging Face hub and its cache on this machine |
//! | [`http`] | the OpenAI-compatible API over an engine, and the loop that accepts connections |
//!
//! The command line is the binary's own.
#![forbid(unsafe_code)]

pub mod admin;
pub mod deployment;
pub mod http;
pub mod hub;
mod page;
pub mod policies;
#[cfg(test)]
mod reference;
pub mod trace;
