//! Options: what is declared must be accepted, what is wrong must be refused in words.

use super::checks::{Subject, failed, passed};
use super::report::Outcome;
use crate::{PolicyError, Setting, Value};

/// Leaving an option out and giving its declared default are the same, for each option alone. A policy may refuse an option
/// that means nothing beside the others (a unit where nothing has one), and a default may hang on others that are given (a
/// threshold on its unit), so both are only told.
pub(super) fn defaults(subject: &Subject<'_>) -> Outcome {
    let generation = subject.generation;
    let given = generation.config();
    let mut notes = Vec::new();
    let options = &generation.description().options;
    for option in options {
        if given.iter().any(|setting| setting.name == option.name) {
            continue;
        }
        let mut config = given.to_vec();
        config.push(Setting {
            name: option.name.clone(),
            value: option.default.clone(),
        });
        let name = &option.name;
        match generation.code().configure(generation.deployment(), &config) {
            Ok(written) if written.plan() == generation.plan() => {}
            Ok(_) if given.is_empty() => {
                return failed(format!(
                    "with option \"{name}\" at its declared default the policy returns another plan than without it"
                ));
            }
            Ok(_) => notes.push(format!("\"{name}\" at its declared default changes the plan")),
            Err(error) if error.is_fault() => {
                return failed(format!("option \"{name}\" at its declared default: {error}"));
            }
            Err(error) => notes.push(error.to_string()),
        }
    }
    if notes.is_empty() {
        passed(format!("{} options", options.len()))
    } else {
        Outcome::Noted(format!("defaults that cannot be written here: {}", notes.join("; ")))
    }
}

/// An unknown option is refused, and a value of another type or far out of range is accepted or refused, but never ends in
/// a trap or in silence until the deadline.
pub(super) fn refusals(subject: &Subject<'_>) -> Outcome {
    let generation = subject.generation;
    let (code, deployment) = (generation.code(), generation.deployment());
    let unknown = Setting {
        name: "no-policy-has-this-option".to_owned(),
        value: Value::Number(0.0),
    };
    let mut config = generation.config().to_vec();
    config.push(unknown);
    match code.configure(deployment, &config) {
        Err(PolicyError::OptionUnknown { .. } | PolicyError::ConfigRefused { .. }) => {}
        Err(error) => return failed(format!("an unknown option: {error}; it must be refused by name")),
        Ok(_) => return failed("an unknown option is accepted; it must be refused by name"),
    }
    let mut tried = 1;
    for option in &generation.description().options {
        for value in wrong_values() {
            let described = format!("option \"{}\" set to {value:?}", option.name);
            let setting = Setting {
                name: option.name.clone(),
                value,
            };
            let mut config = generation.config().to_vec();
            config.retain(|given| given.name != option.name);
            config.push(setting.clone());
            tried += 1;
            if let Err(error) = code.configure(deployment, &config)
                && error.is_fault()
            {
                return failed(format!("{described}: {error}; refuse it with a text"));
            }
            if option.per_request {
                tried += 1;
                let admitted = subject.admit(&mut generation.instance(), 0, &[setting]);
                if let Err(error) = admitted
                    && error.is_fault()
                {
                    return failed(format!("{described} in a request: {error}; refuse it with a text"));
                }
            }
        }
    }
    passed(format!("{tried} configurations"))
}

fn wrong_values() -> [Value; 9] {
    [
        Value::Boolean(true),
        Value::Number(f64::NAN),
        Value::Number(-1.0),
        Value::Number(1.0e300),
        Value::Number(f64::NEG_INFINITY),
        Value::Text("no such choice".to_owned()),
        Value::Numbers(Vec::new()),
        Value::Numbers(vec![f64::NAN, -1.0, 1.0e300]),
        Value::Texts(vec![String::new(), "no such name".to_owned()]),
    ]
}
