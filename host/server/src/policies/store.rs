//! The state directory: uploaded components and the policy set, safe against an end of the process between any two writes and
//! against files that are torn or changed by others.
//!
//! ```text
//! components/<sha256>.wasm   what was uploaded, named by its digest
//! sets/<number>.json         the policy set; the first line is the SHA-256 of the rest, the highest sound number counts
//! audit.jsonl                who changed what
//! lock                       held while a host uses the directory
//! ```
//!
//! Every file is written under another name, synced, renamed, and the folder synced. A set is written after the components it
//! names; the sets before it stay, so that there is always one to go back to.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokenrouter_policy::Digest;

use super::PolicySet;

/// Policy sets that are kept, the one in force included.
const SETS_KEPT: usize = 3;

/// Components by digest.
pub type Components = BTreeMap<Digest, Arc<[u8]>>;

/// Called with a few words before every operation on the file system. For tests that end the process there.
pub type BeforeStep = Box<dyn FnMut(&str) + Send>;

/// Why the state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another host uses it.
    #[error("the state directory {} is in use by another process", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The system refuses.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was to be done.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// An open state directory.
pub struct Store {
    folder: PathBuf,
    before_step: BeforeStep,
    /// The kept sets by number, with the components that each names.
    sets: BTreeMap<u64, BTreeSet<Digest>>,
    /// The number that the next set gets; above all that were found, sound or not.
    next: u64,
    _lock: File,
}

/// What a state directory held.
#[derive(Default)]
pub struct Restored {
    /// The newest sound policy set, with its components.
    pub found: Option<(PolicySet, Components)>,
    /// What was not sound, and why: a line each, for the log.
    pub refused: Vec<String>,
}

impl Store {
    /// Opens or makes a state directory.
    ///
    /// # Errors
    /// [`StoreError`]; what a file contains is never an error, only a line in [`Restored::refused`].
    pub fn open(folder: &Path) -> Result<(Self, Restored), StoreError> {
        Self::open_with(folder, Box::new(|_| {}))
    }

