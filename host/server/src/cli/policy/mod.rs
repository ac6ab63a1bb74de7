//! `tokenrouter-host policy`: write a routing policy, build it, look into it, and judge it.

mod bench;
mod build;
mod check;
mod inspect;
mod new;
mod replay;
mod subject;
mod timing;

use clap::{Args, Subcommand};

use super::Failure;

/// Shown below the commands.
pub(super) const POLICY_EXAMPLES: &str = "\
An afternoon:
  tokenrouter-host policy new my-policy         a crate with a policy that works, to be changed
  cd my-policy
  cargo test                                    its logic, natively
  tokenrouter-host policy build                 my-policy.wasm
  tokenrouter-host policy inspect my-policy.wasm
  tokenrouter-host policy check my-policy.wasm
  tokenrouter-host policy bench my-policy.wasm
  tokenrouter-host --plugin ./my-policy.wasm    serve with it

Wherever a .wasm file is asked for, the name of a policy of this binary will do, as in: policy inspect r-stitch.";

/// What to do with a policy.
#[derive(Debug, Args)]
pub(super) struct PolicyArgs {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    /// Write a crate for a new policy: one that works, with tests, and all that it is made of
    New(new::NewArgs),
    /// Compile a policy's crate to a component
    Build(build::BuildArgs),
    /// Show what a component says of itself, and what it asks of a deployment
    Inspect(inspect::InspectArgs),
    /// Find out by calling it whether a component keeps the contract
    Check(check::CheckArgs),
    /// Measure what calls cost
    Bench(bench::BenchArgs),
    /// Run recorded requests through a policy, without any model
    #[command(after_help = replay::EXAMPLES)]
    Replay(replay::ReplayArgs),
}

/// Runs one of the commands.
pub(super) fn run(args: &PolicyArgs) -> Result<(), Failure> {
    match &args.command {
        PolicyCommand::New(args) => new::run(args),
        PolicyCommand::Build(args) => build::run(args),
        PolicyCommand::Inspect(args) => inspect::run(args),
        PolicyCommand::Check(args) => check::run(args),
        PolicyCommand::Bench(args) => bench::run(args),
        PolicyCommand::Replay(args) => replay::run(args),
    }
}
