//! Builds the standard library for Wasm from its sources, once for each compiler.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::build::remap_flags;
use crate::lock::hex_digest;
use crate::toolchain::{Compiler, TARGET, cargo, run};

/// The version of what this module makes: part of the key, so that a change of the flags below builds anew.
const RECIPE: &str = "2";

/// The private sysroot of a compiler, built under `root/target` if it is not there.
///
/// Cargo's `build-std` is unstable, hence the `RUSTC_BOOTSTRAP`. Only the library is compiled that way; the policies
/// are an ordinary stable build against the result.
pub fn build(root: &Path, compiler: &Compiler) -> Result<PathBuf> {
    let key = hex_digest(format!("{RECIPE}\n{}", compiler.version).as_bytes());
    let folder = root.join("target/wasm-std").join(&key[..16]);
    let sysroot = folder.join("sysroot");
    if sysroot.is_dir() {
        return Ok(sysroot);
    }
    let package = folder.join("package");
    fs::create_dir_all(package.join("src"))?;
    fs::write(package.join("src/lib.rs"), "")?;
    // The empty table keeps cargo from looking for a workspace further up.
    fs::write(
        package.join("Cargo.toml"),
        "[package]\nname = \"empty\"\nedition = \"2024\"\n[workspace]\n",
    )?;

    // Fetched first: only then is it known where the crates that the library is made of lie.
    run(cargo_std(compiler, &package).args(["fetch", "--target", TARGET]))
        .context("cannot fetch the library's crates")?;
    let target = folder.join("target");
    let mut command = cargo_std(compiler, &package);
    command
        .args(["build", "--release", "--target", TARGET])
        .arg("--target-dir")
        .arg(&target);
    // Bitcode, so that policies can be optimised together with the library.
    let mut flags = vec!["-Cembed-bitcode=yes".to_owned()];
    flags.extend(remap_flags(&compiler.library()));
    command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    run(&mut command).context("cannot build the standard library from its sources")?;

    // Renamed into place when complete, so that a build that was interrupted is not taken for a sysroot.
    let partial = folder.join("partial");
    let libraries = partial.join("lib/rustlib").join(TARGET).join("lib");
    fs::create_dir_all(&libraries)?;
    for entry in fs::read_dir(target.join(TARGET).join("release/deps"))? {
        let path = entry?.path();
        let name = path.file_name().context("a folder entry has no name")?;
        if path.extension().is_some_and(|extension| extension == "rlib")
            && !name.display().to_string().contains("empty-")
        {
            fs::copy(&path, libraries.join(name))?;
        }
    }
    fs::rename(&partial, &sysroot)?;
    fs::remove_dir_all(&target)?;
    Ok(sysroot)
}

/// A cargo command on the empty package that also handles the standard library. Without its optional features:
/// a policy that panics is gone before anybody could print a backtrace.
fn cargo_std(compiler: &Compiler, package: &Path) -> Command {
    let mut command = cargo();
    command
        .current_dir(package)
        .env("RUSTC", &compiler.rustc)
        .env("RUSTC_BOOTSTRAP", "1");
    command.args(["-Zbuild-std=core,alloc,std,panic_abort", "-Zbuild-std-features="]);
    command
}
