//! The audit log: one JSON line for everything that changed, or was refused, on the policies. Lines are only ever added, and
//! each is on the disk before the client reads its answer.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// Something that was done or refused.
#[derive(Debug, Serialize)]
pub struct Entry<'a> {
    /// When, in milliseconds since 1970.
    pub time_ms: u64,
    /// Who: a key's id, or the part of the host that acted by itself.
    pub who: &'a str,
    /// What.
    pub action: &'a str,
    /// With which policy.
    pub policy: &'a str,
    /// The generation that was made or chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
    /// SHA-256 of the component.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// `ok`, or why not.
    pub result: &'a str,
}

/// Where entries go: a file, and always the host's log.
pub struct Audit(Option<Mutex<File>>);

impl Audit {
    /// To the host's log alone.
    pub fn log_only() -> Self {
        Self(None)
    }

    /// To a file as well. A last line that was cut off by an end of the process stays as it is, and the next entry begins a line
    /// of its own.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
        if file.seek(SeekFrom::End(0))? > 0 {
            file.seek(SeekFrom::End(-1))?;
            let mut last = [0];
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
            }
        }
        Ok(Self(Some(Mutex::new(file))))
    }

    /// Adds an entry.
    pub fn add(&self, entry: &Entry<'_>) {
        tracing::info!(
            target: "audit",
            who = entry.who,
            action = entry.action,
            policy = entry.policy,
            generation = entry.generation,
            sha256 = entry.sha256.as_deref(),
            result = entry.result,
        );
        let Some(file) = &self.0 else { return };
        let written = serde_json::to_string(entry).map_err(io::Error::from).and_then(|line| {
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            file.write_all(format!("{line}\n").as_bytes())?;
            file.sync_data()
        });
        if let Err(error) = written {
            tracing::error!(%error, "the audit log cannot be written; the entry is in this log alone");
        }
    }
}

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as u64
}
