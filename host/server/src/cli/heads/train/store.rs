//! Lines of JSON that a stopped run leaves and the next one goes on from.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A file with one line that says what it is of, and then one line a result, in order.
pub(super) struct Store {
    path: PathBuf,
    file: File,
}

impl Store {
    /// Opens or makes the file. Returns what it holds, up to the first line that was not written whole.
    ///
    /// # Errors
    /// When it cannot be read or written, or is of something else than `subject`.
    pub(super) fn open<T: DeserializeOwned>(path: &Path, subject: &str) -> anyhow::Result<(Self, Vec<T>)> {
        let shown = path.display();
        let text = if path.exists() {
            std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?
        } else {
            String::new()
        };
        let mut whole = String::new();
        let mut results = Vec::new();
        for (index, line) in text.split_inclusive('\n').enumerate() {
            if index == 0 && line.ends_with('\n') {
                ensure!(
                    line.trim_end() == subject,
                    "{shown} is of another run: {}; this one is {subject}. Remove the folder, or name another with --work",
                    line.trim_end()
                );
            } else {
                // The last line of a run that was ended may be cut off.
                let Some(result) = line.strip_suffix('\n').and_then(|line| serde_json::from_str(line).ok()) else {
                    break;
                };
                results.push(result);
            }
            whole += line;
        }
        if whole.is_empty() {
            whole = format!("{subject}\n");
        }
        std::fs::write(path, &whole).with_context(|| format!("cannot write {shown}"))?;
        let file = OpenOptions::new().append(true).open(path)?;
        Ok((
            Self {
                path: path.to_owned(),
                file,
            },
            results,
        ))
    }

    /// Adds a result.
    pub(super) fn push<T: Serialize>(&mut self, result: &T) -> anyhow::Result<()> {
        let line = serde_json::to_string(result)? + "\n";
        let written = self.file.write_all(line.as_bytes());
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_goes_on_after_the_last_whole_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let (mut store, found) = Store::open::<Vec<u32>>(&path, "a").unwrap();
        assert!(found.is_empty());
        store.push(&vec![1, 2]).unwrap();
        store.push(&vec![3]).unwrap();
        drop(store);
        let whole = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 2]).unwrap();
        let (mut store, found) = Store::open::<Vec<u32>>(&path, "a").unwrap();
        assert_eq!(found, [vec![1, 2]]);
        store.push(&vec![3]).unwrap();
        drop(store);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), whole);
        let error = Store::open::<Vec<u32>>(&path, "b").err().unwrap().to_string();
        assert!(error.contains("is of another run: a; this one is b"), "{error}");
    }
}
