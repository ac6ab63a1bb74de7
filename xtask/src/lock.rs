//! `plugins/dist/lock.toml`: what the committed components were made from.
//!
//! The bytes of a component differ between toolchains, so sources are compared, by a digest; the digest of the
//! component itself shows one that was changed by hand.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::plugins::{Plugins, Policy};

const HEADER: &str = "# Written by `cargo xtask policies`; compared by `cargo xtask policies --check`.\n\n";

/// The lock file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    /// By the policy's name.
    policy: BTreeMap<String, Entry>,
}

/// One component.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// SHA-256 over the sources, see [`source_digest`].
    sources_sha256: String,
    /// SHA-256 of the component.
    component_sha256: String,
    /// Size of the component.
    size_bytes: u64,
}

impl Lock {
    /// What the lock must say of the sources and components that are there.
    pub fn of(plugins: &Plugins) -> Result<Self> {
        let entry = |policy: &Policy| {
            let component = fs::read(component_path(plugins, &policy.name))?;
            let entry = Entry {
                sources_sha256: source_digest(plugins, policy)?,
                component_sha256: hex_digest(&component),
                size_bytes: component.len() as u64,
            };
            Ok((policy.name.clone(), entry))
        };
        Ok(Self {
            policy: plugins.policies.iter().map(entry).collect::<Result<_>>()?,
        })
    }

    /// Writes `plugins/dist/lock.toml`, and removes components of policies that are no more.
    pub fn write(&self, plugins: &Plugins) -> Result<()> {
        for name in components(plugins)? {
            if !self.policy.contains_key(&name) {
                fs::remove_file(component_path(plugins, &name))?;
            }
        }
        let text = format!("{HEADER}{}", toml::to_string(self)?);
        fs::write(lock_path(plugins), text).context("cannot write plugins/dist/lock.toml")
    }

    fn read(plugins: &Plugins) -> Result<Self> {
        let text = fs::read_to_string(lock_path(plugins)).context("cannot read plugins/dist/lock.toml")?;
        toml::from_str(&text).context("cannot parse plugins/dist/lock.toml")
    }
}

/// Compares sources, components and lock.
///
/// # Errors
/// One line for every policy that disagrees, and what to run.
pub fn check(plugins: &Plugins) -> Result<()> {
    let lock = Lock::read(plugins).context("run `cargo xtask policies`")?;
    let mut wrong = Vec::new();
    for policy in &plugins.policies {
        if let Some(reason) = disagreement(plugins, policy, lock.policy.get(&policy.name))? {
            wrong.push(format!("  {}: {reason}", policy.name));
        }
    }
    let known = |name: &String| plugins.policies.iter().any(|policy| policy.name == *name);
    let mut strays = components(plugins)?;
    strays.extend(lock.policy.into_keys());
    strays.sort();
    strays.dedup();
    for name in strays.iter().filter(|name| !known(name)) {
        wrong.push(format!(
            "  {name}: is in plugins/dist, but no policy of plugins/ has this name"
        ));
    }
    if wrong.is_empty() {
        return Ok(());
    }
    bail!(
        "plugins/dist is stale:\n{}\nrun `cargo xtask policies` and commit plugins/dist",
        wrong.join("\n")
    )
}

fn disagreement(plugins: &Plugins, policy: &Policy, entry: Option<&Entry>) -> Result<Option<&'static str>> {
    let Some(entry) = entry else {
        return Ok(Some("is not in lock.toml"));
    };
    let Ok(component) = fs::read(component_path(plugins, &policy.name)) else {
        return Ok(Some("has no component"));
    };
    if source_digest(plugins, policy)? != entry.sources_sha256 {
        return Ok(Some(
            "its sources (or the SDK's, the contract or plugins/Cargo.*) changed after it was built",
        ));
    }
    if hex_digest(&component) != entry.component_sha256 || component.len() as u64 != entry.size_bytes {
        return Ok(Some("its component is not the one that was built"));
    }
    Ok(None)
}

/// SHA-256 over all that a policy's component is made from: its own crate, the SDK, the contract, and the workspace's
/// manifest and lock. Files are taken in the order of their paths; of each, the path (with `/`, relative to the
/// repository), its length, the content's length and the content.
fn source_digest(plugins: &Plugins, policy: &Policy) -> Result<String> {
    let folder = plugins.folder();
    let sdk = folder.join("sdk");
    let mut files = vec![folder.join("Cargo.toml"), folder.join("Cargo.lock")];
    for package in [&policy.folder, &sdk] {
        files.push(package.join("Cargo.toml"));
        walk(&package.join("src"), &mut files)?;
    }
    walk(&plugins.root.join("wit"), &mut files)?;

    let mut named = Vec::new();
    for path in files {
        let relative = path
            .strip_prefix(&plugins.root)
            .context("a source lies outside of the repository")?;
        let name = relative
            .iter()
            .map(|part| part.display().to_string())
            .collect::<Vec<_>>()
            .join("/");
        named.push((name, path));
    }
    named.sort();
    let mut digest = Sha256::new();
    for (name, path) in named {
        let content = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        digest.update((name.len() as u64).to_le_bytes());
        digest.update(name);
        digest.update((content.len() as u64).to_le_bytes());
        digest.update(content);
    }
    Ok(hex(&digest.finalize()))
}

/// All files under a folder.
fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// Names of the components in `plugins/dist`.
fn components(plugins: &Plugins) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(plugins.dist()).context("cannot read plugins/dist")? {
        let name = entry?.file_name().display().to_string();
        names.extend(name.strip_suffix(".wasm").map(str::to_owned));
    }
    Ok(names)
}

fn component_path(plugins: &Plugins, name: &str) -> PathBuf {
    plugins.dist().join(format!("{name}.wasm"))
}

fn lock_path(plugins: &Plugins) -> PathBuf {
    plugins.dist().join("lock.toml")
}

/// SHA-256 in hexadecimal.
pub fn hex_digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
