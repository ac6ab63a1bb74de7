//! `policy new`.

use std::path::PathBuf;

use clap::Args;
use tokenrouter_authoring::scaffold;

use crate::cli::{Failure, output};

/// Options of `policy new`.
#[derive(Debug, Args)]
pub(super) struct NewArgs {
    /// Name of the policy, its crate and its folder: lower-case letters, digits and "-"
    name: String,
    /// Where to make the folder
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

pub(super) fn run(args: &NewArgs) -> Result<(), Failure> {
    let folder = scaffold::create(&args.dir, &args.name).map_err(Failure::asked)?;
    let (folder, name) = (folder.display(), &args.name);
    output::print(&format!(
        "{folder}/src/lib.rs     a policy that works, and its tests; change it\n\
         {folder}/wit            the contract; its comments are the reference\n\
         {folder}/vendor         the SDK\n\n\
         Next:\n  \
         cd {folder}\n  \
         cargo test\n  \
         tokenrouter-host policy build\n  \
         tokenrouter-host policy check {name}.wasm\n  \
         tokenrouter-host --plugin ./{name}.wasm\n"
    ))
}
