//! All files that a model needs, and no others.

use std::path::{Path, PathBuf};

use super::cache::{missing, source_in};
use super::client::{Client, Meta};
use super::repo::is_plain;
use super::{Cache, HubError, Repo, Settings, download};

/// What a model in safetensors is read from, beside its weights; the last two it may lack.
const SMALL: [&str; 4] = [
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
];
const NEEDED: usize = 2;
const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// Who watches a download.
pub trait Progress {
    /// Some files begin that have so many bytes together.
    fn start(&self, bytes: u64);
    /// One of them begins.
    fn file(&self, name: &str);
    /// So many bytes of all are there.
    fn at(&self, bytes: u64);
}

/// A model that is whole in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// The commit; `None` where nobody was asked.
    pub commit: Option<String>,
    /// Its folder, or its file.
    pub path: PathBuf,
    /// Bytes that came over the network.
    pub downloaded_bytes: u64,
}

/// Makes a repository's model whole in the cache.
///
/// # Errors
/// [`HubError`]: the hub does not have it or does not give it, it comes damaged, or the cache cannot be written.
pub fn pull(settings: &Settings, repo: &Repo, progress: &dyn Progress) -> Result<Pulled, HubError> {
    if settings.is_offline {
        let source = settings.cache.source(repo);
        let source = source.map_err(|error| HubError::Offline(Box::new(error)))?;
        return Ok(Pulled {
            commit: None,
            path: PathBuf::from(source.to_string()),
            downloaded_bytes: 0,
        });
    }
    let client = Client::new(settings);
    let listing = client.list(repo)?;
    let has: Vec<&str> = listing.siblings.iter().map(|file| file.name.as_str()).collect();
    let mut pulling = Pulling {
        client: &client,
        cache: &settings.cache,
        repo,
        commit: &listing.commit,
        progress,
        downloaded_bytes: 0,
    };
    let snapshot = settings.cache.snapshot(repo, &listing.commit);
    let source = source_in(repo, &snapshot);
    pulling.files(&wanted(repo, &has)?)?;
    // The index says which shards there are, and is here now.
    pulling.files(&missing(&source)?)?;
    pulling.name_revision()?;
    Ok(Pulled {
        path: PathBuf::from(source.to_string()),
        downloaded_bytes: pulling.downloaded_bytes,
        commit: Some(listing.commit),
    })
}

/// The files to begin with, of those that a repository has.
fn wanted(repo: &Repo, has: &[&str]) -> Result<Vec<String>, HubError> {
    let ggufs: Vec<&str> = has.iter().copied().filter(|name| name.ends_with(".gguf")).collect();
    let lacks = |missing: String, hint: String| HubError::Files {
        repo: repo.to_string(),
        missing,
        hint,
    };
    if let Some(file) = repo.gguf() {
        return match has.contains(&file) {
            true => Ok(vec![file.to_owned()]),
            false => Err(lacks(file.to_owned(), format!("; its GGUF files are {}", list(&ggufs)))),
        };
    }
    let weights = [WEIGHTS, INDEX].into_iter().find(|name| has.contains(name));
    let mut missing: Vec<&str> = SMALL[..NEEDED]
        .iter()
        .copied()
        .filter(|name| !has.contains(name))
        .collect();
    missing.extend(weights.is_none().then_some(WEIGHTS));
    if !missing.is_empty() {
        let hint = match ggufs.first() {
            Some(file) => format!(
                "; its GGUF files are {}: name one, as in {}/{file}",
                list(&ggufs),
                repo.id()
            ),
            None => {
                "; a model needs config.json, tokenizer.json and weights in safetensors, or one GGUF file".to_owned()
            }
        };
        return Err(lacks(missing.join(", "), hint));
    }
    let small = SMALL.into_iter().filter(|name| has.contains(name));
    Ok(small.chain(weights).map(str::to_owned).collect())
}

fn list(names: &[&str]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    }
}

/// A download of several files.
struct Pulling<'a> {
    client: &'a Client,
    cache: &'a Cache,
    repo: &'a Repo,
    commit: &'a str,
    progress: &'a dyn Progress,
    downloaded_bytes: u64,
}

impl Pulling<'_> {
    /// Fetches files of the commit that are not in its snapshot yet.
    fn files(&mut self, names: &[String]) -> Result<(), HubError> {
        let snapshot = self.cache.snapshot(self.repo, self.commit);
        let mut files: Vec<(&str, String, Meta)> = Vec::new();
        for name in names.iter().filter(|name| !snapshot.join(name).is_file()) {
            let url = self.client.url(self.repo, self.commit, name);
            let meta = self.client.meta(&url)?;
            files.push((name, url, meta));
        }
        if files.is_empty() {
            return Ok(());
        }
        self.progress.start(files.iter().map(|(_, _, meta)| meta.size).sum());
        let blobs = self.cache.folder(self.repo).join("blobs");
        let locks = self.cache.root().join(".locks").join(self.repo.folder());
        let mut done = 0;
        for (name, url, meta) in &files {
            self.progress.file(name);
            let at = |bytes| self.progress.at(done + bytes);
            self.downloaded_bytes += download::fetch(self.client, url, meta, &blobs, &locks, &at)?;
            done += meta.size;
            link(&meta.etag, &snapshot, name, &blobs)?;
        }
        Ok(())
    }

    /// Lets the branch or tag lead to the commit, once it is whole: until then the one before stays in use.
    fn name_revision(&self) -> Result<(), HubError> {
        let revision = self.repo.revision();
        if !is_plain(revision) || revision == self.commit {
            return Ok(());
        }
        let refs = self.cache.folder(self.repo).join("refs");
        std::fs::create_dir_all(&refs).map_err(HubError::disk("make", &*refs))?;
        let path = refs.join(revision);
        std::fs::write(&path, self.commit).map_err(HubError::disk("write", path))
    }
}

/// Puts a blob into a snapshot under the file's name.
fn link(etag: &str, snapshot: &Path, name: &str, blobs: &Path) -> Result<(), HubError> {
    std::fs::create_dir_all(snapshot).map_err(HubError::disk("make", snapshot))?;
    let path = snapshot.join(name);
    // A link to a blob that is gone may be there.
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(HubError::disk("delete", path)(error));
        }
        _ => {}
    }
    #[cfg(unix)]
    let linked = {
        // Relative, so that the cache may be moved.
        let _ = blobs;
        std::os::unix::fs::symlink(Path::new("../../blobs").join(etag), &path)
    };
    #[cfg(not(unix))]
    let linked = std::fs::hard_link(blobs.join(etag), &path);
    linked.map_err(HubError::disk("write", path))
}
