//! Traces: what policies were asked and what was decided, in a file. `serve --record` writes one, `policy replay` and
//! `simulate --trace` read it.
//!
//! A trace is JSON, one object a line, told apart by `type`: a `header`; a `generation` before its first request; a
//! `request` when it is admitted; a `step` for every candidate; an `end`. [`format`] has the fields. Lines of different
//! requests mix as they happened.

mod agreement;
mod columns;
pub mod format;
mod names;
mod numbers;
mod reader;
mod recorder;

pub use columns::Columns;
pub use names::{parse_signal, signal_name};
pub use numbers::Numbers;
pub use reader::{RecordedRequest, Trace, TraceError};
pub use recorder::{Recorder, RecorderSettings};
