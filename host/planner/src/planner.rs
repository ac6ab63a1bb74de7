//! Throughput of one setting, by the cheapest exact method that applies.

use crate::chain::{Chain, ChainLimits};
use crate::error::PlanError;
use crate::handback::Handback;
use crate::search::{self, Search};
use crate::system::System;
use crate::table::{self, Row};
use crate::thresholds;

/// Plans for one system; keeps what settings have in common, so that a sweep is cheaper than its settings one by one.
#[derive(Debug)]
pub struct Planner {
    system: System,
    handback: Option<Handback>,
    limits: ChainLimits,
}

impl Planner {
    /// A planner within the default limits.
    pub fn new(system: System) -> Self {
        Self::with_limits(system, ChainLimits::default())
    }

    /// A planner that refuses chains beyond `limits`.
    pub fn with_limits(system: System, limits: ChainLimits) -> Self {
        Self {
            handback: Handback::new(&system),
            system,
            limits,
        }
    }

    /// What is planned.
    pub fn system(&self) -> &System {
        &self.system
    }

    /// Tokens per second of `n` requests, all models together, with model i launching once `b[i]` requests wait.
    ///
    /// # Errors
    /// Thresholds that are not feasible, a chain beyond the limits, a law that does not converge.
    pub fn tokens_per_s(&mut self, n: usize, b: &[usize]) -> Result<f64, PlanError> {
        match (&mut self.handback, b) {
            (Some(handback), &[1, large]) => handback.tokens_per_s(n, large),
            _ => Chain::new(&self.system, n, b, self.limits)?.tokens_per_s(),
        }
    }

    /// Searches the thresholds for `n` requests: every setting that was computed, in lexicographic order of B, the
    /// best one marked. Settings that are equal within 1e-9 count as equal, and the smaller thresholds win.
    ///
    /// # Errors
    /// As [`Planner::tokens_per_s`].
    pub fn plan(&mut self, n: usize, search: Search) -> Result<Vec<Row>, PlanError> {
        thresholds::check(n, &vec![1; self.system.models()], self.system.models())?;
        let models = self.system.models();
        let settings = search::run(n, models, search, |b| self.tokens_per_s(n, b))?;
        Ok(table::rows(n, settings, self.system.bound(n)))
    }
}
