//! From a deployment file to the parts of an engine.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokenrouter_core::ModelIndex;
use tokenrouter_core::limits::StepLimits;
use tokenrouter_engine::{EngineLimits, EngineModel, EngineParts, FailureMode};
use tokenrouter_model::runner::ModelInfo;
use tokenrouter_model::text::ChatTemplate;
use tokenrouter_policy::{Deployment, Generation, HeadFacts, ModelFacts, PolicyHost, PolicyLimits, Setting};

use super::heads::{self, LoadedHead};
use super::models::Models;
use super::{DeploymentError, DeploymentFile, Fallback, LimitsEntry, OnFailure, OnFailureMode, OptionValue, Plugin};
use crate::policies::{First, ManagerSettings};

/// A deployment that is ready to start.
pub struct Loaded {
    /// For `Engine::start`.
    pub parts: EngineParts,
    /// What makes prompts of conversations, if a model or the file has it.
    pub template: Option<ChatTemplate>,
    /// What is to be known of the models.
    pub models: Vec<LoadedModel>,
    /// What is to be known of the heads.
    pub heads: Vec<LoadedHead>,
    /// What is to be known of the policies, the default first.
    pub policies: Vec<LoadedPolicy>,
    /// The host that the policy was loaded by, for those that come later.
    pub host: Arc<PolicyHost>,
    /// What policies are configured for.
    pub deployment: Deployment,
    /// The deployment's own policy as it can be loaded again.
    pub first: Option<First>,
    /// What later policies are held to.
    pub settings: ManagerSettings,
}

/// Finds out whether policies could serve a deployment that is loaded, without loading its models again.
#[derive(Clone)]
pub struct PolicyChecker {
    host: Arc<PolicyHost>,
    deployment: Deployment,
}

impl PolicyChecker {
    /// Compiles and configures the policy of a file with the same models.
    ///
    /// # Errors
    /// As [`DeploymentFile::load`], of its policy.
    pub fn check(&self, file: &DeploymentFile) -> Result<(), DeploymentError> {
        file.policy(&self.host, &self.deployment).map(drop)
    }
}

impl Loaded {
    /// For other policies of the same deployment.
    pub fn checker(&self) -> PolicyChecker {
        PolicyChecker {
            host: self.host.clone(),
            deployment: self.deployment.clone(),
        }
    }
}

/// A model that was loaded.
#[derive(Clone, Debug)]
pub struct LoadedModel {
    /// Its name.
    pub name: String,
    /// Where it came from, as the deployment file writes it.
    pub source: String,
    /// Its sizes.
    pub info: ModelInfo,
}

/// A policy that was loaded.
#[derive(Clone, Debug)]
pub struct LoadedPolicy {
    /// The name it is served by, as in `deployment@name`: that which it gives itself, unless it was uploaded by another.
    pub name: String,
    /// Its own version.
    pub version: String,
    /// One sentence.
    pub summary: String,
    /// SHA-256 of the component, in hexadecimal.
    pub digest: String,
    /// The version of the contract it was built for.
    pub contract: &'static str,
    /// Its options with the values in force and whether a request may set them.
    pub options: Vec<LoadedOption>,
}

/// An option in force.
#[derive(Clone, Debug)]
pub struct LoadedOption {
    /// Its name.
    pub name: String,
    /// The value given, or the default.
    pub value: OptionValue,
    /// Whether it was given.
    pub given: bool,
    /// Whether a request may set it for itself.
    pub per_request: bool,
}

impl DeploymentFile {
    /// Loads models, heads and policy. Takes as long as the models' weights do.
    ///
    /// # Errors
    /// [`DeploymentError`]: something is missing, damaged, or does not fit the rest.
    pub fn load(&self) -> Result<Loaded, DeploymentError> {
        let on_fault = self.failure_mode()?;
        // Before the models, whose weights may take minutes.
        self.plugin()?;
        let mut models = Models::load(self)?;
        let heads = heads::load(self, &mut models.runners)?;
        let kv_tokens = models.kv_tokens(self)?;
        let loaded: Vec<_> = self
            .models
            .iter()
            .zip(&models.runners)
            .map(|(entry, runner)| LoadedModel {
                name: entry.name.clone(),
                source: entry.source.to_string(),
                info: runner.info().clone(),
            })
            .collect();
        let deployment = self.facts(&loaded, &heads);
        let host = PolicyHost::new(self.policy.limits.policy_limits()).map_err(DeploymentError::PolicyHost)?;
        let first = self.policy(&host, &deployment)?;
        let generation = first.as_ref().map(|first| first.generation.clone());
        let limits = self.limits.engine(kv_tokens);
        let engine_models = loaded.iter().zip(models.runners);
        let template = self.template(&models.tokenizer)?;
        let parts = EngineParts {
            models: engine_models
                .map(|(model, runner)| EngineModel {
                    name: model.name.clone(),
                    runner,
                })
                .collect(),
            tokenizer: models.tokenizer,
            policies: generation
                .iter()
                .map(|it| (it.description().name.clone(), it.clone()))
                .collect(),
            on_fault,
            rule: self.launch.rule.0.clone(),
            optimistic: self.launch.optimistic.0,
            limits,
            trace: None,
        };
        Ok(Loaded {
            parts,
            template,
            models: loaded,
            heads,
            policies: generation
                .iter()
                .map(|it| LoadedPolicy::of(&it.description().name, it))
                .collect(),
            host: Arc::new(host),
            deployment,
            first,
            settings: self.admin.settings(&self.file)?,
        })
    }

