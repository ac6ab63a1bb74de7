//! The hash that names a blob: SHA-256 of large files, and of small ones what git calls them, SHA-1 of `blob SIZE\0` and the
//! content. Names of another form, as mirrors may have them, are not checked.

use sha1::Sha1;
use sha2::{Digest as _, Sha256};

/// A hash that grows with its file.
pub(super) enum Hasher {
    Sha256(Box<Sha256>),
    Git(Box<Sha1>),
    Unknown,
}

impl Hasher {
    /// For a blob of this name, which has so many bytes.
    pub(super) fn of(etag: &str, size: u64) -> Self {
        let is_hex = etag.bytes().all(|byte| byte.is_ascii_hexdigit());
        match etag.len() {
            64 if is_hex => Self::Sha256(Box::default()),
            40 if is_hex => {
                let mut git = Sha1::new();
                git.update(format!("blob {size}\0"));
                Self::Git(Box::new(git))
            }
            _ => Self::Unknown,
        }
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hash) => hash.update(bytes),
            Self::Git(hash) => hash.update(bytes),
            Self::Unknown => {}
        }
    }

    /// The hash in hexadecimal; `None` if there is none to hold against.
    pub(super) fn finish(self) -> Option<String> {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        match self {
            Self::Sha256(hash) => Some(hex(&hash.finalize())),
            Self::Git(hash) => Some(hex(&hash.finalize())),
            Self::Unknown => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `printf 'hello\n' | git hash-object --stdin`, and `sha256sum`.
    #[test]
    fn blobs_are_named_as_git_and_sha256sum_name_them() {
        for name in [
            "ce013625030ba8dba906f756967f9e9ca394464a",
            "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",
        ] {
            let mut hasher = Hasher::of(name, 6);
            hasher.update(b"hel");
            hasher.update(b"lo\n");
            assert_eq!(hasher.finish().as_deref(), Some(name));
        }
        assert_eq!(Hasher::of("0-5", 6).finish(), None);
    }
}
