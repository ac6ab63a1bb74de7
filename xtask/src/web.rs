//! The web page: TypeScript of `host/server/web/src` to the files of `host/server/web/dist`, which the server embeds.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::lock::hex_digest;

const COMMENT: &str = "# Written by `cargo xtask web`; compared by `cargo xtask web --check`.\n\n";
const LOCK: &str = "lock.toml";
/// What decides about the result besides `src/`.
const TOOLS: [&str; 3] = ["build.mjs", "package.json", "package-lock.json"];

/// `dist/lock.toml`: SHA-256 by file name, of what the page is made from and of what was made.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lock {
    sources: BTreeMap<String, String>,
    dist: BTreeMap<String, String>,
}

/// Builds the page, which needs Node and npm, and writes the lock.
pub fn build(root: &Path) -> Result<String> {
    let folder = folder(root);
    for arguments in [
        &["ci", "--no-audit", "--no-fund"][..],
        &["run", "check"],
        &["run", "build"],
    ] {
        let status = Command::new("npm").args(arguments).current_dir(&folder).status();
        let status = status.context("cannot start npm; building the page takes Node 20 or later")?;
        if !status.success() {
            bail!("npm {} failed: {status}", arguments.join(" "));
        }
    }
    let lock = Lock::of(&folder)?;
    let text = format!("{COMMENT}{}", toml::to_string(&lock)?);
    fs::write(folder.join("dist").join(LOCK), text).context("cannot write host/server/web/dist/lock.toml")?;
    Ok(format!("host/server/web/dist: {} files", lock.dist.len()))
}

/// Compares sources and built files with the lock. Needs no Node.
///
/// # Errors
/// One line for every file that disagrees, and what to run.
pub fn check(root: &Path) -> Result<String> {
    let folder = folder(root);
    let text = String::from_utf8(read(&folder.join("dist").join(LOCK))?).context("dist/lock.toml is not UTF-8")?;
    let lock: Lock = toml::from_str(&text).context("cannot parse host/server/web/dist/lock.toml")?;
    let found = Lock::of(&folder)?;
    let mut wrong = differences(&lock.sources, &found.sources, "changed after the page was built");
    wrong.extend(differences(&lock.dist, &found.dist, "is not what was built"));
    if wrong.is_empty() {
        return Ok("host/server/web/dist is up to date".to_owned());
    }
    bail!(
        "host/server/web/dist is stale:\n{}\nrun `cargo xtask web` and commit host/server/web/dist",
        wrong.join("\n")
    )
}

impl Lock {
    /// What the lock must say of the files that are there.
    fn of(folder: &Path) -> Result<Self> {
        let mut sources = digests(folder, "src", "")?;
        for tool in TOOLS {
            sources.insert(tool.to_owned(), hex_digest(&read(&folder.join(tool))?));
        }
        Ok(Self {
            sources,
            dist: digests(folder, "dist", LOCK)?,
        })
    }
}

/// SHA-256 of every file of a folder but one, by its path in `folder`.
fn digests(folder: &Path, part: &str, except: &str) -> Result<BTreeMap<String, String>> {
    let path = folder.join(part);
    let entries = fs::read_dir(&path).with_context(|| format!("cannot list {}", path.display()))?;
    let mut found = BTreeMap::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name != except {
            found.insert(format!("{part}/{name}"), hex_digest(&read(&path.join(&name))?));
        }
    }
    Ok(found)
}

fn differences(known: &BTreeMap<String, String>, found: &BTreeMap<String, String>, what: &str) -> Vec<String> {
    let changed = found.iter().filter(|(name, digest)| known.get(*name) != Some(digest));
    let changed = changed.map(|(name, _)| format!("  {name}: {what}"));
    let gone = known.keys().filter(|name| !found.contains_key(*name));
    changed.chain(gone.map(|name| format!("  {name}: is gone"))).collect()
}

fn folder(root: &Path) -> PathBuf {
    root.join("host/server/web")
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with sources and built files, and the lock that was written when it was built.
    fn built(name: &str) -> PathBuf {
        let root = std::env::temp_dir().join(format!("xtask-web-{}-{name}", std::process::id()));
        let folder = folder(&root);
        for part in ["src", "dist"] {
            fs::create_dir_all(folder.join(part)).unwrap();
        }
        for file in ["src/app.ts", "src/style.css", "dist/app.js"].into_iter().chain(TOOLS) {
            fs::write(folder.join(file), file).unwrap();
        }
        let lock = toml::to_string(&Lock::of(&folder).unwrap()).unwrap();
        fs::write(folder.join("dist").join(LOCK), lock).unwrap();
        root
    }

    #[test]
    fn what_was_not_built_together_is_named() {
        let root = built("stale");
        check(&root).unwrap();
        let folder = folder(&root);
        fs::write(folder.join("src/app.ts"), "changed").unwrap();
        fs::write(folder.join("dist/app.js"), "changed").unwrap();
        fs::write(folder.join("src/new.ts"), "new").unwrap();
        fs::remove_file(folder.join("src/style.css")).unwrap();
        let error = check(&root).unwrap_err().to_string();
        for line in [
            "  src/app.ts: changed after the page was built",
            "  src/new.ts: changed after the page was built",
            "  src/style.css: is gone",
            "  dist/app.js: is not what was built",
            "run `cargo xtask web`",
        ] {
            assert!(error.contains(line), "{line:?} is not in {error}");
        }
        fs::remove_dir_all(&root).unwrap();
    }
}
