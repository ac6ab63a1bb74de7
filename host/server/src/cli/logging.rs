//! The log, on standard error.

use std::io::IsTerminal as _;

use anyhow::anyhow;
use tracing_subscriber::EnvFilter;

/// What is logged by default: what happens here, and only what goes wrong in libraries.
pub(super) const DEFAULT: &str = "warn,tokenrouter_host=info,tokenrouter_engine=info,tokenrouter_policy=info";

/// Starts the log.
pub(super) fn start(filter: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        anyhow!("--log \"{filter}\" is not a filter ({error}); write a level such as info, or TARGET=LEVEL")
    })?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    Ok(())
}
