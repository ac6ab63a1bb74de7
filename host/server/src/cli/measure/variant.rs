//! A deployment as a command varies it: another policy, its options, another launch rule or
//! setting of optimistic handoff.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tokenrouter_core::ahead::Optimistic;
use tokenrouter_host::deployment::{
    DeploymentError, DeploymentFile, Launch, OptimisticSetting, OptionValue, RequestOptions,
};
use tokenrouter_policy::Setting;

/// One way to serve a deployment.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct Variant {
    /// Instead of the deployment's policy and its options: a name, a .wasm file or `none`.
    pub(in crate::cli) policy: Option<String>,
    /// Added to the policy's options.
    pub(in crate::cli) options: Vec<Setting>,
    /// Instead of the deployment's rule.
    pub(in crate::cli) launch: Option<Launch>,
    /// Instead of the deployment's setting.
    pub(in crate::cli) optimistic: Option<Optimistic>,
}

impl Variant {
    /// The deployment of `path`, or the built-in one, in this way.
    pub(in crate::cli) fn deployment(&self, path: Option<&Path>) -> Result<DeploymentFile, DeploymentError> {
        let mut file = match path {
            Some(path) => DeploymentFile::read(path)?,
            None => DeploymentFile::built_in()?,
        };
        if let Some(policy) = &self.policy {
            // A policy that is named is measured as it is without the deployment's options, and a path on the command line
            // counts from the working directory.
            file.policy.options = BTreeMap::new();
            file.policy.request_options = RequestOptions::default();
            file.policy.base = Some(PathBuf::new());
            file.policy.plugin.clone_from(policy);
        }
        for setting in &self.options {
            file.policy
                .options
                .insert(setting.name.clone(), OptionValue::from(&setting.value));
        }
        if let Some(launch) = &self.launch {
            file.launch.rule = launch.clone();
        }
        if let Some(optimistic) = self.optimistic {
            file.launch.optimistic = OptimisticSetting(optimistic);
        }
        Ok(file)
    }
}
