//! `host/model/kernels/dist/lock.toml`: what the committed PTX was made from.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::{HEADER, NAMES, OPTIONS, folder, ptx_path};
use crate::lock::hex_digest;

const COMMENT: &str = "# Written by `cargo xtask kernels`; compared by `cargo xtask kernels --check`.\n\n";

/// The lock file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    /// The release of NVRTC that made the PTX.
    nvrtc: String,
    /// By the file's name.
    kernel: BTreeMap<String, Entry>,
}

/// One file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// SHA-256 over the compiler's options, the header and the source.
    sources_sha256: String,
    /// SHA-256 of the PTX.
    ptx_sha256: String,
}

impl Lock {
    /// What the lock must say of the sources and the PTX that are there.
    pub fn of(root: &Path, nvrtc: &str) -> Result<Self> {
        let entry = |name: &str| -> Result<(String, Entry)> {
            let entry = Entry {
                sources_sha256: source_digest(root, name)?,
                ptx_sha256: hex_digest(&read(&ptx_path(root, name))?),
            };
            Ok((name.to_owned(), entry))
        };
        Ok(Self {
            nvrtc: nvrtc.to_owned(),
            kernel: NAMES.into_iter().map(entry).collect::<Result<_>>()?,
        })
    }

    /// Writes it.
    pub fn write(&self, root: &Path) -> Result<()> {
        let text = format!("{COMMENT}{}", toml::to_string(self)?);
        fs::write(folder(root).join("dist/lock.toml"), text).context("cannot write host/model/kernels/dist/lock.toml")
    }

    /// Reads it and compares it with what is there.
    ///
    /// # Errors
    /// One line for every file that disagrees, and what to run.
    pub fn check(root: &Path) -> Result<Self> {
        let text = read(&folder(root).join("dist/lock.toml"))?;
        let lock: Self =
            toml::from_str(&String::from_utf8_lossy(&text)).context("cannot parse the kernels' lock.toml")?;
        let found = Self::of(root, &lock.nvrtc)?;
        let mut wrong = Vec::new();
        for (name, entry) in &found.kernel {
            match lock.kernel.get(name) {
                None => wrong.push(format!("  {name}: is not in lock.toml")),
                Some(known) if known.sources_sha256 != entry.sources_sha256 => {
                    wrong.push(format!(
                        "  {name}: {name}.cu, {HEADER} or the options changed after it was compiled"
                    ));
                }
                Some(known) if known != entry => {
                    wrong.push(format!("  {name}: its PTX is not the one that was compiled"));
                }
                Some(_) => {}
            }
        }
        let strays = lock.kernel.keys().filter(|name| !found.kernel.contains_key(*name));
        wrong.extend(strays.map(|name| format!("  {name}: is in lock.toml, but is no kernel file")));
        if wrong.is_empty() {
            return Ok(lock);
        }
        bail!(
            "host/model/kernels/dist is stale:\n{}\nrun `cargo xtask kernels` and commit host/model/kernels/dist",
            wrong.join("\n")
        )
    }

    /// The release of NVRTC that made the PTX.
    pub fn nvrtc(&self) -> &str {
        &self.nvrtc
    }
}

fn source_digest(root: &Path, name: &str) -> Result<String> {
    let mut all = OPTIONS.join("\n").into_bytes();
    for file in [HEADER.to_owned(), format!("{name}.cu")] {
        let content = read(&folder(root).join(&file))?;
        all.extend(format!("\n{file} {}\n", content.len()).bytes());
        all.extend(content);
    }
    Ok(hex_digest(&all))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A copy of the kernels' folder, of this repository.
    fn copy(name: &str) -> std::path::PathBuf {
        let root = std::env::temp_dir().join(format!("xtask-kernels-{}-{name}", std::process::id()));
        let to = folder(&root);
        fs::create_dir_all(to.join("dist")).unwrap();
        let from = folder(&crate::root());
        let mut files = vec![HEADER.to_owned(), "dist/lock.toml".to_owned()];
        for name in NAMES {
            files.extend([format!("{name}.cu"), format!("dist/{name}.ptx")]);
        }
        for file in files {
            fs::copy(from.join(&file), to.join(&file)).unwrap();
        }
        root
    }

    fn stale(name: &str, change: &str) -> String {
        let root = copy(name);
        let path = folder(&root).join(change);
        let mut content = fs::read(&path).unwrap();
        content.extend(b"\n// changed\n");
        fs::write(&path, content).unwrap();
        let error = Lock::check(&root).unwrap_err().to_string();
        fs::remove_dir_all(&root).unwrap();
        error
    }

    #[test]
    fn a_change_of_source_header_or_ptx_is_seen_and_named() {
        let source = stale("source", "gemm.cu");
        assert!(source.contains("  gemm: gemm.cu, device.cuh or the options changed") && !source.contains("norm"));
        let header = stale("header", HEADER);
        assert!(
            NAMES.iter().all(|name| header.contains(&format!("  {name}: "))),
            "{header}"
        );
        let ptx = stale("ptx", "dist/norm.ptx");
        assert!(
            ptx.contains("  norm: its PTX is not the one that was compiled"),
            "{ptx}"
        );
        assert!(ptx.contains("run `cargo xtask kernels`"));
    }
}
