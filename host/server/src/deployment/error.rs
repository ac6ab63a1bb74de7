//! Why a deployment cannot be served.

use std::path::PathBuf;

use tokenrouter_model::ModelError;
use tokenrouter_model::cuda::CudaError;
use tokenrouter_model::heads::HeadError;
use tokenrouter_model::text::{TemplateError, TextError};
use tokenrouter_policy::PolicyError;

use crate::hub::HubError;

/// An error of a deployment: in its file, in what the file names, or in how the parts fit. Each text says where to look
/// and what would be right.
#[derive(Debug, thiserror::Error)]
pub enum DeploymentError {
    /// The file cannot be read.
    #[error("cannot read the deployment file {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not TOML, or has a key or a value that is not known.
    #[error("{file}:{line}:{column}: {what}")]
    Toml {
        /// The file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// What is wrong there.
        what: String,
    },
    /// The file reads well but contradicts itself.
    #[error("{file}: {what}")]
    Contradiction {
        /// The file.
        file: String,
        /// Which keys, and what would be right.
        what: String,
    },
    /// A model's folder is not there.
    #[error("model \"{model}\": there is no folder {}", path.display())]
    ModelFolder {
        /// The model.
        model: String,
        /// The folder.
        path: PathBuf,
    },
    /// A model is not in the hub's cache on this machine.
    #[error("model \"{model}\": {source}")]
    Hub {
        /// The model.
        model: String,
        /// What is missing, and how to get it.
        source: Box<HubError>,
    },
    /// A model cannot be loaded.
    #[error("model \"{model}\": {source}")]
    Model {
        /// The model.
        model: String,
        /// What is wrong.
        source: Box<ModelError>,
    },
    /// A GPU has no room for the models' KV, or cannot be asked.
    #[error(transparent)]
    Device(CudaError),
    /// A model's tokenizer cannot be used.
    #[error("model \"{model}\": {source}")]
    Tokenizer {
        /// The model.
        model: String,
        /// What is wrong.
        source: Box<TextError>,
    },
    /// A chat template cannot be read or used.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// Two models do not share a vocabulary.
    #[error("models \"{first}\" and \"{second}\" cannot work together: {source}")]
    Vocabulary {
        /// The deployment's first model.
        first: String,
        /// The one that differs from it.
        second: String,
        /// Where.
        source: Box<TextError>,
    },
    /// A head's file cannot be read.
    #[error("head \"{head}\": cannot read {}: {source}", path.display())]
    HeadRead {
        /// The head.
        head: String,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A head cannot be loaded, or does not fit its model.
    #[error("head \"{head}\" of model \"{model}\": {source}")]
    Head {
        /// The head.
        head: String,
        /// The model.
        model: String,
        /// What is wrong.
        source: Box<HeadError>,
    },
    /// No policy of that name, and no such file.
    #[error(
        "there is no policy \"{plugin}\": no file {}, and the built-in ones are {}; \"none\" serves without a policy",
        path.display(),
        super::plugin::embedded_names()
    )]
    PluginMissing {
        /// The name or path as it was given.
        plugin: String,
        /// Where a file was looked for.
        path: PathBuf,
    },
    /// A policy's file cannot be read.
    #[error("cannot read the policy {}: {source}", path.display())]
    PluginRead {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A policy cannot be loaded, or refuses the deployment or its options.
    #[error("policy \"{plugin}\": {source}")]
    Policy {
        /// Its name or path, as it was given.
        plugin: String,
        /// What is wrong.
        source: Box<PolicyError>,
    },
    /// Options without a policy that they could be for.
    #[error("policy options were given ({names}), but the deployment has no policy; leave them out or name a plugin")]
    OptionsWithoutPolicy {
        /// Their names, separated by commas.
        names: String,
    },
    /// The host for policies does not start.
    #[error(transparent)]
    PolicyHost(PolicyError),
}
