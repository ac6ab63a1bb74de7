//! Compiles the policies to core modules.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::plugins::Plugins;
use crate::toolchain::{TARGET, Toolchain, cargo, run};

/// Compiles every policy; the modules in the order of `plugins.policies`.
pub fn modules(plugins: &Plugins, toolchain: &Toolchain) -> Result<Vec<Vec<u8>>> {
    let target = plugins.folder().join("target");
    let mut command = cargo();
    command
        .current_dir(plugins.folder())
        .args(["build", "--lib", "--locked", "--release", "--target", TARGET]);
    command.arg("--target-dir").arg(&target);
    for policy in &plugins.policies {
        command.args(["--package", &policy.name]);
    }
    toolchain.apply(&mut command);
    let mut flags = toolchain.flags.clone();
    flags.extend(remap_flags(&toolchain.library));
    command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    run(&mut command).context("the policies do not compile")?;
    let built = target.join(TARGET).join("release");
    let read = |name: &str| {
        let path = built.join(format!("{}.wasm", name.replace('-', "_")));
        fs::read(&path).with_context(|| format!("{} was not built; has it crate-type \"cdylib\"?", path.display()))
    };
    plugins.policies.iter().map(|policy| read(&policy.name)).collect()
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
pub fn clean_environment(command: &mut Command) {
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
