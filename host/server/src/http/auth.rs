//! Who may ask: keys from a file or the environment, and a comparison that tells nothing by how long it takes.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq as _};

use super::ApiError;
use crate::page::PageFile;

/// Shortest key that is accepted, in bytes: shorter ones are slips, or can be guessed.
pub const KEY_BYTES_MIN: usize = 16;

/// Most keys of a set: each is compared with at every request.
pub const KEYS_MAX: usize = 256;

/// Whose request it is: the digest of the key that it came with, put into the request's extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Client(pub(super) [u8; 32]);

/// Keys that may be used, as digests: neither a log nor a core dump shows them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Keys(Vec<Key>);

#[derive(Clone, PartialEq, Eq)]
struct Key {
    name: String,
    digest: [u8; 32],
}

/// Why keys cannot be used. No text contains a key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("cannot read the key file {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// There is no key in it.
    #[error("{place} has no key; write one a line, as KEY or as NAME KEY")]
    Empty {
        /// File or variable.
        place: String,
    },
    /// A line is neither.
    #[error("{place}:{line}: expected KEY or NAME KEY, found {found} words")]
    Line {
        /// File or variable.
        place: String,
        /// From 1.
        line: usize,
        /// How many words there are.
        found: usize,
    },
    /// Too short to be a secret.
    #[error("{place}:{line}: the key has {bytes} bytes; it needs at least {KEY_BYTES_MIN}")]
    Short {
        /// File or variable.
        place: String,
        /// From 1.
        line: usize,
        /// Its length.
        bytes: usize,
    },
    /// Too many to compare with.
    #[error("{place} has more than {KEYS_MAX} keys")]
    TooMany {
        /// File or variable.
        place: String,
    },
}

impl Keys {
    /// Reads a file with a key a line, as `KEY` or `NAME KEY`. Empty lines and those that begin with `#` do not count. A key
    /// without a name is called by the first digits of its SHA-256.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let text = std::fs::read_to_string(path).map_err(|source| KeyError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text, &path.display().to_string())
    }

    /// As [`Keys::read`] of a text. `place` names it in messages.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn parse(text: &str, place: &str) -> Result<Self, KeyError> {
        let place = || place.to_owned();
        let mut keys = Vec::new();
        for (line, words) in (1..).zip(text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>())) {
            let (name, key) = match words[..] {
                [] => continue,
                [first, ..] if first.starts_with('#') => continue,
                [key] => (None, key),
                [name, key] => (Some(name), key),
                _ => {
                    let (place, found) = (place(), words.len());
                    return Err(KeyError::Line { place, line, found });
                }
            };
            if key.len() < KEY_BYTES_MIN {
                let (place, bytes) = (place(), key.len());
                return Err(KeyError::Short { place, line, bytes });
            }
            keys.push(Key::new(name, key));
        }
        match keys.len() {
            0 => Err(KeyError::Empty { place: place() }),
            1..=KEYS_MAX => Ok(Self(keys)),
            _ => Err(KeyError::TooMany { place: place() }),
        }
    }

    /// Whether there are none: then nobody is asked for one.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Both sets together.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// The name of a key, if it is one of these.
    pub fn name_of(&self, presented: &[u8]) -> Option<&str> {
        self.find(presented).map(|key| &*key.name)
    }

    /// Takes the same time whatever the key is compared with: digests of equal length are compared to their ends, all of them.
    fn find(&self, presented: &[u8]) -> Option<&Key> {
        let digest: [u8; 32] = Sha256::digest(presented).into();
        let mut found = None;
        let mut any = Choice::from(0);
        for key in &self.0 {
            let same = key.digest.ct_eq(&digest);
            any |= same;
            if same.into() {
                found = Some(key);
            }
        }
        found.filter(|_| any.into())
    }

    /// Checks the header `authorization: Bearer KEY` and returns the key's name.
    ///
    /// # Errors
    /// [`ApiError::KeyMissing`] or [`ApiError::KeyWrong`].
    pub fn check(&self, headers: &HeaderMap) -> Result<&str, ApiError> {
        self.key_of(headers).map(|key| &*key.name)
    }

    fn key_of(&self, headers: &HeaderMap) -> Result<&Key, ApiError> {
        let value = headers.get(header::AUTHORIZATION).ok_or(ApiError::KeyMissing)?;
        let key = bearer(value.as_bytes()).ok_or(ApiError::KeyMissing)?;
        self.find(key).ok_or(ApiError::KeyWrong)
    }
}

