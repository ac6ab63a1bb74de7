//! Embeds the SDK's and the contract's files, so that a binary can write them beside a new policy.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let root = here.join("../..").canonicalize()?;
    let mut generated = String::new();
    for (name, folder) in [("SDK", "plugins/sdk"), ("WIT", "wit")] {
        let folder = root.join(folder);
        println!("cargo::rerun-if-changed={}", folder.display());
        let mut files = Vec::new();
        walk(&folder, &mut files)?;
        files.sort();
        let _ = writeln!(generated, "pub(crate) static {name}: &[(&str, &str)] = &[");
        for path in files {
            let relative = path.strip_prefix(&folder).map_err(io::Error::other)?;
            let _ = writeln!(
                generated,
                "    ({:?}, include_str!({:?})),",
                relative.display().to_string(),
                path.display().to_string()
            );
        }
        generated.push_str("];\n");
    }
    for (name, file) in [("MANIFEST", "plugins/Cargo.toml"), ("LOCK", "plugins/Cargo.lock")] {
        let path = root.join(file);
        println!("cargo::rerun-if-changed={}", path.display());
        let _ = writeln!(
            generated,
            "pub(crate) static {name}: &str = include_str!({:?});",
            path.display().to_string()
        );
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("embedded.rs"), generated)
}

/// The manifest and sources under a folder; what editors and builds leave beside them stays out.
fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            if !path.ends_with("target") {
                walk(&path, files)?;
            }
        } else if path
            .extension()
            .is_some_and(|extension| ["rs", "toml", "wit"].iter().any(|known| extension == *known))
        {
            files.push(path);
        }
    }
    Ok(())
}
