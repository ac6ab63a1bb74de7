//! Running cargo within cargo.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::AuthoringError;

/// The cargo that runs this program, or the one on the path.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    clean_environment(&mut command);
    command
}

/// Runs a command. All that it says goes to standard error: standard output belongs to the caller's results.
///
/// # Errors
/// If it does not start, or fails.
pub fn run(what: &'static str, command: &mut Command) -> Result<(), AuthoringError> {
    let program = command.get_program().display().to_string();
    let status = command
        .stdout(Stdio::from(std::io::stderr()))
        .status()
        .map_err(|source| AuthoringError::Start {
            program: program.clone(),
            source,
        })?;
    if status.success() {
        return Ok(());
    }
    Err(AuthoringError::Failed { what, program, status })
}

/// Panic messages carry source paths. These flags make them the same on every machine. `library` is where the sources
/// of the standard library lie.
pub fn remap_flags(library: &Path) -> Vec<String> {
    let crates = registries().into_iter().map(|registry| (registry, "crates"));
    let all = crates.chain([(library.to_path_buf(), "library")]);
    all.map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()))
        .collect()
}

/// The folders cargo unpacks crates in, one for each registry.
fn registries() -> Vec<PathBuf> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let Some(home) = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo"))) else {
        return Vec::new();
    };
    let Ok(entries) = fs::read_dir(home.join("registry/src")) else {
        return Vec::new();
    };
    entries.flatten().map(|entry| entry.path()).collect()
}

/// Takes variables out of a nested build that were meant for the outer one and would change it.
fn clean_environment(command: &mut Command) {
    for name in [
        "RUSTFLAGS",
        "CARGO_BUILD_RUSTFLAGS",
        "CARGO_BUILD_TARGET",
        "CARGO_TARGET_DIR",
        "RUSTC_WRAPPER",
    ] {
        command.env_remove(name);
    }
}
