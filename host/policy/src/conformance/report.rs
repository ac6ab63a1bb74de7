//! What an examination found.

/// The checks of one policy, in the order they were made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Key of all drawn inputs: the same seed makes the same calls.
    pub seed: u64,
    /// One entry for each check.
    pub checks: Vec<Check>,
}

/// One check and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Its name, one word or two.
    pub name: &'static str,
    /// How it ended.
    pub outcome: Outcome,
}

/// How a check ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The contract was kept; the text says over what.
    Passed(String),
    /// The contract allows it, but the author should know.
    Noted(String),
    /// The contract was broken.
    Failed(String),
}

impl Report {
    /// Whether no check failed.
    pub fn passed(&self) -> bool {
        self.first_failure().is_none()
    }

    /// The first check that failed, as an error.
    pub fn first_failure(&self) -> Option<ConformanceError> {
        self.checks.iter().find_map(|check| match &check.outcome {
            Outcome::Failed(reason) => Some(ConformanceError {
                check: check.name,
                reason: reason.clone(),
                seed: self.seed,
            }),
            _ => None,
        })
    }
}

/// A policy that breaks the contract.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the policy fails the check `{check}` (seed {seed}): {reason}")]
pub struct ConformanceError {
    /// The check.
    pub check: &'static str,
    /// What was done, what came back, and what would be right.
    pub reason: String,
    /// Key of the inputs.
    pub seed: u64,
}
