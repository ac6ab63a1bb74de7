//! The log, on standard error.

use std::io::IsTerminal as _;

use anyhow::anyhow;
use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// What is logged by default: what happens here, and only what goes wrong in libraries.
pub(super) const DEFAULT: &str = "warn,tokenrouter_host=info,tokenrouter_engine=info,tokenrouter_policy=info";

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

/// Starts the log.
pub(super) fn start(filter: &str, format: Format) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        anyhow!("--log \"{filter}\" is not a filter ({error}); write a level such as info, or TARGET=LEVEL")
    })?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match format {
        Format::Text => log.with_ansi(std::io::stderr().is_terminal()).init(),
        Format::Json => log
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .init(),
    }
    Ok(())
}
