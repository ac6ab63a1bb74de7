//! The command line: its arguments, what it prints, and how it ends.
//!
//! Exit codes: 0 after an orderly end, 2 for a command line or a deployment that cannot be served, 1 for anything else.

mod args;
mod banner;
mod logging;
mod serve;
mod signals;

#[cfg(test)]
mod tests;

use std::process::ExitCode;

pub use args::Cli;
use args::Command;

/// Why the command ends with an error.
enum Failure {
    /// What was asked for cannot be served: exit code 2.
    Asked(anyhow::Error),
    /// Something else: exit code 1.
    Other(anyhow::Error),
}

impl Failure {
    fn asked(error: impl Into<anyhow::Error>) -> Self {
        Self::Asked(error.into())
    }

    fn other(error: impl Into<anyhow::Error>) -> Self {
        Self::Other(error.into())
    }
}

/// Runs the command to its end.
#[expect(clippy::print_stderr, reason = "a command says on standard error why it failed")]
pub fn run(cli: Cli) -> ExitCode {
    let args = match cli.command {
        Some(Command::Serve(args)) => args,
        None => cli.serve,
    };
    let (error, code) = match serve::serve(args) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Asked(error)) => (error, 2),
        Err(Failure::Other(error)) => (error, 1),
    };
    eprintln!("error: {error}");
    ExitCode::from(code)
}
