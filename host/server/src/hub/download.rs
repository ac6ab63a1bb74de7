//! One blob: fetched from where an earlier attempt ended, checked, and only then given its name.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::HubError;
use super::client::{Client, Meta};
use super::digest::Hasher;

/// Attempts in a row that bring nothing before a download is given up.
const FAILURES_MAX: u32 = 5;
/// Pause before another attempt, times the number of those that brought nothing.
const PAUSE: Duration = Duration::from_millis(500);

const BUFFER_BYTES: usize = 128 << 10;

/// Fetches the blob of `meta` into the folder `blobs` and tells `at` how far it is, in bytes. Returns how many bytes came over
/// the network: none if it is there already.
pub(super) fn fetch(
    client: &Client,
    url: &str,
    meta: &Meta,
    blobs: &Path,
    locks: &Path,
    at: &dyn Fn(u64),
) -> Result<u64, HubError> {
    let blob = blobs.join(&meta.etag);
    for folder in [blobs, locks] {
        std::fs::create_dir_all(folder).map_err(HubError::disk("make", folder))?;
    }
    let lock = locks.join(format!("{}.lock", meta.etag));
    let held = File::create(&lock).map_err(HubError::disk("write", &*lock))?;
    match held.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(HubError::Locked { path: blob }),
        Err(TryLockError::Error(error)) => return Err(HubError::disk("lock", lock)(error)),
    }
    if blob.exists() {
        at(meta.size);
        return Ok(0);
    }
    let mut partial = Partial::open(blobs.join(format!("{}.incomplete", meta.etag)), meta)?;
    let came = partial.complete(client, url, at);
    match came.and_then(|came| partial.check(url).map(|()| came)) {
        Ok(came) => {
            std::fs::rename(&partial.path, &blob).map_err(HubError::disk("write", blob))?;
            Ok(came)
        }
        Err(error @ HubError::Corrupt { .. }) => {
            // What is wrong now would be wrong for ever.
            std::fs::remove_file(&partial.path).map_err(HubError::disk("delete", &*partial.path))?;
            Err(error)
        }
        Err(error) => Err(error),
    }
}

/// What has come of a blob so far.
struct Partial<'a> {
    path: PathBuf,
    file: File,
    /// Bytes in the file, and their hash.
    len: u64,
    hasher: Hasher,
    meta: &'a Meta,
}

impl<'a> Partial<'a> {
    fn open(path: PathBuf, meta: &'a Meta) -> Result<Self, HubError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        let mut partial = Self {
            file: file.map_err(HubError::disk("write", &*path))?,
            path,
            len: 0,
            hasher: Hasher::of(&meta.etag, meta.size),
            meta,
        };
        partial.read_back()?;
        Ok(partial)
    }

    /// Takes what an earlier attempt left. More than the whole cannot be right.
    fn read_back(&mut self) -> Result<(), HubError> {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let read = self
                .file
                .read(&mut buffer)
                .map_err(HubError::disk("read", &*self.path))?;
            if read == 0 {
                break;
            }
            self.hasher.update(&buffer[..read]);
            self.len += read as u64;
        }
        match self.len > self.meta.size {
            true => self.restart(),
            false => Ok(()),
        }
    }

    fn restart(&mut self) -> Result<(), HubError> {
        self.file.set_len(0).map_err(HubError::disk("write", &*self.path))?;
        self.file
            .seek(SeekFrom::Start(0))
            .map_err(HubError::disk("write", &*self.path))?;
        self.hasher = Hasher::of(&self.meta.etag, self.meta.size);
        self.len = 0;
        Ok(())
    }

    /// Fetches the rest. A connection that breaks is made again, as long as something comes.
    fn complete(&mut self, client: &Client, url: &str, at: &dyn Fn(u64)) -> Result<u64, HubError> {
        let (mut came, mut failures) = (0, 0);
        at(self.len);
        while self.len < self.meta.size {
            let before = self.len;
            let error = match self.append(client, url, &mut came, at) {
                Ok(()) if self.len < self.meta.size => HubError::Transport {
                    url: url.to_owned(),
                    source: std::io::Error::new(
                        std::io::ErrorKind::UnexpectedEof,
                        format!("the connection ended at byte {} of {}", self.len, self.meta.size),
                    ),
                },
                Ok(()) => break,
                Err(error @ HubError::Transport { .. }) => error,
                Err(error) => return Err(error),
            };
            failures = if self.len > before { 0 } else { failures + 1 };
            if failures == FAILURES_MAX {
                return Err(error);
            }
            tracing::debug!(%error, "goes on");
            std::thread::sleep(PAUSE * failures);
        }
        Ok(came)
    }

    /// What one connection brings.
    fn append(&mut self, client: &Client, url: &str, came: &mut u64, at: &dyn Fn(u64)) -> Result<(), HubError> {
        let (start, mut bytes) = client.bytes(url, self.len)?;
        if start != self.len {
            self.restart()?;
        }
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let read = bytes.read(&mut buffer).map_err(|source| HubError::Transport {
                url: url.to_owned(),
                source,
            })?;
            if read == 0 {
                return Ok(());
            }
            self.len += read as u64;
            if self.len > self.meta.size {
                return Err(HubError::Corrupt {
                    file: url.to_owned(),
                    what: format!("it has more than {} bytes", self.meta.size),
                });
            }
            self.file
                .write_all(&buffer[..read])
                .map_err(HubError::disk("write", &*self.path))?;
            self.hasher.update(&buffer[..read]);
            *came += read as u64;
            at(self.len);
        }
    }

    fn check(&mut self, url: &str) -> Result<(), HubError> {
        self.file.sync_all().map_err(HubError::disk("write", &*self.path))?;
        let hasher = std::mem::replace(&mut self.hasher, Hasher::Unknown);
        match hasher.finish().filter(|found| *found != self.meta.etag) {
            None => Ok(()),
            Some(found) => Err(HubError::Corrupt {
                file: url.to_owned(),
                what: format!("its hash is {found}, expected {}", self.meta.etag),
            }),
        }
    }
}
