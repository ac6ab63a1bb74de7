//! What native tests of policies need: deployments, settings and steps in one line each.

use crate::{
    Admission, Batch, Decisions, Deployment, ModelIndex, ModelInfo, Options, Policy, Request, Setting, StateWord, Value,
};

/// A deployment with these models, each with a vocabulary of 151,936.
pub fn deployment(models: &[&str]) -> Deployment {
    let info = |name: &&str| ModelInfo {
        name: (*name).into(),
        parameters: 1,
        vocabulary: 151_936,
    };
    Deployment {
        name: "test".into(),
        models: models.iter().map(info).collect(),
        heads: Vec::new(),
    }
}

/// An option that is a number.
pub fn number(name: &str, value: f64) -> Setting {
    Setting {
        name: name.into(),
        value: Value::Number(value),
    }
}

/// An option that is a text.
pub fn text(name: &str, value: &str) -> Setting {
    Setting {
        name: name.into(),
        value: Value::Text(value.into()),
    }
}

/// What the component's `init` does: checks the settings, then makes the policy.
///
/// # Errors
/// As [`Policy::init`].
pub fn init<P: Policy>(models: &[&str], settings: Vec<Setting>) -> Result<P, String> {
    P::init(&deployment(models), &Options::read(P::ABOUT.options, settings)?)
}

/// What the component's `admit` does with a request that has these options.
///
/// # Errors
/// As [`Policy::admit`].
pub fn admit<P: Policy>(policy: &P, settings: Vec<Setting>) -> Result<Admission, String> {
    let options = Options::read_request(P::ABOUT.options, settings)?;
    let request = Request {
        seed: 1,
        uniform: 0.5,
        prompt: vec![1],
        max_tokens: 16,
        temperature: 0.0,
        options: Vec::new(),
    };
    policy.admit(&request, &options)
}

/// A step of model `at` with one row for every list of signals, all in the same state.
pub fn route<P: Policy>(policy: &P, at: ModelIndex, signals: &[&[f32]], state: &[StateWord]) -> Decisions {
    let batch = Batch {
        candidates: vec![7; signals.len()],
        signals: signals.concat(),
        state: state.repeat(signals.len()),
        texts: Vec::new(),
    };
    policy.route_batch(at, batch)
}
