//! Finds a compiler that can build for wasm32-unknown-unknown.

use std::collections::BTreeSet;
use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{AuthoringError, sysroot};

/// What policies are compiled for.
pub const TARGET: &str = "wasm32-unknown-unknown";

/// A compiler, and what it needs to be told.
#[derive(Debug)]
pub struct Toolchain {
    /// The compiler.
    pub compiler: Compiler,
    /// Flags for it.
    pub flags: Vec<String>,
    /// The linker, where the compiler has none of its own for Wasm.
    pub linker: Option<PathBuf>,
    /// Where the sources of the standard library lie, as far as panic messages tell.
    pub library: PathBuf,
}

/// One `rustc` of this machine.
#[derive(Clone, Debug)]
pub struct Compiler {
    /// The program.
    pub rustc: PathBuf,
    /// Its sysroot.
    pub sysroot: PathBuf,
    /// What `rustc -vV` says.
    pub version: String,
}

impl fmt::Display for Toolchain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.compiler.version.lines().next().unwrap_or("rustc");
        write!(f, "{} ({version})", self.compiler.rustc.display())
    }
}

impl Toolchain {
    /// Makes a cargo command use this compiler.
    pub fn apply(&self, command: &mut Command) {
        command.env("RUSTC", &self.compiler.rustc);
        if let Some(linker) = &self.linker {
            command.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
        }
    }
}

impl Compiler {
    /// Asks a program; `None` if it is no working `rustc`.
    fn probe(rustc: PathBuf) -> Option<Self> {
        let ask = |argument: &[&str]| {
            let output = Command::new(&rustc)
                .args(argument)
                .output()
                .ok()
                .filter(|output| output.status.success())?;
            String::from_utf8(output.stdout).ok()
        };
        let sysroot = PathBuf::from(ask(&["--print", "sysroot"])?.trim());
        let version = ask(&["-vV"])?;
        Some(Self {
            rustc,
            sysroot,
            version,
        })
    }

    /// Whether its sysroot has the standard library compiled for Wasm.
    fn has_target(&self) -> bool {
        self.sysroot.join("lib/rustlib").join(TARGET).join("lib").is_dir()
    }

    /// Where its sysroot has the sources of the standard library, if they are there.
    pub fn library(&self) -> PathBuf {
        self.sysroot.join("lib/rustlib/src/rust/library")
    }

    fn has_sources(&self) -> bool {
        self.library().join("std/Cargo.toml").is_file()
    }

    /// The linker in its sysroot, which it finds by itself.
    fn own_linker(&self) -> Option<PathBuf> {
        let host = self.version.lines().find_map(|line| line.strip_prefix("host: "))?;
        let path = self.sysroot.join("lib/rustlib").join(host).join("bin").join("rust-lld");
        path.is_file().then_some(path)
    }
}

/// The active compiler if it has the target; else any compiler that has it; else any that has the library's sources, of which
/// the library is built under `cache` (a minute), once for each compiler.
///
/// # Errors
/// If there is none: says what to install.
pub fn find(cache: &Path) -> Result<Toolchain, AuthoringError> {
    let compilers = compilers();
    if let Some(compiler) = compilers.iter().find(|compiler| compiler.has_target()) {
        let linker = if compiler.own_linker().is_some() {
            None
        } else {
            Some(linker(&compilers)?)
        };
        let library = compiler.library();
        return Ok(Toolchain {
            compiler: compiler.clone(),
            flags: Vec::new(),
            linker,
            library,
        });
    }
    if let Some(compiler) = compilers.iter().find(|compiler| compiler.has_sources()) {
        let linker = linker(&compilers)?;
        let sysroot = sysroot::build(cache, compiler)?;
        let flags = vec![format!("--sysroot={}", sysroot.display())];
        let library = compiler.library();
        return Ok(Toolchain {
            compiler: compiler.clone(),
            flags,
            linker: Some(linker),
            library,
        });
    }
    Err(AuthoringError::NoToolchain)
}

/// Every `rustc` of this machine, the active one first, one for each sysroot.
fn compilers() -> Vec<Compiler> {
    let active = env::var_os("RUSTC").map_or_else(|| PathBuf::from("rustc"), PathBuf::from);
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/bin".into(), "/usr/local/bin".into()]);
    let others = folders
        .map(|folder| folder.join("rustc"))
        .filter(|rustc| rustc.is_file());
    let mut sysroots = BTreeSet::new();
    std::iter::once(active)
        .chain(others)
        .filter_map(Compiler::probe)
        .filter(|compiler| sysroots.insert(compiler.sysroot.clone()))
        .collect()
}

/// A linker for Wasm: the one of any toolchain, or LLVM's from the path.
fn linker(compilers: &[Compiler]) -> Result<PathBuf, AuthoringError> {
    let path = env::var_os("PATH").unwrap_or_default();
    let named = env::split_paths(&path).flat_map(|folder| [folder.join("wasm-ld"), folder.join("rust-lld")]);
    compilers
        .iter()
        .find_map(Compiler::own_linker)
        .or_else(|| named.into_iter().find(|path| path.is_file()))
        .ok_or(AuthoringError::NoLinker)
}
