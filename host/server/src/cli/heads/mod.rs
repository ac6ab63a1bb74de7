//! `tokenrouter-host heads`: from training's checkpoints to files that a deployment names.

mod args;
mod convert;
mod inspect;
mod random;
mod train;

use std::path::Path;

use tokenrouter_model::heads::HeadFile;

pub(super) use args::{HEADS_EXAMPLES, HeadsArgs};

use self::args::HeadsCommand;
use super::Failure;

pub(super) fn run(args: HeadsArgs) -> Result<(), Failure> {
    match args.command {
        HeadsCommand::Convert(args) => convert::run(&args),
        HeadsCommand::Inspect(args) => inspect::run(&args),
        HeadsCommand::Random(args) => random::run(&args),
        HeadsCommand::Train(args) => train::run(&args),
    }
}

/// Writes a head's file and shows what is in it.
fn write(head: &HeadFile, out: &Path) -> Result<(), Failure> {
    let bytes = head.to_bytes().map_err(Failure::other)?;
    std::fs::write(out, &bytes)
        .map_err(|error| Failure::other(anyhow::anyhow!("cannot write {}: {error}", out.display())))?;
    // Read back, so that what is shown is what a deployment will load.
    inspect::show(out, false)
}
