use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokenrouter_policy::Digest;

use crate::policies::{Components, PolicySet, Record, Restored, Store, StoreError};

/// A set whose default is generation `id`, with a component of its own.
pub(super) fn set(id: u32) -> (PolicySet, Components) {
    let bytes: Arc<[u8]> = format!("component {id} {}", "x".repeat(1000)).into_bytes().into();
    let digest = Digest::of(&bytes);
    let mut set = PolicySet::default();
    let record = Record {
        id,
        name: "policy".to_owned(),
        digest: digest.to_string(),
        options: Default::default(),
        signed_by: None,
        created_s: 0,
        withdrawn: None,
    };
    set.add(record).unwrap();
    set.activate(id, true);
    (set, Components::from([(digest, bytes)]))
}

/// Opens a folder that is closed. Another test may be starting a process at this moment, which has the lock's file for as long as it
/// takes to become another program.
pub(super) fn open(folder: &Path) -> Result<(Store, Restored), StoreError> {
    let mut tries = 0;
    loop {
        match Store::open(folder) {
            Err(StoreError::InUse { .. }) if tries < 500 => std::thread::sleep(Duration::from_millis(10)),
            other => return other,
        }
        tries += 1;
    }
}

fn save(folder: &Path, ids: impl Iterator<Item = u32>) {
    let (mut store, _) = open(folder).unwrap();
    for id in ids {
        let (set, components) = set(id);
        store.save(&set, &components).unwrap();
    }
}

fn newest(folder: &Path, folder_of: &str) -> std::path::PathBuf {
    let entries = std::fs::read_dir(folder.join(folder_of)).unwrap();
    entries.map(|entry| entry.unwrap().path()).max().unwrap()
}

#[test]
fn the_last_set_comes_back_and_old_files_go() {
    let folder = tempfile::tempdir().unwrap();
    save(folder.path(), 1..=20);
    let (_store, restored) = open(folder.path()).unwrap();
    assert_eq!(restored.found, Some(set(20)));
    assert!(restored.refused.is_empty(), "{:?}", restored.refused);
    for kept in ["components", "sets"] {
        assert_eq!(
            std::fs::read_dir(folder.path().join(kept)).unwrap().count(),
            3,
            "{kept}"
        );
    }
}

#[test]
fn a_set_that_is_torn_or_changed_is_refused_and_the_one_before_serves() {
    for damage in [
        (|text: &str| text[..text.len() / 2].to_owned()) as fn(&str) -> String,
        |text| text.replace("\"newest\": 3", "\"newest\": 9"),
        |_| String::new(),
    ] {
        let folder = tempfile::tempdir().unwrap();
        save(folder.path(), 1..=3);
        let path = newest(folder.path(), "sets");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, damage(&text)).unwrap();
        let (mut store, restored) = open(folder.path()).unwrap();
        assert_eq!(restored.found, Some(set(2)));
        assert_eq!(restored.refused.len(), 1, "{:?}", restored.refused);
        // The next one gets a number above the damaged one's.
        let (next, components) = set(4);
        store.save(&next, &components).unwrap();
        drop(store);
        assert_eq!(open(folder.path()).unwrap().1.found, Some(set(4)));
    }
}

#[test]
fn a_component_that_is_torn_or_changed_is_found_by_its_digest() {
    let folder = tempfile::tempdir().unwrap();
    save(folder.path(), 1..=2);
    let (digest, bytes) = set(2).1.into_iter().next().unwrap();
    let path = folder.path().join("components").join(format!("{digest}.wasm"));
    for damaged in [&bytes[..bytes.len() / 2], b"another component"] {
        std::fs::write(&path, damaged).unwrap();
        let (_store, restored) = open(folder.path()).unwrap();
        assert_eq!(restored.found, Some(set(1)));
        assert!(
            restored.refused[0].contains("torn or changed"),
            "{:?}",
            restored.refused
        );
    }
    std::fs::remove_file(&path).unwrap();
    assert_eq!(open(folder.path()).unwrap().1.found, Some(set(1)));
}

#[test]
fn one_host_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    assert!(matches!(Store::open(folder.path()), Err(StoreError::InUse { .. })));
    drop(store);
    assert!(open(folder.path()).is_ok());
}