    /// [`Store::open`] with a function that is called before every step.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_with(folder: &Path, before_step: BeforeStep) -> Result<(Self, Restored), StoreError> {
        for folder in [folder.join("components"), folder.join("sets")] {
            fs::create_dir_all(&folder).map_err(failed("make the folder", &folder))?;
        }
        let path = folder.join("lock");
        let lock = File::create(&path).map_err(failed("open", &path))?;
        lock.try_lock().map_err(|error| match error {
            fs::TryLockError::WouldBlock => StoreError::InUse {
                path: folder.to_owned(),
            },
            fs::TryLockError::Error(source) => failed("lock", &path)(source),
        })?;
        let mut store = Self {
            folder: folder.to_owned(),
            before_step,
            sets: BTreeMap::new(),
            next: 1,
            _lock: lock,
        };
        let restored = store.restore()?;
        Ok((store, restored))
    }

    fn restore(&mut self) -> Result<Restored, StoreError> {
        let mut restored = Restored::default();
        let folder = self.folder.join("sets");
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&folder).map_err(failed("read", &folder))? {
            let name = entry.map_err(failed("read", &folder))?.file_name();
            let number = name
                .to_str()
                .and_then(|name| name.strip_suffix(".json")?.parse::<u64>().ok());
            numbers.extend(number);
        }
        numbers.sort_unstable();
        self.next = numbers.last().map_or(1, |last| last + 1);
        for number in numbers.into_iter().rev() {
            match self.read_set(number) {
                Ok((set, components)) => {
                    self.sets.insert(number, components.keys().copied().collect());
                    restored.found.get_or_insert((set, components));
                }
                Err(why) => restored
                    .refused
                    .push(format!("{}: {why}", self.set_path(number).display())),
            }
        }
        Ok(restored)
    }

    fn read_set(&self, number: u64) -> Result<(PolicySet, Components), String> {
        let text = fs::read_to_string(self.set_path(number)).map_err(|error| error.to_string())?;
        let (digest, body) = text.split_once('\n').ok_or("it is cut off")?;
        let found = Digest::of(body.as_bytes()).to_string();
        if digest != found {
            return Err(format!(
                "its digest is {found}, expected {digest}: it was torn or changed"
            ));
        }
        let set: PolicySet = serde_json::from_str(body).map_err(|error| error.to_string())?;
        if !set.is_consistent() {
            return Err("it names generations that it does not have".to_owned());
        }
        let mut components = Components::new();
        for record in &set.generations {
            let digest: Digest = record.digest.parse().map_err(|error| format!("{error}"))?;
            if components.contains_key(&digest) {
                continue;
            }
            let path = self.component_path(digest);
            let bytes = fs::read(&path).map_err(|error| format!("component {}: {error}", path.display()))?;
            if Digest::of(&bytes) != digest {
                return Err(format!(
                    "component {} was torn or changed: its digest is {}",
                    path.display(),
                    Digest::of(&bytes)
                ));
            }
            components.insert(digest, bytes.into());
        }
        Ok((set, components))
    }

    /// Makes a policy set the one that a restart finds. It holds all components that the set names.
    ///
    /// # Errors
    /// [`StoreError`]; the set before is then still the one that counts.
    pub fn save(&mut self, set: &PolicySet, components: &Components) -> Result<(), StoreError> {
        let named: BTreeSet<Digest> = set
            .generations
            .iter()
            .filter_map(|record| record.digest.parse().ok())
            .collect();
        for digest in &named {
            let path = self.component_path(*digest);
            // One that is there but not sound is written again.
            let is_there = fs::read(&path).is_ok_and(|bytes| Digest::of(&bytes) == *digest);
            if let Some(bytes) = components.get(digest).filter(|_| !is_there) {
                self.write(&path, bytes)?;
            }
        }
        let body = serde_json::to_string_pretty(set).map_err(|error| StoreError::Io {
            what: "write",
            path: self.set_path(self.next),
            source: error.into(),
        })?;
        let text = format!("{}\n{body}", Digest::of(body.as_bytes()));
        self.write(&self.set_path(self.next), text.as_bytes())?;
        self.sets.insert(self.next, named);
        self.next += 1;
        self.sweep();
        Ok(())
    }

    /// The audit log's file.
    pub fn audit_path(&self) -> PathBuf {
        self.folder.join("audit.jsonl")
    }

    fn set_path(&self, number: u64) -> PathBuf {
        self.folder.join("sets").join(format!("{number:010}.json"))
    }

    fn component_path(&self, digest: Digest) -> PathBuf {
        self.folder.join("components").join(format!("{digest}.wasm"))
    }

    /// Writes a file so that its name leads to all of it or to what was there before.
    fn write(&mut self, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
        let temporary = path.with_extension("part");
        let folder = path.parent().unwrap_or(Path::new("."));
        (self.before_step)("create the file");
        let mut file = File::create(&temporary).map_err(failed("write", &temporary))?;
        // In two parts, so that the tests may end the process in the middle of a file.
        let (first, second) = bytes.split_at(bytes.len() / 2);
        (self.before_step)("write the first half");
        file.write_all(first).map_err(failed("write", &temporary))?;
        (self.before_step)("write the second half");
        file.write_all(second).map_err(failed("write", &temporary))?;
        (self.before_step)("sync the file");
        file.sync_all().map_err(failed("sync", &temporary))?;
        (self.before_step)("rename the file");
        fs::rename(&temporary, path).map_err(failed("rename", &temporary))?;
        (self.before_step)("sync the folder");
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(failed("sync", folder))
    }

    /// Removes what no kept set names. What cannot be removed stays for the next time.
    fn sweep(&mut self) {
        while self.sets.len() > SETS_KEPT {
            let Some((number, _)) = self.sets.pop_first() else {
                break;
            };
            (self.before_step)("remove an old set");
            drop(fs::remove_file(self.set_path(number)));
        }
        let named: BTreeSet<PathBuf> = self
            .sets
            .values()
            .flatten()
            .map(|digest| self.component_path(*digest))
            .collect();
        let kept: BTreeSet<PathBuf> = self.sets.keys().map(|number| self.set_path(*number)).collect();
        for (folder, kept) in [("components", named), ("sets", kept)] {
            let entries = fs::read_dir(self.folder.join(folder)).into_iter().flatten().flatten();
            for path in entries.map(|entry| entry.path()).filter(|path| !kept.contains(path)) {
                (self.before_step)("remove a file");
                drop(fs::remove_file(path));
            }
        }
    }
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Io { what, path, source }
}
