//! What `eval` and `bench` share: problems, services that answer them, and what came back.
//!
//! | file | what it knows |
//! |---|---|
//! | `problems` | files of problems, ours and the published ones |
//! | `judge` | whether an answer is right |
//! | `service` | a deployment in this process or an OpenAI URL: one question, one timed answer |
//! | `remote` | the URL's side of it |
//! | `variant` | a deployment with another policy, options and launch rule |
//! | `times` | percentiles |

mod judge;
mod problems;
mod remote;
mod service;
mod times;
mod variant;

pub(super) use problems::Problem;
pub(super) use remote::Remote;
pub(super) use service::{Answered, Question, Service};
pub(super) use times::{Percentiles, percentiles};
pub(super) use variant::Variant;

/// A line of progress on standard error.
#[expect(clippy::print_stderr, reason = "progress of a command that takes long")]
pub(super) fn tell(line: &str) {
    eprintln!("{line}");
}
