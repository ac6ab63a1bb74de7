//! A policy that is compiled and known, but not configured.

use std::sync::Arc;

use crate::bindings::PolicyPre;
use crate::guest::Guest;
use crate::limits::PolicyLimits;
use crate::live::Live;
use crate::ticker::Ticker;
use crate::{
    CONTRACT_VERSION, Call, Deployment, Description, Digest, Generation, PolicyError, Setting, convert, settings,
};

/// A policy's compiled code and its description. Cheap to clone, and usable after its host is gone.
#[derive(Clone)]
pub struct PolicyCode(Arc<Described>);

struct Described {
    code: Code,
    digest: Digest,
    description: Description,
}

/// What instances are made from.
#[derive(Clone)]
pub(crate) struct Code {
    pub(crate) pre: PolicyPre<Guest>,
    pub(crate) limits: PolicyLimits,
    /// How the policy is called in the log.
    pub(crate) log_name: Arc<str>,
    /// Deadlines need the clock for as long as anything can be called.
    pub(crate) _ticker: Arc<Ticker>,
}

impl PolicyCode {
    /// Asks the policy to describe itself.
    pub(crate) fn describe(mut code: Code, digest: Digest) -> Result<Self, PolicyError> {
        let described = Live::new(&code)?.call(Call::Describe, |exports, store| exports.call_describe(store))?;
        let description = convert::description(described).check()?;
        code.log_name = Arc::from(description.name.as_str());
        Ok(Self(Arc::new(Described {
            code,
            digest,
            description,
        })))
    }

    /// Configures the policy for a deployment, checks its plan and returns a generation to route with.
    ///
    /// # Errors
    /// An option the policy does not have, a configuration it refuses, a plan the deployment cannot serve, or a fault.
    pub fn configure(&self, deployment: &Deployment, config: &[Setting]) -> Result<Generation, PolicyError> {
        deployment.check()?;
        settings::check_config(&self.0.description, config)?;
        Generation::new(self.clone(), deployment.clone(), config.to_vec())
    }

    /// Makes a WebAssembly instance without `init`, and drops it: what instantiation alone costs.
    ///
    /// # Errors
    /// A fault while the component starts.
    pub fn instantiate(&self) -> Result<(), PolicyError> {
        Live::new(self.code()).map(drop)
    }

    /// SHA-256 of the component.
    pub fn digest(&self) -> Digest {
        self.0.digest
    }

    /// What the policy says of itself.
    pub fn description(&self) -> &Description {
        &self.0.description
    }

    /// The version of the contract the policy was built for.
    pub fn contract_version(&self) -> &'static str {
        CONTRACT_VERSION
    }

    pub(crate) fn code(&self) -> &Code {
        &self.0.code
    }
}
