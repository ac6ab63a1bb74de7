//! `[admin]`: where the admin API listens, and what it takes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::{DeploymentError, Whole};
use crate::policies::{BreakerLimits, ManagerSettings, SigningKey, parse_key};

/// The admin API and the policies that it brings.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct AdminEntry {
    /// Address and port of the admin API, `HOST:PORT`; without it there is none.
    pub listen: Option<String>,
    /// File of the admin keys, one a line as KEY or as NAME KEY, relative to this file.
    pub key_file: Option<PathBuf>,
    /// Serve without a key. Only at a loopback address.
    pub without_key: bool,
    /// Folder in which uploads and activations survive a restart, with the audit log; relative to this file.
    pub state_dir: Option<PathBuf>,
    /// Public ed25519 keys by name, 64 hexadecimal digits each.
    pub signing_keys: BTreeMap<String, String>,
    /// Take only uploads that are signed with one of them.
    pub require_signature: bool,
    /// How long requests of a policy that was replaced may go on with it, seconds.
    pub swap_drain_s_max: Whole<0, 86_400>,
    /// Faults within `faults_s` after which a policy is taken out, and the one before it serves again.
    pub faults_max: Whole<1, 1_000_000>,
    /// The time within which faults count together, seconds.
    pub faults_s: Whole<1, 3_600>,
}

impl Default for AdminEntry {
    fn default() -> Self {
        Self {
            listen: None,
            key_file: None,
            without_key: false,
            state_dir: None,
            signing_keys: BTreeMap::new(),
            require_signature: false,
            swap_drain_s_max: Whole::new(600),
            faults_max: Whole::new(5),
            faults_s: Whole::new(10),
        }
    }
}

impl AdminEntry {
    /// What the manager of the policies goes by. `file` names the deployment file in messages.
    ///
    /// # Errors
    /// [`DeploymentError::Contradiction`]: a key that is none, or signatures required without a key.
    pub fn settings(&self, file: &str) -> Result<ManagerSettings, DeploymentError> {
        let refuse = |what: String| DeploymentError::Contradiction {
            file: file.to_owned(),
            what,
        };
        if self.require_signature && self.signing_keys.is_empty() {
            return Err(refuse(
                "admin.require_signature without admin.signing_keys would refuse every upload".to_owned(),
            ));
        }
        let key = |(name, text): (&String, &String)| {
            let key = parse_key(text).map_err(|error| refuse(format!("admin.signing_keys.{name} is {error}")))?;
            Ok(SigningKey {
                name: name.clone(),
                key,
            })
        };
        Ok(ManagerSettings {
            keys: self
                .signing_keys
                .iter()
                .map(key)
                .collect::<Result<_, DeploymentError>>()?,
            require_signature: self.require_signature,
            drain_max: Duration::from_secs(self.swap_drain_s_max.get().into()),
            breaker: BreakerLimits {
                faults_max: self.faults_max.get(),
                within: Duration::from_secs(self.faults_s.get().into()),
            },
        })
    }
}
