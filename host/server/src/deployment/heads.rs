//! Loading a deployment's heads into the runners of their models.

use std::borrow::Cow;
use std::path::Path;

use tokenrouter_core::ModelIndex;
use tokenrouter_model::Runner;
use tokenrouter_model::heads::{HeadError, HeadFile, HeadHeader};
use tokenrouter_policy::Digest;

use super::{DeploymentError, DeploymentFile, HeadEntry};

/// Heads of the binary, for its small model.
const EMBEDDED: [(&str, &[u8]); 3] = [
    (
        "embedded:tiny/r2r",
        include_bytes!("../../../../models/tiny/heads/r2r.safetensors"),
    ),
    (
        "embedded:tiny/citer",
        include_bytes!("../../../../models/tiny/heads/citer.safetensors"),
    ),
    (
        "embedded:tiny/co-llm",
        include_bytes!("../../../../models/tiny/heads/co-llm.safetensors"),
    ),
];

/// A head that was loaded.
#[derive(Clone, Debug)]
pub struct LoadedHead {
    /// Its name in the deployment.
    pub name: String,
    /// The model at whose steps it is evaluated.
    pub model: String,
    /// The same by its place.
    pub index: ModelIndex,
    /// Its file, as the deployment file writes it.
    pub file: String,
    /// What it is.
    pub header: HeadHeader,
    /// Number of weights.
    pub parameters: u64,
    /// SHA-256 of the file.
    pub digest: Digest,
}

/// Reads a head's file, or one of the binary; `name` is what messages call it.
///
/// # Errors
/// [`DeploymentError::HeadRead`] if the file cannot be read, [`DeploymentError::Head`] if it is no head for `model`.
pub fn read_head(path: &Path, name: &str, model: &str) -> Result<(HeadFile, Digest), DeploymentError> {
    let embedded = EMBEDDED.iter().find(|(name, _)| path.ends_with(name));
    let bytes = match embedded {
        Some((_, bytes)) => Cow::Borrowed(*bytes),
        None => Cow::Owned(std::fs::read(path).map_err(|source| DeploymentError::HeadRead {
            head: name.to_owned(),
            path: path.to_owned(),
            source,
        })?),
    };
    match HeadFile::parse(&bytes, &path.display().to_string()) {
        Ok(head) => Ok((head, Digest::of(&bytes))),
        Err(source) => Err(DeploymentError::Head {
            head: name.to_owned(),
            model: model.to_owned(),
            source: Box::new(source),
        }),
    }
}

/// Loads all heads of a deployment into the runners of their models, which are in the deployment's order.
pub(super) fn load(file: &DeploymentFile, runners: &mut [Box<dyn Runner>]) -> Result<Vec<LoadedHead>, DeploymentError> {
    let mut loaded = Vec::with_capacity(file.heads.len());
    for entry in &file.heads {
        let (known, head) = open(file, entry)?;
        if !known.header.trained {
            tracing::warn!(head = entry.name, "{UNTRAINED}");
        }
        let added = runners[known.index.index()].add_head(&entry.name, head);
        added.map_err(|source| refused(entry, source))?;
        loaded.push(known);
    }
    Ok(loaded)
}

/// What is said of a head with random weights.
pub(super) const UNTRAINED: &str =
    "the head's weights are random: its scores mean nothing, and routing by them is for trying out only";

/// Reads one head of a deployment, and says what there is to be known of it.
pub(super) fn open(file: &DeploymentFile, entry: &HeadEntry) -> Result<(LoadedHead, HeadFile), DeploymentError> {
    let index = file.head_model(&entry.name, &entry.model)?;
    let (head, digest) = read_head(&file.base.join(&entry.file), &entry.name, &entry.model)?;
    let known = LoadedHead {
        name: entry.name.clone(),
        model: entry.model.clone(),
        index,
        file: entry.file.display().to_string(),
        header: head.header().clone(),
        parameters: head.parameters(),
        digest,
    };
    Ok((known, head))
}

/// A head that does not fit its model.
pub(super) fn refused(entry: &HeadEntry, source: HeadError) -> DeploymentError {
    DeploymentError::Head {
        head: entry.name.clone(),
        model: entry.model.clone(),
        source: Box::new(source),
    }
}
