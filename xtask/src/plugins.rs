//! Which policies there are: members of the workspace `plugins/` with a `[package.metadata.policy]` table.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use toml::Table;

/// The workspace of the policies.
#[derive(Debug)]
pub struct Plugins {
    /// The repository.
    pub root: PathBuf,
    /// The policies, by name.
    pub policies: Vec<Policy>,
}

/// One policy's crate.
#[derive(Debug)]
pub struct Policy {
    /// Name of its package and, with `.wasm`, of its component.
    pub name: String,
    /// Its folder, under `plugins/`.
    pub folder: PathBuf,
}

impl Plugins {
    /// Reads the manifests under `root/plugins`.
    pub fn load(root: PathBuf) -> Result<Self> {
        let folder = root.join("plugins");
        let workspace = manifest(&folder)?;
        let members = workspace
            .get("workspace")
            .and_then(|table| table.get("members"))
            .and_then(|members| members.as_array())
            .with_context(|| format!("{} has no workspace.members", folder.join("Cargo.toml").display()))?;
        let mut policies = Vec::new();
        for member in members {
            let member = member.as_str().context("a workspace member is not a string")?;
            if member.contains('*') {
                bail!("plugins/Cargo.toml: member \"{member}\" is a pattern; list each policy by its folder");
            }
            let member = folder.join(member);
            let Some(package) = manifest(&member)?.remove("package") else {
                continue;
            };
            if package
                .get("metadata")
                .and_then(|metadata| metadata.get("policy"))
                .is_none()
            {
                continue;
            }
            let name = package.get("name").and_then(|name| name.as_str());
            let name = name
                .with_context(|| format!("{} has no package.name", member.display()))?
                .to_owned();
            policies.push(Policy { name, folder: member });
        }
        if policies.is_empty() {
            bail!(
                "no member of {} has a [package.metadata.policy] table",
                folder.display()
            );
        }
        policies.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self { root, policies })
    }

    /// The workspace's folder.
    pub fn folder(&self) -> PathBuf {
        self.root.join("plugins")
    }

    /// Where the committed components lie.
    pub fn dist(&self) -> PathBuf {
        self.folder().join("dist")
    }
}

fn manifest(folder: &Path) -> Result<Table> {
    let path = folder.join("Cargo.toml");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    text.parse().with_context(|| format!("cannot parse {}", path.display()))
}
