//! What can go wrong between a policy's sources and its component.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use crate::toolchain::TARGET;

/// Any failure of this crate. Each text says what was found and what would be right.
#[derive(Debug, thiserror::Error)]
pub enum AuthoringError {
    /// A file or folder could not be used.
    #[error("cannot {what} {}: {source}", .path.display())]
    File {
        /// Read, write, make, …
        what: &'static str,
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is something where a new crate is to be.
    #[error("{} exists already; choose another name or --dir, or remove it", .0.display())]
    Exists(PathBuf),
    /// A name that no crate can have.
    #[error(
        "\"{0}\" cannot name a policy: write a lower-case letter, then lower-case letters, digits and single \"-\""
    )]
    Name(String),
    /// A manifest that is not one.
    #[error("{}: {reason}", .path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// No compiler for WebAssembly.
    #[error(
        "no standard library for {TARGET} is here. Install one:\n  \
         with rustup:  rustup target add {TARGET}\n  \
         on Debian:    apt-get install -y --no-install-recommends rustc-web rust-web-src"
    )]
    NoToolchain,
    /// No linker for WebAssembly.
    #[error("no linker for WebAssembly is here: install rustup's toolchain (it has rust-lld) or lld (wasm-ld)")]
    NoLinker,
    /// A program did not start.
    #[error("cannot run {program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// A program failed. Its own words went to standard error.
    #[error("{what}: {program} ended with {status}")]
    Failed {
        /// What was to be done.
        what: &'static str,
        /// The program.
        program: String,
        /// How it ended.
        status: ExitStatus,
    },
    /// No module where one was to be built.
    #[error("{} was not built; the crate needs `crate-type = [\"cdylib\"]` in its [lib] table", .0.display())]
    NotBuilt(PathBuf),
    /// A module that does not become a policy's component.
    #[error("{0}")]
    Component(String),
}

impl AuthoringError {
    pub(crate) fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { what, path, source }
    }
}