/// The token of `Bearer TOKEN`; the scheme's letters may be of any case.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked("bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

impl Key {
    fn new(name: Option<&str>, key: &str) -> Self {
        let digest: [u8; 32] = Sha256::digest(key).into();
        let short = || digest[..4].iter().map(|byte| format!("{byte:02x}")).collect();
        Self {
            name: name.map_or_else(short, str::to_owned),
            digest,
        }
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|key| &key.name)).finish()
    }
}

/// Lets a request through that has a key, that asks for health or for the page's files, or that a browser sends to see what it may (`OPTIONS`).
pub(super) async fn require(State(keys): State<Arc<Keys>>, mut request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let open = path == "/health"
        || path.starts_with("/health/")
        || PageFile::of_path(path).is_some()
        || request.method() == Method::OPTIONS;
    if !open {
        match keys.key_of(request.headers()) {
            Ok(key) => request.extensions_mut().insert(Client(key.digest)),
            Err(error) => return error.into_response(),
        };
    }
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk-0123456789abcdef";

    #[test]
    fn names_comments_and_several_keys() {
        let text = format!("# clients\n\nalice {KEY}\n  {KEY}-2  \n");
        let keys = Keys::parse(&text, "keys").unwrap();
        assert_eq!(keys.name_of(KEY.as_bytes()), Some("alice"));
        let second = keys.name_of(format!("{KEY}-2").as_bytes()).unwrap();
        assert!(
            second.len() == 8 && second.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{second}"
        );
        for wrong in ["", "alice", &KEY[1..], &KEY[..KEY.len() - 1], "sk-0123456789abcdeF"] {
            assert_eq!(keys.name_of(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn mistakes_are_named_with_their_line_and_without_the_key() {
        for (text, message) in [
            ("", "keys has no key; write one a line, as KEY or as NAME KEY"),
            (
                "# only this",
                "keys has no key; write one a line, as KEY or as NAME KEY",
            ),
            ("a\n", "keys:1: the key has 1 bytes; it needs at least 16"),
            ("\nbob is here", "keys:2: expected KEY or NAME KEY, found 3 words"),
        ] {
            assert_eq!(Keys::parse(text, "keys").unwrap_err().to_string(), message);
        }
        let many = format!("{KEY}\n").repeat(KEYS_MAX + 1);
        assert!(matches!(Keys::parse(&many, "keys"), Err(KeyError::TooMany { .. })));
    }

    #[test]
    fn the_header_is_read_as_the_standard_has_it() {
        let keys = Keys::parse(KEY, "keys").unwrap();
        let check = |value: &str| {
            keys.check(&HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())]))
                .is_ok()
        };
        for good in ["Bearer ", "bearer ", "BEARER  "] {
            assert!(check(&format!("{good}{KEY}")), "{good}");
        }
        for bad in ["", "Bearer", "Bearer x", "Basic "] {
            assert!(!check(&format!("{bad}{KEY}")), "{bad}");
        }
        assert_eq!(keys.check(&HeaderMap::new()), Err(ApiError::KeyMissing));
    }

    #[test]
    fn keys_are_not_shown() {
        let keys = Keys::parse(&format!("alice {KEY}"), "keys").unwrap();
        assert_eq!(format!("{keys:?}"), "[\"alice\"]");
    }
}
