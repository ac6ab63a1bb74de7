//! What would keep a deployment from being served, found without loading weights: the checks of loading, carried on after the
//! first that fails, and what the machine has beside what the deployment will need.

mod machine;
mod models;
mod parts;
mod size;

#[cfg(test)]
mod tests;

use serde::Serialize;

use self::machine::Machine;
use self::models::Examined;
use super::{DeploymentError, DeploymentFile};

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// It can be served, but maybe not as meant.
    Warn,
    /// It cannot be served.
    Error,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How much it matters.
    pub level: Level,
    /// What was looked at: `model small`, `policy`, `memory` and so on.
    pub about: String,
    /// What was found, and what to change.
    pub what: String,
}

/// Looks at all that a deployment names. Reads configurations, tokenizers, the headers of weights, heads and the policy, and opens
/// the GPUs that it asks for; seconds, whatever the size of the models.
pub fn examine(file: &DeploymentFile) -> Vec<Finding> {
    examine_on(file, &Machine::this())
}

/// The same for a machine that may be another one.
fn examine_on(file: &DeploymentFile, machine: &Machine) -> Vec<Finding> {
    let mut findings = Findings::default();
    let models = Examined::of(file, &mut findings);
    parts::template(file, &models, &mut findings);
    let heads = parts::heads(file, &models, &mut findings);
    parts::policy(file, &models, heads.as_deref(), &mut findings);
    machine::check(
        file,
        &models,
        heads.as_deref().unwrap_or_default(),
        machine,
        &mut findings,
    );
    parts::server(file, &mut findings);
    findings.0
}

/// What has been found so far.
#[derive(Debug, Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, level: Level, about: impl Into<String>, what: impl Into<String>) {
        self.0.push(Finding {
            level,
            about: about.into(),
            what: what.into(),
        });
    }

    /// The value, or `None` after its error has become a finding.
    fn take<T>(&mut self, about: &str, result: Result<T, DeploymentError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.add(Level::Error, about, error.to_string());
                None
            }
        }
    }
}
