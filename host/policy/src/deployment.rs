//! What a policy is configured with.

use tokenrouter_core::ModelIndex;
use tokenrouter_core::limits::MODELS_MAX;

use crate::PolicyError;

/// What the policy routes for.
#[derive(Clone, Debug, PartialEq)]
pub struct Deployment {
    /// The deployment's name.
    pub name: String,
    /// Its models, in the order that a `ModelIndex` counts; 1 to [`MODELS_MAX`].
    pub models: Vec<ModelFacts>,
    /// The heads that are loaded, each under a name of its own.
    pub heads: Vec<HeadFacts>,
}

/// What is to be known of a head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadFacts {
    /// The name the deployment gives it.
    pub name: String,
    /// The model at whose steps it is evaluated: a plan may ask for its score there only.
    pub model: ModelIndex,
}

/// What a policy is told of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFacts {
    /// The name the deployment gives it.
    pub name: String,
    /// Number of parameters.
    pub parameters: u64,
    /// Width of the logits, padding included.
    pub vocabulary: u32,
}

/// An option and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The option's name.
    pub name: String,
    /// Its value.
    pub value: Value,
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Yes or no.
    Boolean(bool),
    /// A number, whole or not.
    Number(f64),
    /// A text.
    Text(String),
    /// Several numbers.
    Numbers(Vec<f64>),
    /// Several texts.
    Texts(Vec<String>),
}

impl Deployment {
    pub(crate) fn check(&self) -> Result<(), PolicyError> {
        let models = self.models.len();
        if models == 0 || models > MODELS_MAX {
            return Err(PolicyError::Deployment {
                reason: format!("{models} models; 1 to {MODELS_MAX} are possible"),
            });
        }
        if let Some(model) = self.models.iter().find(|model| model.vocabulary == 0) {
            return Err(PolicyError::Deployment {
                reason: format!("model `{}` has a vocabulary of 0", model.name),
            });
        }
        if let Some(head) = self.heads.iter().find(|head| head.model.index() >= models) {
            return Err(PolicyError::Deployment {
                reason: format!("head `{}` is for model {} of {models} models", head.name, head.model.0),
            });
        }
        Ok(())
    }
}
