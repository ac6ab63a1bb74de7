//! A crate for a new policy: a policy that works, its tests, and beside it all that it is made of, so that it needs neither
//! this repository nor a registry for the SDK.

use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::AuthoringError;
use crate::embedded::{LOCK, MANIFEST, SDK, WIT};

/// Where the SDK goes. Its bindings find the contract at `../../wit`.
const SDK_FOLDER: &str = "vendor/tokenrouter-sdk";

/// Stands for the policy's name in the templates.
const NAME: &str = "POLICY-NAME";

/// Writes the crate `name` into `parent/name`, which must not exist. Returns that folder.
///
/// # Errors
/// A name that no crate can have, something in the way, or a folder that cannot be written.
pub fn create(parent: &Path, name: &str) -> Result<PathBuf, AuthoringError> {
    check_name(name)?;
    let folder = parent.join(name);
    if folder.exists() {
        return Err(AuthoringError::Exists(folder));
    }
    let write = |file: &str, text: &str| {
        let path = folder.join(file);
        let parent = path.parent().unwrap_or(&folder);
        fs::create_dir_all(parent).map_err(AuthoringError::file("make", parent))?;
        fs::write(&path, text).map_err(AuthoringError::file("write", &path))
    };
    write("Cargo.toml", &manifest(name))?;
    // The versions that the SDK was tested with. Cargo takes out what this crate does not use.
    write("Cargo.lock", LOCK)?;
    write(".gitignore", "/target\n*.wasm\n")?;
    write("README.md", &include_str!("../template/README.md").replace(NAME, name))?;
    write("src/lib.rs", &include_str!("../template/lib.rs").replace(NAME, name))?;
    for (file, text) in WIT {
        write(&format!("wit/{file}"), text)?;
    }
    for (file, text) in SDK {
        let file = format!("{SDK_FOLDER}/{file}");
        if file.ends_with("/Cargo.toml") {
            write(&file, &sdk_manifest(text))?;
        } else {
            write(&file, text)?;
        }
    }
    Ok(folder)
}

/// Crates, files and policies have the same name, so it must suit all three.
fn check_name(name: &str) -> Result<(), AuthoringError> {
    let parts = name.split('-');
    let good = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    // Names that cargo or the manifest has a use for.
    let reserved = ["test", "core", "std", "alloc", "tokenrouter-sdk", "wit-bindgen"];
    let starts_well = name.starts_with(|first: char| first.is_ascii_lowercase());
    if starts_well && name.len() <= 64 && parts.into_iter().all(good) && !reserved.contains(&name) {
        return Ok(());
    }
    Err(AuthoringError::Name(name.to_owned()))
}

fn manifest(name: &str) -> String {
    let profile = shared(&["profile", "release"]).and_then(|profile| toml::to_string(&profile).ok());
    let profile = profile.unwrap_or_default();
    format!(
        r#"[package]
name = "{name}"
version = "0.1.0"
edition = "2024"
publish = false

[lib]
# A library for WebAssembly; cargo test builds it natively.
crate-type = ["cdylib"]

[dependencies]
tokenrouter-sdk = {{ path = "{SDK_FOLDER}" }}

# A workspace of its own, wherever this folder lies.
[workspace]

[profile.release]
# Small code without unwinding: a policy is called after every token and instantiated often.
{profile}"#
    )
}

/// The SDK's manifest with what it inherits from its workspace written out.
fn sdk_manifest(text: &str) -> String {
    let Ok(mut manifest) = text.parse::<Table>() else {
        return text.to_owned();
    };
    manifest.remove("lints");
    for table in ["package", "dependencies"] {
        let Some(entries) = manifest.get_mut(table).and_then(Value::as_table_mut) else {
            continue;
        };
        for (name, value) in entries.iter_mut() {
            let inherits = value.get("workspace").and_then(Value::as_bool) == Some(true);
            if let Some(given) = shared(&["workspace", table, name]).filter(|_| inherits) {
                *value = given;
            }
        }
    }
    toml::to_string(&manifest).unwrap_or_else(|_| text.to_owned())
}

/// A value of the policies' workspace.
fn shared(path: &[&str]) -> Option<Value> {
    let workspace: Table = MANIFEST.parse().ok()?;
    let mut value = Value::Table(workspace);
    for key in path {
        value = value.get(key)?.clone();
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sdk_stands_alone() {
        let (_, text) = SDK
            .iter()
            .find(|(file, _)| *file == "Cargo.toml")
            .expect("the SDK has a manifest");
        let manifest = sdk_manifest(text);
        assert!(!manifest.contains("workspace"), "{manifest}");
        let parsed: Table = manifest.parse().expect("TOML");
        assert!(
            parsed["dependencies"]["wit-bindgen"].get("version").is_some(),
            "{manifest}"
        );
        assert!(parsed["package"]["version"].is_str(), "{manifest}");
    }

    #[test]
    fn the_sdk_finds_the_contract_where_it_is_written() {
        let (_, bindings) = SDK
            .iter()
            .find(|(file, _)| *file == "src/bindings.rs")
            .expect("bindings");
        assert!(bindings.contains("path: \"../../wit\""), "{bindings}");
        assert_eq!(SDK_FOLDER.split('/').count(), 2);
        assert!(WIT.iter().any(|(file, _)| *file == "policy.wit"));
    }

    #[test]
    fn the_manifest_names_the_policy_and_optimises_it() {
        let parsed: Table = manifest("my-policy").parse().expect("TOML");
        assert_eq!(parsed["package"]["name"].as_str(), Some("my-policy"));
        assert_eq!(parsed["profile"]["release"]["panic"].as_str(), Some("abort"));
    }

    #[test]
    fn names_suit_crates_files_and_policies() {
        for name in ["a", "my-policy", "r2r", "glimpse-2"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in [
            "",
            "-a",
            "a-",
            "a--b",
            "A",
            "2a",
            "a_b",
            "a/b",
            "..",
            "test",
            "tokenrouter-sdk",
            "ä",
        ] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