    /// What `policy.plugin` names.
    ///
    /// # Errors
    /// As [`Plugin::find`].
    pub fn plugin(&self) -> Result<Plugin, DeploymentError> {
        Plugin::find(&self.policy.plugin, self.policy.base.as_deref().unwrap_or(&self.base))
    }

    /// What the engine does with a request whose policy fails.
    pub(super) fn failure_mode(&self) -> Result<FailureMode, DeploymentError> {
        match &self.policy.on_failure {
            OnFailure::Mode(OnFailureMode::Fail) => Ok(FailureMode::Fail),
            OnFailure::Mode(OnFailureMode::Stay) => Ok(FailureMode::Stay),
            OnFailure::Fallback(Fallback { fallback }) => {
                let names: Vec<&str> = self.models.iter().map(|model| model.name.as_str()).collect();
                let index = names.iter().position(|name| name == fallback);
                let index = index.ok_or_else(|| DeploymentError::Contradiction {
                    file: self.file.clone(),
                    what: format!(
                        "policy.on_failure falls back to model \"{fallback}\"; the models are {}",
                        names.join(", ")
                    ),
                })?;
                Ok(FailureMode::Fallback(ModelIndex(index as u32)))
            }
        }
    }

    /// What policies are told of this deployment.
    pub(super) fn facts(&self, models: &[LoadedModel], heads: &[LoadedHead]) -> Deployment {
        Deployment {
            name: self.name.clone(),
            models: models
                .iter()
                .map(|model| ModelFacts {
                    name: model.name.clone(),
                    parameters: model.info.parameters,
                    vocabulary: model.info.vocabulary,
                })
                .collect(),
            heads: heads
                .iter()
                .map(|head| HeadFacts {
                    name: head.name.clone(),
                    model: head.index,
                })
                .collect(),
        }
    }

    /// The policy, configured for the deployment; `None` without one.
    pub(super) fn policy(&self, host: &PolicyHost, deployment: &Deployment) -> Result<Option<First>, DeploymentError> {
        let entry = &self.policy;
        let Plugin::Component { given, bytes } = self.plugin()? else {
            if entry.options.is_empty() {
                return Ok(None);
            }
            let names: Vec<&str> = entry.options.keys().map(String::as_str).collect();
            return Err(DeploymentError::OptionsWithoutPolicy {
                names: names.join(", "),
            });
        };
        let generation = configure_with(host, given, &bytes, deployment, &entry.options)?;
        entry
            .request_options
            .check(&generation.description().options)
            .map_err(|what| DeploymentError::Contradiction {
                file: self.file.clone(),
                what,
            })?;
        Ok(Some(First {
            name: generation.description().name.clone(),
            bytes: bytes.into_owned().into(),
            options: entry.options.clone(),
            generation,
        }))
    }
}

/// Compiles a component and configures it for `deployment`. `given` is what messages call it.
///
/// # Errors
/// [`DeploymentError::Policy`]: not a policy, or one that refuses its options or the deployment.
pub fn configure(
    given: String,
    bytes: &[u8],
    deployment: &Deployment,
    options: &BTreeMap<String, OptionValue>,
) -> Result<Generation, DeploymentError> {
    // Code and instances outlive their host.
    let host = PolicyHost::new(PolicyLimits::default()).map_err(DeploymentError::PolicyHost)?;
    configure_with(&host, given, bytes, deployment, options)
}

fn configure_with(
    host: &PolicyHost,
    given: String,
    bytes: &[u8],
    deployment: &Deployment,
    options: &BTreeMap<String, OptionValue>,
) -> Result<Generation, DeploymentError> {
    let setting = |(name, value): (&String, &OptionValue)| Setting {
        name: name.clone(),
        value: value.clone().into(),
    };
    let settings: Vec<_> = options.iter().map(setting).collect();
    let generation = host.load(bytes).and_then(|code| code.configure(deployment, &settings));
    generation.map_err(|source| DeploymentError::Policy {
        plugin: given,
        source: Box::new(source),
    })
}

impl LimitsEntry {
    /// The engine's share of the bounds, with pools of so many tokens.
    pub fn engine(&self, kv_tokens: usize) -> EngineLimits {
        EngineLimits {
            requests_running_max: self.requests_running_max.size(),
            requests_waiting_max: self.requests_waiting_max.size(),
            kv_tokens,
            kv_promised_percent: self.kv_promised_percent.size(),
            stall_us_max: u64::from(self.stall_s_max.get()) * 1_000_000,
            step: StepLimits {
                rows_max: self.rows_max.size(),
                long_tokens_max: self.long_tokens_max.size(),
                wait_us_max: u64::from(self.wait_ms_max.get()) * 1_000,
                ..StepLimits::default()
            },
        }
    }
}

impl LoadedPolicy {
    /// A generation that is served by a name.
    pub(crate) fn of(name: &str, generation: &Generation) -> Self {
        let description = generation.description();
        let option = |info: &tokenrouter_policy::OptionInfo| {
            let given = generation.config().iter().find(|setting| setting.name == info.name);
            LoadedOption {
                name: info.name.clone(),
                value: given.map_or(&info.default, |setting| &setting.value).into(),
                given: given.is_some(),
                per_request: info.per_request,
            }
        };
        Self {
            name: name.to_owned(),
            version: description.version.clone(),
            summary: description.summary.clone(),
            digest: generation.digest().to_string(),
            contract: generation.code().contract_version(),
            options: description.options.iter().map(option).collect(),
        }
    }
}
