//! `policy build`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use tokenrouter_authoring::package::Package;
use tokenrouter_authoring::toolchain;

use crate::cli::{Failure, output};

/// Options of `policy build`.
#[derive(Debug, Args)]
pub(super) struct BuildArgs {
    /// Folder of the policy's crate
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// File to write [default: DIR/NAME.wasm]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Where a standard library is kept that had to be built from its sources, which takes a minute [default: the user's cache]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
}

pub(super) fn run(args: &BuildArgs) -> Result<(), Failure> {
    let package = Package::read(&args.dir).map_err(Failure::asked)?;
    let cache = args.cache.clone().unwrap_or_else(|| user_cache(&args.dir));
    let toolchain = toolchain::find(&cache).map_err(Failure::asked)?;
    let component = package.build(&toolchain).map_err(Failure::asked)?;
    let default = || args.dir.join(format!("{}.wasm", package.name));
    let out = args.out.clone().unwrap_or_else(default);
    std::fs::write(&out, &component)
        .with_context(|| format!("cannot write {}", out.display()))
        .map_err(Failure::Other)?;
    output::print(&format!(
        "{}: {} bytes, by {toolchain}\n",
        out.display(),
        component.len()
    ))
}

/// `$XDG_CACHE_HOME/tokenrouter` or `~/.cache/tokenrouter`; without a home, beside what cargo builds.
fn user_cache(dir: &Path) -> PathBuf {
    let set = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    cache.map_or_else(|| dir.join("target"), |cache| cache.join("tokenrouter"))
}
