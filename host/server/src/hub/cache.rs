//! The cache of the hub's programs, one folder a repository:
//!
//! ```text
//! models--ORG--NAME/blobs/HASH                      what a file is, once
//! models--ORG--NAME/blobs/HASH.incomplete           what has come of it so far
//! models--ORG--NAME/snapshots/COMMIT/FILE           a link to its blob
//! models--ORG--NAME/refs/REVISION                   the commit of a branch or tag
//! .locks/models--ORG--NAME/HASH.lock                held while a blob is written
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tokenrouter_model::Source;

use super::repo::is_plain;
use super::{HubError, Repo};

/// The folder that has it all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache(PathBuf);

/// A snapshot in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedModel {
    /// `ORG/NAME`.
    pub id: String,
    /// The commit.
    pub commit: String,
    /// Branches and tags that are at it.
    pub revisions: Vec<String>,
    /// Its folder.
    pub folder: PathBuf,
    /// Bytes of its files.
    pub bytes: u64,
    /// GGUF files in it.
    pub ggufs: Vec<String>,
    /// Files that a model in safetensors needs and that are not there; `None` where only GGUF files are.
    pub missing: Option<Vec<String>>,
}

impl Cache {
    /// The cache in a folder, which need not exist.
    pub fn new(root: PathBuf) -> Self {
        Self(root)
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.0
    }

    pub(super) fn folder(&self, repo: &Repo) -> PathBuf {
        self.0.join(repo.folder())
    }

    pub(super) fn snapshot(&self, repo: &Repo, commit: &str) -> PathBuf {
        self.folder(repo).join("snapshots").join(commit)
    }

    /// Where a repository's files are, all of them.
    ///
    /// # Errors
    /// [`HubError::NotCached`] or [`HubError::Incomplete`], with the command that helps.
    pub fn source(&self, repo: &Repo) -> Result<Source, HubError> {
        let not_cached = || HubError::NotCached {
            repo: repo.to_string(),
            cache: self.0.clone(),
        };
        let folder = self.snapshot(repo, &self.commit(repo).ok_or_else(not_cached)?);
        if !folder.is_dir() {
            return Err(not_cached());
        }
        let source = source_in(repo, &folder);
        let missing = missing(&source)?;
        if missing.is_empty() {
            return Ok(source);
        }
        Err(HubError::Incomplete {
            repo: repo.to_string(),
            folder,
            missing: missing.join(", "),
        })
    }

    /// The commit of a repository's revision, or the revision itself if it is one.
    fn commit(&self, repo: &Repo) -> Option<String> {
        let folder = self.folder(repo);
        let commit = match std::fs::read_to_string(folder.join("refs").join(repo.revision())) {
            Ok(commit) => commit.trim().to_owned(),
            Err(_) => repo.revision().to_owned(),
        };
        is_plain(&commit).then_some(commit)
    }

    /// All snapshots of models, by name.
    ///
    /// # Errors
    /// [`HubError::Disk`] when a folder of the cache cannot be read. A cache that does not exist is empty.
    pub fn models(&self) -> Result<Vec<CachedModel>, HubError> {
        let mut models = Vec::new();
        for name in names(&self.0)? {
            let Some(id) = name.strip_prefix("models--") else {
                continue;
            };
            let folder = self.0.join(&name);
            let mut revisions: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for revision in names(&folder.join("refs"))? {
                if let Ok(commit) = std::fs::read_to_string(folder.join("refs").join(&revision)) {
                    revisions.entry(commit.trim().to_owned()).or_default().push(revision);
                }
            }
            for commit in names(&folder.join("snapshots"))? {
                let snapshot = folder.join("snapshots").join(&commit);
                models.push(cached(id.replacen("--", "/", 1), commit, snapshot, &mut revisions)?);
            }
        }
        models.sort_by(|a, b| (&a.id, &a.commit).cmp(&(&b.id, &b.commit)));
        Ok(models)
    }
}

fn cached(
    id: String,
    commit: String,
    folder: PathBuf,
    revisions: &mut BTreeMap<String, Vec<String>>,
) -> Result<CachedModel, HubError> {
    let files = names(&folder)?;
    let bytes = files
        .iter()
        .filter_map(|file| std::fs::metadata(folder.join(file)).ok());
    let bytes = bytes.filter(std::fs::Metadata::is_file).map(|file| file.len()).sum();
    let ggufs: Vec<String> = files.into_iter().filter(|file| file.ends_with(".gguf")).collect();
    let is_folder = ggufs.is_empty() || folder.join("config.json").exists();
    let missing = is_folder
        .then(|| missing(&Source::Folder(folder.clone())))
        .transpose()?;
    Ok(CachedModel {
        id,
        revisions: revisions.remove(&commit).unwrap_or_default(),
        commit,
        folder,
        bytes,
        ggufs,
        missing,
    })
}

/// What a repository's snapshot is as a source.
pub(super) fn source_in(repo: &Repo, folder: &Path) -> Source {
    match repo.gguf() {
        Some(file) => Source::Gguf(folder.join(file)),
        None => Source::Folder(folder.to_owned()),
    }
}

/// Names of the source's files that are not there, or links to what is not.
pub(super) fn missing(source: &Source) -> Result<Vec<String>, HubError> {
    let files = source.files()?;
    let missing = files.iter().filter(|file| !file.is_file());
    let name = |file: &PathBuf| file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(missing.map(name).collect())
}

/// What is in a folder, sorted; nothing if it does not exist.
fn names(folder: &Path) -> Result<Vec<String>, HubError> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(HubError::disk("read", folder)(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(HubError::disk("read", folder))?.file_name();
        names.extend(name.into_string().ok());
    }
    names.sort();
    Ok(names)
}
