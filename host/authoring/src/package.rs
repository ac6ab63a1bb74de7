//! From a policy's crate to its component.

use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::command::{cargo, remap_flags, run};
use crate::toolchain::{TARGET, Toolchain};
use crate::{AuthoringError, component};

/// A policy's crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// The module that cargo makes of it, without folder and ending.
    module: String,
}

impl Package {
    /// Reads the manifest in `folder`.
    ///
    /// # Errors
    /// If there is none, or one that does not make a library of its own.
    pub fn read(folder: &Path) -> Result<Self, AuthoringError> {
        let path = folder.join("Cargo.toml");
        let text = fs::read_to_string(&path).map_err(AuthoringError::file("read", &path))?;
        let refuse = |reason: String| AuthoringError::Manifest {
            path: path.clone(),
            reason,
        };
        let manifest: Table = text
            .parse()
            .map_err(|error: toml::de::Error| refuse(error.to_string()))?;
        let name = |table: &str| manifest.get(table)?.get("name")?.as_str().map(str::to_owned);
        let package = name("package")
            .ok_or_else(|| refuse("it has no package.name; name the folder of a policy's crate".to_owned()))?;
        let lib = manifest.get("lib");
        let kinds = lib.and_then(|lib| lib.get("crate-type")).and_then(Value::as_array);
        if !kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind.as_str() == Some("cdylib"))) {
            return Err(refuse(
                "it needs a table [lib] with crate-type = [\"cdylib\"]".to_owned(),
            ));
        }
        Ok(Self {
            module: name("lib").unwrap_or_else(|| package.replace('-', "_")),
            name: package,
            folder: folder.to_owned(),
        })
    }

    /// Compiles the crate and makes a component of the module. Takes seconds; cargo's words go to standard error.
    ///
    /// # Errors
    /// If it does not compile, or is not a policy.
    pub fn build(&self, toolchain: &Toolchain) -> Result<Vec<u8>, AuthoringError> {
        let target = self.folder.join("target");
        let mut command = cargo();
        command.args(["build", "--lib", "--release", "--target", TARGET]);
        command.arg("--manifest-path").arg(self.folder.join("Cargo.toml"));
        command.arg("--target-dir").arg(&target);
        toolchain.apply(&mut command);
        let mut flags = toolchain.flags.clone();
        flags.extend(remap_flags(&toolchain.library));
        command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
        run("the policy does not compile", &mut command)?;
        let path = target
            .join(TARGET)
            .join("release")
            .join(format!("{}.wasm", self.module));
        let module = fs::read(&path).map_err(|_| AuthoringError::NotBuilt(path))?;
        component::from_module(&module)
    }
}
