//! Models by name: from the Hugging Face hub into its cache on this machine, and from there to a deployment. The cache is shared with
//! other programs: same folders, same names, same locks. Only `models pull` asks the hub; serving reads the cache alone.
//!
//! | file | what it knows |
//! |---|---|
//! | `repo` | `ORG/NAME[@REVISION][/FILE.gguf]` |
//! | `settings` | the environment variables that the hub's own programs read |
//! | `cache` | blobs, snapshots and refs; what is whole |
//! | `client` | the hub's interface over HTTP |
//! | `digest` | a file against the hash that names it |
//! | `download` | one file, resumed and checked |
//! | `pull` | all files that a model needs |

mod cache;
mod client;
mod digest;
mod download;
mod error;
mod pull;
mod repo;
mod settings;

#[cfg(test)]
mod tests;

pub use cache::{Cache, CachedModel};
pub use error::HubError;
pub use pull::{Progress, Pulled, pull};
pub use repo::{Repo, RepoError};
pub use settings::Settings;

/// What a model's source begins with when it names a repository of the hub.
pub const SCHEME: &str = "hf://";
