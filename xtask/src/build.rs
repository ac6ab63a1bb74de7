//! Compiles the policies to core modules.

use std::fs;

use anyhow::{Context, Result};
use tokenrouter_authoring::command::{cargo, remap_flags, run};
use tokenrouter_authoring::toolchain::{TARGET, Toolchain};

use crate::plugins::Plugins;

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
    run("the policies do not compile", &mut command)?;
    let built = target.join(TARGET).join("release");
    let read = |name: &str| {
        let path = built.join(format!("{}.wasm", name.replace('-', "_")));
        fs::read(&path).with_context(|| format!("{} was not built; has it crate-type \"cdylib\"?", path.display()))
    };
    plugins.policies.iter().map(|policy| read(&policy.name)).collect()
}
