//! The policy that a command is about, and the deployment it is configured for.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use tokenrouter_host::deployment::{DeploymentFile, NO_PLUGIN, Plugin, parse_setting};
use tokenrouter_policy::{
    Deployment, Generation, HeadFacts, ModelFacts, PolicyCode, PolicyHost, PolicyLimits, Setting,
};

use crate::cli::Failure;

/// Which policy, for which deployment.
#[derive(Debug, Args)]
pub(super) struct SubjectArgs {
    /// A policy: a .wasm file, or the name of one of this binary
    #[arg(value_name = "FILE")]
    plugin: String,
    /// Deployment to configure it for, a TOML file; its [policy.limits] hold too, its models are not loaded [default: the built-in deployment "tiny"]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// An option of the policy; give it once for each option. The deployment's own options are for its own policy and are
    /// not taken
    #[arg(long = "option", value_name = "NAME=VALUE", value_parser = parse_setting)]
    options: Vec<Setting>,
    /// A head the deployment is taken to have besides or instead of its own, at the first model or the one that is named; its
    /// scores are made up. Give it once for each head
    #[arg(long = "head", value_name = "NAME[=MODEL]")]
    heads: Vec<String>,
}

/// A policy that was read, and what it is to be configured with.
pub(super) struct Subject {
    pub(super) bytes: Cow<'static, [u8]>,
    pub(super) code: PolicyCode,
    pub(super) file: DeploymentFile,
    pub(super) deployment: Deployment,
    pub(super) options: Vec<Setting>,
    /// What the policy is held to.
    pub(super) limits: PolicyLimits,
    /// How it was named.
    pub(super) given: String,
}

impl SubjectArgs {
    /// Reads, checks and compiles the policy, and reads the deployment.
    ///
    /// # Errors
    /// All for whoever wrote the command, the policy or the deployment.
    pub(super) fn load(&self) -> Result<Subject, Failure> {
        let file = match &self.config {
            Some(path) => DeploymentFile::read(path),
            None => DeploymentFile::built_in(),
        };
        let file = file.map_err(Failure::asked)?;
        let found = Plugin::find(&self.plugin, Path::new("")).map_err(Failure::asked)?;
        let Plugin::Component { given, bytes } = found else {
            return Err(Failure::Asked(anyhow::anyhow!(
                "\"{NO_PLUGIN}\" stands for serving without a policy; name one"
            )));
        };
        let deployment = facts(&file, &self.heads).map_err(Failure::Asked)?;
        let limits = file.policy.limits.policy_limits();
        // Code and instances outlive their host.
        let host = PolicyHost::new(limits).map_err(Failure::other)?;
        let code = host.load(&bytes).with_context(|| format!("policy \"{given}\""));
        Ok(Subject {
            code: code.map_err(Failure::Asked)?,
            bytes,
            limits,
            deployment,
            options: self.options.clone(),
            given,
            file,
        })
    }
}

impl Subject {
    /// The policy, configured.
    ///
    /// # Errors
    /// It refuses its options or the deployment.
    pub(super) fn configure(&self) -> Result<Generation, Failure> {
        let generation = self.code.configure(&self.deployment, &self.options);
        let generation = generation.with_context(|| format!("policy \"{}\"", self.given));
        generation.map_err(Failure::Asked)
    }
}

/// What a policy is told of a deployment, from the models' configurations alone. `more_heads` are names, or names and models.
///
/// # Errors
/// A model without a configuration, a head of no model.
fn facts(file: &DeploymentFile, more_heads: &[String]) -> anyhow::Result<Deployment> {
    let facts = |entry: &tokenrouter_host::deployment::ModelEntry| {
        let config = entry.resolve(&file.base)?.config();
        let config = config.with_context(|| format!("model \"{}\"", entry.name))?;
        Ok(ModelFacts {
            name: entry.name.clone(),
            parameters: config.parameters(),
            vocabulary: config.vocab_size as u32,
        })
    };
    let first = file.models.first().map_or("", |model| model.name.as_str());
    let more_heads: Vec<(&str, &str)> = more_heads
        .iter()
        .map(|head| head.split_once('=').unwrap_or((head, first)))
        .collect();
    let is_own = |name: &str| more_heads.iter().all(|(other, _)| *other != name);
    let heads = file.heads.iter().map(|head| (head.name.as_str(), head.model.as_str()));
    let heads = heads.filter(|(name, _)| is_own(name));
    let head = |(name, model): (&str, &str)| {
        let name = name.to_owned();
        Ok(HeadFacts {
            model: file.head_model(&name, model)?,
            name,
        })
    };
    Ok(Deployment {
        name: file.name.clone(),
        models: file.models.iter().map(facts).collect::<anyhow::Result<_>>()?,
        heads: heads
            .chain(more_heads.iter().copied())
            .map(head)
            .collect::<anyhow::Result<_>>()?,
    })
}
