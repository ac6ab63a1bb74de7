//! A policy at work: code, deployment and options, fixed together.

use std::sync::Arc;

use tokenrouter_core::ModelIndex;
use tokenrouter_core::signal::Plan;

use crate::bindings::types as wit;
use crate::guest::cut;
use crate::live::Live;
use crate::{Call, Deployment, Description, Digest, PolicyCode, PolicyError, PolicyInstance, Setting, convert, plan};

/// One activation of a policy. Cheap to clone; all clones and instances have the same plan.
#[derive(Clone)]
pub struct Generation(Arc<Configured>);

struct Configured {
    code: PolicyCode,
    deployment: Deployment,
    config: Vec<Setting>,
    plan: Plan,
    /// Columns of signals by model: asked for at every step.
    columns: Vec<usize>,
}

impl Generation {
    pub(crate) fn new(code: PolicyCode, deployment: Deployment, config: Vec<Setting>) -> Result<Self, PolicyError> {
        let mut live = Live::new(code.code())?;
        let answer = init(&mut live, &deployment, &config)?;
        let plan = plan::check(
            answer.map_err(|text| PolicyError::ConfigRefused {
                text: cut(&text).to_owned(),
            })?,
            &deployment,
        )?;
        let columns = (0..deployment.models.len() as u32)
            .map(|model| plan.columns(ModelIndex(model)))
            .collect();
        Ok(Self(Arc::new(Configured {
            code,
            deployment,
            config,
            plan,
            columns,
        })))
    }

    /// What the policy wants from the host.
    pub fn plan(&self) -> &Plan {
        &self.0.plan
    }

    /// An instance to call. It costs nothing until its first call.
    pub fn instance(&self) -> PolicyInstance {
        PolicyInstance::new(self.clone())
    }

    /// The code.
    pub fn code(&self) -> &PolicyCode {
        &self.0.code
    }

    /// What the policy says of itself.
    pub fn description(&self) -> &Description {
        self.0.code.description()
    }

    /// SHA-256 of the component.
    pub fn digest(&self) -> Digest {
        self.0.code.digest()
    }

    /// What it routes for.
    pub fn deployment(&self) -> &Deployment {
        &self.0.deployment
    }

    /// The options it was given.
    pub fn config(&self) -> &[Setting] {
        &self.0.config
    }

    /// Columns of signals in a row at `model`; `None` if there is no such model.
    pub(crate) fn columns(&self, model: ModelIndex) -> Option<usize> {
        self.0.columns.get(model.index()).copied()
    }

    /// A fresh instance, initialised. A pure policy answers `init` as it did the first time; any other would answer
    /// a request differently after a fault than before.
    pub(crate) fn start(&self) -> Result<Live, PolicyError> {
        let impure = |reason: String| PolicyError::Impure { reason };
        let mut live = Live::new(self.0.code.code())?;
        let answer = init(&mut live, &self.0.deployment, &self.0.config)?
            .map_err(|text| impure(format!("`init` refuses arguments it accepted before: {}", cut(&text))))?;
        let plan = plan::check(answer, &self.0.deployment)
            .map_err(|error| impure(format!("`init` answered well before, and now: {error}")))?;
        if plan != self.0.plan {
            return Err(impure("`init` returned another plan for the same arguments".to_owned()));
        }
        Ok(live)
    }
}

fn init(
    live: &mut Live,
    deployment: &Deployment,
    config: &[Setting],
) -> Result<Result<wit::Plan, String>, PolicyError> {
    let models = convert::models(&deployment.models);
    let heads: Vec<&str> = deployment.heads.iter().map(|head| head.name.as_str()).collect();
    let texts = convert::setting_texts(config);
    let config = convert::settings(config, &texts);
    let deployment = wit::Deployment {
        name: &deployment.name,
        models: &models,
        heads: &heads,
    };
    live.call(Call::Init, |exports, store| {
        exports.call_init(store, deployment, &config)
    })
}
