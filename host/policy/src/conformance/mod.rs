//! Whether a policy keeps the contract, found out by calling it: the same plan and the same decisions every time, answers
//! of the right shape for any numbers, refusals instead of traps, and requests that get on.
//!
//! [`smoke`] is short enough for an upload; [`examine`] makes as many rounds as it is told and goes on after a failure.
//! Both are for a thread that serves no requests: a policy may use its whole deadline at every call.

mod checks;
mod options;
mod report;
mod vectors;
mod walk;

pub use report::{Check, ConformanceError, Outcome, Report};

use tokenrouter_core::ModelIndex;
use tokenrouter_core::policy::RouteBatch;

use self::checks::Subject;
use self::vectors::Flavour;
use crate::{Generation, PolicyError};

/// How long to look, and with which inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Key of all drawn inputs.
    pub seed: u64,
    /// How often everything is drawn anew, at least 1. One round is some hundred calls.
    pub rounds: u32,
}

impl Effort {
    /// What an upload gets.
    pub const SMOKE: Self = Self { seed: 0, rounds: 1 };
}

/// The short examination.
///
/// # Errors
/// The first check that the policy fails.
pub fn smoke(generation: &Generation) -> Result<Report, ConformanceError> {
    let mut report = Report {
        seed: Effort::SMOKE.seed,
        checks: Vec::new(),
    };
    for check in run(generation, Effort::SMOKE) {
        report.checks.push(check);
        if let Some(error) = report.first_failure() {
            return Err(error);
        }
    }
    Ok(report)
}

/// All checks, also after one has failed.
pub fn examine(generation: &Generation, effort: Effort) -> Report {
    Report {
        seed: effort.seed,
        checks: run(generation, effort).collect(),
    }
}

/// A batch of `rows` rows as a step of model `at` would give it, with states as the policy itself makes them at admission: for
/// measuring.
///
/// # Errors
/// A fault of the policy at admission.
pub fn plausible_batch(
    generation: &Generation,
    at: ModelIndex,
    rows: usize,
    seed: u64,
) -> Result<RouteBatch, PolicyError> {
    let subject = Subject::new(generation, Effort { seed, rounds: 1 });
    let states = subject.states(&mut generation.instance(), rows, 0)?;
    Ok(subject.vectors.batch(at, rows, Flavour::Plausible, 0, &states))
}

type Look = fn(&Subject<'_>) -> Outcome;

/// The checks, the cheap and basic ones first.
const CHECKS: [(&str, Look); 9] = [
    ("description", checks::description),
    ("init", checks::init),
    ("defaults", options::defaults),
    ("refusals", options::refusals),
    ("admit", checks::admit),
    ("route", checks::route),
    ("rows", checks::rows),
    ("purity", checks::purity),
    ("progress", walk::progress),
];

fn run(generation: &Generation, effort: Effort) -> impl Iterator<Item = Check> {
    let subject = Subject::new(generation, effort);
    CHECKS.into_iter().map(move |(name, look)| Check {
        name,
        outcome: look(&subject),
    })
}
