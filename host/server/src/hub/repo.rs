//! Names of repositories.

use std::fmt;

use super::SCHEME;

/// A repository of the hub, `ORG/NAME`, maybe at a revision, maybe one GGUF file of it: `ORG/NAME@REVISION/FILE.gguf`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repo {
    org: String,
    name: String,
    revision: Option<String>,
    gguf: Option<String>,
}

/// A text that names no repository.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is no repository: write ORG/NAME as in Qwen/Qwen3-0.6B, with @REVISION behind the name for a branch, tag or commit, and \
     /FILE.gguf behind that for one GGUF file"
)]
pub struct RepoError(String);

impl Repo {
    /// `ORG/NAME`.
    pub fn id(&self) -> String {
        format!("{}/{}", self.org, self.name)
    }

    /// The branch, tag or commit; `main` unless one was written.
    pub fn revision(&self) -> &str {
        self.revision.as_deref().unwrap_or("main")
    }

    /// The one file that is meant, for models in GGUF.
    pub fn gguf(&self) -> Option<&str> {
        self.gguf.as_deref()
    }

    /// The name of its folder in the cache.
    pub(super) fn folder(&self) -> String {
        format!("models--{}--{}", self.org, self.name)
    }
}

impl std::str::FromStr for Repo {
    type Err = RepoError;

    /// Reads the name, with or without `hf://`.
    fn from_str(text: &str) -> Result<Self, RepoError> {
        let wrong = || RepoError(text.to_owned());
        let parts: Vec<&str> = text.strip_prefix(SCHEME).unwrap_or(text).split('/').collect();
        let (org, name, gguf) = match parts.as_slice() {
            [org, name] => (*org, *name, None),
            [org, name, file] if file.ends_with(".gguf") => (*org, *name, Some(*file)),
            _ => return Err(wrong()),
        };
        let (name, revision) = match name.split_once('@') {
            Some((name, revision)) => (name, Some(revision)),
            None => (name, None),
        };
        if ![Some(org), Some(name), revision, gguf]
            .into_iter()
            .flatten()
            .all(is_plain)
        {
            return Err(wrong());
        }
        Ok(Self {
            org: org.to_owned(),
            name: name.to_owned(),
            revision: revision.map(str::to_owned),
            gguf: gguf.map(str::to_owned),
        })
    }
}

/// Whether a text can be part of a path and of a URL as it is, and stays in its folder.
pub(super) fn is_plain(part: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !part.is_empty() && part.len() <= 200 && !part.starts_with('.') && part.bytes().all(plain)
}

impl fmt::Display for Repo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.org, self.name)?;
        if let Some(revision) = &self.revision {
            write!(f, "@{revision}")?;
        }
        match &self.gguf {
            Some(file) => write!(f, "/{file}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_with_and_without_their_scheme() {
        for (text, id, revision, gguf) in [
            ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B", "main", None),
            ("hf://Qwen/Qwen3-0.6B@v1.0", "Qwen/Qwen3-0.6B", "v1.0", None),
            ("hf://a/b@c/d-Q4_0.gguf", "a/b", "c", Some("d-Q4_0.gguf")),
            ("a/b/d.gguf", "a/b", "main", Some("d.gguf")),
        ] {
            let repo: Repo = text.parse().unwrap();
            assert_eq!((repo.id().as_str(), repo.revision(), repo.gguf()), (id, revision, gguf));
            assert_eq!(repo.to_string(), text.trim_start_matches(SCHEME));
        }
    }

    /// Names become paths and URLs: nothing in them may lead elsewhere.
    #[test]
    fn what_is_no_name_is_refused() {
        for text in [
            "",
            "/",
            "a",
            "a/",
            "/b",
            "a/b/c",
            "a/b/c/d.gguf",
            "../b",
            "a/..",
            "a/b@",
            "a/b@../c",
            "a/b?x",
            "a/b#c",
            "a b/c",
            "a/.b",
            "a/b/../x.gguf",
            "http://a/b",
            "a/b@c@d",
        ] {
            let error = text.parse::<Repo>().unwrap_err().to_string();
            assert!(error.contains("ORG/NAME") && error.contains(text), "{error}");
        }
    }
}
