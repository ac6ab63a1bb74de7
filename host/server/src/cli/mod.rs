//! The command line: its arguments, what it prints, and how it ends.
//!
//! Exit codes: 0 after an orderly end, 2 for a command line or a file that asks for what cannot be done, 1 for anything else.

mod address;
mod admin;
mod administration;
mod args;
mod banner;
mod bench;
mod calibrate;
mod chat;
mod connection;
mod doctor;
mod eval;
mod gpu_check;
mod heads;
mod logging;
mod measure;
mod models;
mod numbers;
mod output;
mod parallel;
mod picture;
mod plan;
mod policy;
mod record;
mod serve;
mod signals;
mod simulate;
mod table;
mod top;
mod workload;

#[cfg(test)]
mod tests;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};
use tokenrouter_host::deployment::DeploymentError;

pub use args::Cli;
use args::Command;

/// Why the command ends with an error.
enum Failure {
    /// What was asked for cannot be done: exit code 2.
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

/// Reads the command line; ends the process where it cannot be read, or asks for help.
pub fn parse() -> Cli {
    let matches = with_negative_numbers(Cli::command()).get_matches();
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// Takes `-1` as a value everywhere, so that it is told to be out of range and not to be an option that is unknown.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let allow = |arg: clap::Arg| {
        let takes_values = arg.get_action().takes_values();
        arg.allow_negative_numbers(takes_values)
    };
    command.mut_args(allow).mut_subcommands(with_negative_numbers)
}

/// Runs the command to its end.
#[expect(clippy::print_stderr, reason = "a command says on standard error why it failed")]
pub fn run(cli: Cli) -> ExitCode {
    let ended = match cli.command {
        Some(Command::Serve(args)) => serve::serve(args),
        Some(Command::Admin(args)) => admin::run(&args),
        Some(Command::Doctor(args)) => doctor::run(args),
        Some(Command::Models(args)) => models::run(&args),
        Some(Command::Plan(args)) => plan::run(&args),
        Some(Command::Calibrate(args)) => calibrate::run(&args),
        Some(Command::Eval(args)) => eval::run(&args),
        Some(Command::Bench(args)) => bench::run(&args),
        Some(Command::Policy(args)) => policy::run(&args),
        Some(Command::Simulate(args)) => simulate::run(&args),
        Some(Command::Heads(args)) => heads::run(args),
        Some(Command::GpuCheck(args)) => gpu_check::run(&args),
        Some(Command::Chat(args)) => chat::run(&args),
        Some(Command::Top(args)) => top::run(&args),
        None => serve::serve(cli.serve),
    };
    let (error, code) = match ended {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Asked(error)) => (error, 2),
        // Whatever a command was doing: a deployment that cannot be had was asked for.
        Err(Failure::Other(error)) if error.chain().any(|cause| cause.is::<DeploymentError>()) => (error, 2),
        Err(Failure::Other(error)) => (error, 1),
    };
    eprintln!("error: {}", explain(&error));
    ExitCode::from(code)
}

/// The error and its causes on one line. Library errors say their cause themselves; it is not said twice.
fn explain(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}
