//! What there is to see of the policies at a moment.

use tokenrouter_engine::{ComparisonReport, ServedStats};

use super::manager::Shown;
use super::{Manager, PolicySet, Trial};

/// The policies at a moment.
#[derive(Clone, Debug)]
pub struct Overview {
    /// What each is for.
    pub set: PolicySet,
    /// The generations that are loaded, those with requests that began before they were replaced included.
    pub live: Vec<ServedStats>,
    /// What the shadow decided, with its generation.
    pub comparison: Option<(u32, ComparisonReport)>,
    /// Whether all of it survives a restart.
    pub persists: bool,
}

impl Overview {
    /// What a loaded generation is for: `default`, `canary`, `shadow`, `by name`, `finishing` the requests that it routes, or
    /// `in reserve`.
    pub fn role(&self, stats: &ServedStats) -> &'static str {
        let (set, id) = (&self.set, stats.id.0);
        let is = |trial: Option<Trial>| trial.is_some_and(|trial| trial.generation == id);
        if set.default_generation() == Some(id) {
            "default"
        } else if is(set.canary) {
            "canary"
        } else if is(set.shadow) {
            "shadow"
        } else if set.active.values().any(|active| *active == id) {
            "by name"
        } else if stats.running > 0 {
            "finishing"
        } else {
            "in reserve"
        }
    }
}

impl Manager {
    /// The policies now.
    pub fn overview(&self) -> Overview {
        let Shown { set, comparison } = self.shown().clone();
        Overview {
            set,
            live: self.engine.generations(),
            comparison: comparison.map(|(id, comparison)| (id, comparison.report())),
            persists: self.persists(),
        }
    }
}
