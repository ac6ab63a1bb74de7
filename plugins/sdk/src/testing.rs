//! What native tests of policies need: deployments, settings and steps in one line each.

use crate::{
    Admission, Batch, Decisions, Deployment, ModelIndex, ModelInfo, Options, Parcel, Policy, Request, Setting,
    StateWord, Step, Value,
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

/// The same deployment with these heads loaded.
pub fn deployment_with_heads(models: &[&str], heads: &[&str]) -> Deployment {
    Deployment {
        heads: heads.iter().map(|name| (*name).into()).collect(),
        ..deployment(models)
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
    init_with_heads(models, &[], settings)
}

/// The same in a deployment that has these heads.
///
/// # Errors
/// As [`Policy::init`].
pub fn init_with_heads<P: Policy>(models: &[&str], heads: &[&str], settings: Vec<Setting>) -> Result<P, String> {
    P::init(
        &deployment_with_heads(models, heads),
        &Options::read(P::ABOUT.options, settings)?,
    )
}

/// What the component's `admit` does with a request that has these options.
///
/// # Errors
/// As [`Policy::admit`].
pub fn admit<P: Policy>(policy: &P, settings: Vec<Setting>) -> Result<Admission, String> {
    let options = Options::read_request(P::ABOUT.options, settings)?;
    policy.admit(&request(), &options)
}

/// A request with a prompt of one token and a draw of 0.5.
pub fn request() -> Request {
    Request {
        seed: 1,
        uniform: 0.5,
        prompt: vec![1],
        max_tokens: 16,
        temperature: 0.0,
        options: Vec::new(),
    }
}

/// A step of model `at` with one row for every list of signals, all in the same state.
pub fn route<P: Policy>(policy: &P, at: ModelIndex, signals: &[&[f32]], state: &[StateWord]) -> Decisions {
    let batch = Batch {
        candidates: vec![7; signals.len()],
        signals: signals.concat(),
        state: state.repeat(signals.len()),
        texts: String::new(),
        text_ends: Vec::new(),
    };
    policy.route_batch(at, batch)
}

/// What `send` answers for a request in this state that leaves `at` for `to`.
pub fn send<P: Policy>(policy: &P, at: ModelIndex, to: ModelIndex, state: &[StateWord]) -> Parcel {
    let step = Step {
        candidate: 7,
        signals: vec![0.5; policy.plan().signals[at as usize].len()],
        state: state.to_vec(),
        text: String::new(),
    };
    policy.send(at, to, step)
}
