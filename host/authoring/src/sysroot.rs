//! Builds the standard library for Wasm from its sources, once for each compiler.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest as _, Sha256};

use crate::AuthoringError;
use crate::command::{cargo, remap_flags, run};
use crate::toolchain::{Compiler, TARGET};

/// The version of what this module makes: part of the key, so that a change of the flags below builds anew.
const RECIPE: &str = "2";

/// The private sysroot of a compiler, built under `cache` if it is not there.
///
/// Cargo's `build-std` is unstable, hence the `RUSTC_BOOTSTRAP`. Only the library is compiled that way; the policies
/// are an ordinary stable build against the result.
pub(crate) fn build(cache: &Path, compiler: &Compiler) -> Result<PathBuf, AuthoringError> {
    let key = Sha256::digest(format!("{RECIPE}\n{}", compiler.version));
    let key: String = key[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    let folder = cache.join("wasm-std").join(key);
    let sysroot = folder.join("sysroot");
    if sysroot.is_dir() {
        return Ok(sysroot);
    }
    // Two processes may build at the same time, each in a folder of its own; the first to be done wins.
    let work = folder.join(format!("work-{}", std::process::id()));
    let package = work.join("package");
    make(&package.join("src"))?;
    write(&package.join("src/lib.rs"), "")?;
    // The empty table keeps cargo from looking for a workspace further up.
    write(
        &package.join("Cargo.toml"),
        "[package]\nname = \"empty\"\nedition = \"2024\"\n[workspace]\n",
    )?;

    // Fetched first: only then is it known where the crates that the library is made of lie.
    run(
        "fetching the crates of the standard library",
        cargo_std(compiler, &package).args(["fetch", "--target", TARGET]),
    )?;
    let target = work.join("target");
    let mut command = cargo_std(compiler, &package);
    command
        .args(["build", "--release", "--target", TARGET])
        .arg("--target-dir")
        .arg(&target);
    // Bitcode, so that policies can be optimised together with the library.
    let mut flags = vec!["-Cembed-bitcode=yes".to_owned()];
    flags.extend(remap_flags(&compiler.library()));
    command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    run("building the standard library from its sources", &mut command)?;

    // Renamed into place when complete, so that a build that was interrupted is not taken for a sysroot.
    let complete = work.join("sysroot");
    let libraries = complete.join("lib/rustlib").join(TARGET).join("lib");
    make(&libraries)?;
    let built = target.join(TARGET).join("release/deps");
    for entry in fs::read_dir(&built).map_err(AuthoringError::file("read", &built))? {
        let path = entry.map_err(AuthoringError::file("read", &built))?.path();
        let name = path.file_name().unwrap_or_default();
        if path.extension().is_some_and(|extension| extension == "rlib")
            && !name.display().to_string().contains("empty-")
        {
            fs::copy(&path, libraries.join(name)).map_err(AuthoringError::file("copy", &path))?;
        }
    }
    match fs::rename(&complete, &sysroot) {
        Err(source) if !sysroot.is_dir() => return Err(AuthoringError::file("make", &sysroot)(source)),
        _ => {}
    }
    fs::remove_dir_all(&work).map_err(AuthoringError::file("remove", &work))?;
    Ok(sysroot)
}

fn make(folder: &Path) -> Result<(), AuthoringError> {
    fs::create_dir_all(folder).map_err(AuthoringError::file("make", folder))
}

fn write(path: &Path, text: &str) -> Result<(), AuthoringError> {
    fs::write(path, text).map_err(AuthoringError::file("write", path))
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
