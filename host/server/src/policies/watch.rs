//! A policy's file that is loaded anew whenever it changes, by the same way as an upload.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;

use tokenrouter_policy::Digest;

use super::{Activation, Manager, Upload};
use crate::deployment::OptionValue;

/// Every so many looks the file's time is read. The file itself is read when its time is a new one twice in a row, because
/// compilers write in pieces.
const LOOKS: u32 = 3;

/// A file to reload.
pub struct Watch {
    path: PathBuf,
    name: String,
    options: BTreeMap<String, OptionValue>,
    looks: u32,
    seen: Option<SystemTime>,
    /// The time at the last look, if the file is still to be read.
    changed: Option<SystemTime>,
    loaded: Digest,
}

impl Watch {
    /// Watches a file from which `loaded` was loaded under a name with these options.
    pub fn new(path: PathBuf, name: String, options: BTreeMap<String, OptionValue>, loaded: Digest) -> Self {
        let seen = std::fs::metadata(&path).and_then(|metadata| metadata.modified()).ok();
        Self {
            path,
            name,
            options,
            looks: 0,
            seen,
            changed: None,
            loaded,
        }
    }

    /// Looks whether the file has changed, and has it loaded and activated if so. What is wrong with it is logged, and the
    /// policy that serves goes on.
    pub(super) fn look(&mut self, manager: &Manager) {
        self.looks += 1;
        if !self.looks.is_multiple_of(LOOKS) {
            return;
        }
        // Gone for a moment, as it is when it is replaced by another.
        let Ok(modified) = std::fs::metadata(&self.path).and_then(|metadata| metadata.modified()) else {
            return;
        };
        if self.seen == Some(modified) {
            return;
        }
        if self.changed != Some(modified) {
            self.changed = Some(modified);
            return;
        }
        (self.seen, self.changed) = (Some(modified), None);
        let bytes = match std::fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) => {
                tracing::error!(path = %self.path.display(), %error, "the policy's file has changed but cannot be read");
                return;
            }
        };
        let digest = Digest::of(&bytes);
        if digest == self.loaded {
            return;
        }
        let upload = Upload {
            name: self.name.clone(),
            bytes,
            options: self.options.clone(),
            sha256: None,
            signature: None,
            expected: None,
            activate: Some(Activation { as_default: true }),
        };
        match manager.upload("file watch", upload) {
            Ok(done) => {
                self.loaded = digest;
                tracing::info!(path = %self.path.display(), generation = done.generation, "the policy's file has changed and is served");
            }
            Err(error) => {
                tracing::error!(path = %self.path.display(), %error, "the policy's file has changed and is refused");
            }
        }
    }
}
