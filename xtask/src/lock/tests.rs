use std::process;

use super::*;

/// A small repository with one policy, built and locked; removed when dropped.
struct Repository {
    root: PathBuf,
}

impl Repository {
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("xtask-{name}-{}", process::id()));
        let repository = Self { root };
        repository.write("wit/policy.wit", "package a:b;");
        repository.write("plugins/Cargo.toml", "[workspace]\nmembers = [\"sdk\", \"one\"]");
        repository.write("plugins/Cargo.lock", "");
        repository.write("plugins/sdk/Cargo.toml", "[package]\nname = \"sdk\"");
        repository.write("plugins/sdk/src/lib.rs", "");
        repository.write(
            "plugins/one/Cargo.toml",
            "[package]\nname = \"one\"\n[package.metadata.policy]",
        );
        repository.write("plugins/one/src/lib.rs", "");
        repository.write("plugins/one/src/part/deep.rs", "");
        repository.write("plugins/dist/one.wasm", "\0asm");
        repository.lock();
        repository
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn lock(&self) {
        let plugins = self.plugins();
        Lock::of(&plugins).unwrap().write(&plugins).unwrap();
    }

    fn plugins(&self) -> Plugins {
        Plugins::load(self.root.clone()).unwrap()
    }

    fn check(&self) -> Result<(), String> {
        check(&self.plugins()).map_err(|error| format!("{error:#}"))
    }
}

impl Drop for Repository {
    fn drop(&mut self) {
        // A folder left in the temporary folder harms nothing.
        let _ = fs::remove_dir_all(&self.root);
    }
}

#[test]
fn what_was_just_locked_is_up_to_date() {
    assert_eq!(Repository::new("fresh").check(), Ok(()));
}

#[test]
fn every_source_counts() {
    for (i, source) in [
        "wit/policy.wit",
        "plugins/Cargo.toml",
        "plugins/Cargo.lock",
        "plugins/sdk/Cargo.toml",
        "plugins/sdk/src/lib.rs",
        "plugins/one/Cargo.toml",
        "plugins/one/src/lib.rs",
        "plugins/one/src/part/deep.rs",
    ]
    .into_iter()
    .enumerate()
    {
        let repository = Repository::new(&format!("source-{i}"));
        let text = fs::read_to_string(repository.root.join(source)).unwrap();
        repository.write(source, &format!("{text}\n"));
        let refusal = repository.check().expect_err(source);
        assert!(
            refusal.contains("one: its sources") && refusal.contains("cargo xtask policies"),
            "{refusal}"
        );
    }
}

#[test]
fn a_file_that_is_renamed_or_added_counts() {
    let repository = Repository::new("renamed");
    let source = repository.root.join("plugins/one/src/part");
    fs::rename(source.join("deep.rs"), source.join("deeper.rs")).unwrap();
    assert!(repository.check().is_err());
    fs::rename(source.join("deeper.rs"), source.join("deep.rs")).unwrap();
    assert_eq!(repository.check(), Ok(()));
    repository.write("plugins/one/src/new.rs", "");
    assert!(repository.check().is_err());
}

#[test]
fn a_component_changed_by_hand_is_noticed() {
    let repository = Repository::new("component");
    repository.write("plugins/dist/one.wasm", "\0asn");
    let refusal = repository.check().unwrap_err();
    assert!(
        refusal.contains("one: its component is not the one that was built"),
        "{refusal}"
    );
    fs::remove_file(repository.root.join("plugins/dist/one.wasm")).unwrap();
    assert!(repository.check().unwrap_err().contains("one: has no component"));
}

#[test]
fn a_new_policy_is_noticed_until_it_is_built() {
    let repository = Repository::new("new");
    repository.write(
        "plugins/two/Cargo.toml",
        "[package]\nname = \"two\"\n[package.metadata.policy]",
    );
    repository.write("plugins/two/src/lib.rs", "");
    repository.write(
        "plugins/Cargo.toml",
        "[workspace]\nmembers = [\"sdk\", \"one\", \"two\"]",
    );
    assert!(repository.check().unwrap_err().contains("two: is not in lock.toml"));
    repository.write("plugins/dist/two.wasm", "\0asm");
    repository.lock();
    assert_eq!(repository.check(), Ok(()));
}

#[test]
fn a_component_without_a_policy_is_noticed_and_the_next_build_removes_it() {
    let repository = Repository::new("stray");
    repository.write("plugins/dist/gone.wasm", "\0asm");
    let refusal = repository.check().unwrap_err();
    assert!(refusal.contains("gone: is in plugins/dist, but no policy"), "{refusal}");
    repository.lock();
    assert_eq!(repository.check(), Ok(()));
    assert!(!repository.root.join("plugins/dist/gone.wasm").exists());
}

/// FIPS 180-4, example of one block.
#[test]
fn digests_are_sha_256_in_hexadecimal() {
    assert_eq!(
        hex_digest(b"abc"),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
}
