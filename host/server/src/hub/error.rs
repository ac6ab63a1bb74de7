//! Why a model cannot be had by its name.

use std::path::PathBuf;

use tokenrouter_model::ModelError;

/// An error of the hub or of its cache. Each text says what would be right.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// No folder for the cache.
    #[error("there is no place for the models' cache: set HF_HOME or HF_HUB_CACHE to a folder")]
    NoHome,
    /// A repository that is not in the cache.
    #[error("{repo} is not in the cache {}; fetch it with: tokenrouter-host models pull {repo}", cache.display())]
    NotCached {
        /// The repository.
        repo: String,
        /// The cache.
        cache: PathBuf,
    },
    /// A repository of which only a part is in the cache.
    #[error("{repo} is not whole in the cache: {} lacks {missing}; fetch the rest with: tokenrouter-host models pull {repo}", folder.display())]
    Incomplete {
        /// The repository.
        repo: String,
        /// Its snapshot.
        folder: PathBuf,
        /// Files that are not there, separated by commas.
        missing: String,
    },
    /// The same when nobody may be asked.
    #[error("{0}. HF_HUB_OFFLINE is set, so the hub is not asked: unset it to download")]
    Offline(Box<HubError>),
    /// What is in the cache cannot be used.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The hub wants to know who asks.
    #[error(
        "{url}: status {status}: there is no such repository for anybody, or it is private or gated: check the name, set HF_TOKEN to a token \
         that may read it, and accept its terms on its page"
    )]
    NotAllowed {
        /// What was asked for.
        url: String,
        /// 401 or 403.
        status: u16,
    },
    /// The hub has no such repository, revision or file.
    #[error(
        "{url}: status 404: there is no such {what}; names are ORG/NAME as in Qwen/Qwen3-0.6B, with @REVISION for a branch, tag or commit"
    )]
    NotThere {
        /// What was asked for.
        url: String,
        /// `repository`, `revision` or `file`.
        what: &'static str,
    },
    /// Any other answer but the one expected.
    #[error("{url}: {what}; HF_ENDPOINT names another hub or mirror")]
    Answer {
        /// What was asked for.
        url: String,
        /// What came.
        what: String,
    },
    /// No answer, or none to its end.
    #[error("{url}: {source}; what has come is kept, and the same command goes on from there")]
    Transport {
        /// What was asked for.
        url: String,
        /// What happened.
        source: std::io::Error,
    },
    /// The repository has other files than a model needs.
    #[error("{repo} has no {missing}{hint}")]
    Files {
        /// The repository.
        repo: String,
        /// What it lacks.
        missing: String,
        /// What it has instead.
        hint: String,
    },
    /// A file came to its end with other bytes.
    #[error(
        "{file} is not what the hub says it is: {what}. It was deleted; pull again, and if it happens again, the network or a proxy changes it"
    )]
    Corrupt {
        /// The file.
        file: String,
        /// What differs.
        what: String,
    },
    /// Another process downloads the same file.
    #[error("{} is being downloaded by another process: wait for it to end", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The cache cannot be written or read.
    #[error("cannot {what} {}: {source}", path.display())]
    Disk {
        /// `write`, `read` and so on.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl HubError {
    pub(super) fn disk(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Disk { what, path, source }
    }
}
