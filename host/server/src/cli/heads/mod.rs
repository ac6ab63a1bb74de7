//! `tokenrouter-host heads`: from training's checkpoints to files that a deployment names.

mod args;
mod convert;
mod inspect;
mod random;
mod train;

use std::path::Path;

use anyhow::Context as _;
use tokenrouter_model::heads::HeadFile;

pub(super) use args::{HEADS_EXAMPLES, HeadsArgs};

use self::args::HeadsCommand;
use super::{Failure, output};

pub(super) fn run(args: HeadsArgs) -> Result<(), Failure> {
    match args.command {
        HeadsCommand::Convert(args) => convert::run(&args),
        HeadsCommand::Inspect(args) => inspect::run(&args),
        HeadsCommand::Random(args) => random::run(&args),
        HeadsCommand::Train(args) => train::run(&args),
    }
}

/// Whether a head's file can be written, for what takes long before it does.
fn check_out(out: &Path) -> anyhow::Result<()> {
    output::can_write(out).with_context(|| format!("--out: cannot write {}", out.display()))
}

/// Writes a head's file and shows what is in it.
fn write(head: &HeadFile, out: &Path) -> Result<(), Failure> {
    check_out(out).map_err(Failure::Asked)?;
    let bytes = head.to_bytes().map_err(Failure::other)?;
    let written = std::fs::write(out, &bytes).with_context(|| format!("cannot write {}", out.display()));
    written.map_err(Failure::Other)?;
    // Read back, so that what is shown is what a deployment will load.
    inspect::show(out, false)
}
