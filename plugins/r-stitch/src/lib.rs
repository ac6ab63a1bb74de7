//! R-Stitch (arXiv 2507.17307): both models watch their own uncertainty. The small model writes until a position is
//! uncertain; the large one writes that position again and goes on until it is certain, then hands back.
//!
//! With a measure of certainty at the model that ran the step:
//! * at the small model: not certain → hand over, the candidate is discarded;
//! * at the large model: every token is committed; certain → hand back.
//!
//! The large model's token must be committed also when it hands back: were it dropped, the small model would
//! meet the same prefix with the same uncertainty, and the two would pass the request to and fro for ever.
//!
//! A signal that is not a number counts as uncertain: the small model hands over, the large one goes on and commits,
//! so the answer always grows.
//!
//! State: one word, the threshold.

mod certainty;

use certainty::{Certainty, SIGNAL, THRESHOLD, UNIT};
use tokenrouter_sdk::prelude::*;

/// The policy.
pub struct RStitch {
    plan: Plan,
    models: Pair,
    certainty: Certainty,
    threshold: Threshold,
}

impl Policy for RStitch {
    const ABOUT: About = About {
        name: "r-stitch",
        version: env!("CARGO_PKG_VERSION"),
        summary: "The small model hands over when it is uncertain, the large one hands back when it is certain",
        options: &[&THRESHOLD, &SIGNAL, &UNIT, &SMALL, &LARGE],
    };

    fn init(deployment: &Deployment, options: &Options) -> Result<Self, String> {
        let models = Pair::read(deployment, options)?;
        let certainty = Certainty::read(options)?;
        let vocabulary = deployment.models[models.small as usize].vocabulary;
        // Models beside the pair get the signal too: a request that the host puts there is served as at the large one.
        let plan = plan(models.small, 1, vec![vec![certainty.signal()]; deployment.models.len()]);
        Ok(Self {
            plan,
            models,
            certainty,
            threshold: certainty.threshold(vocabulary, options)?,
        })
    }

    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn admit(&self, _request: &Request, options: &Options) -> Result<Admission, String> {
        Ok(Admission {
            model: self.models.small,
            state: vec![self.threshold.admit(options)?],
        })
    }

    fn route(&self, at: ModelIndex, row: Row<'_>) -> ModelIndex {
        let certain = self.certainty.is_certain(row.signals[0], Threshold::of(row.state[0]));
        match (at == self.models.small, certain) {
            (true, false) => self.models.large,
            (false, true) => self.models.small,
            (true, true) | (false, false) => at,
        }
    }
}

tokenrouter_sdk::export!(RStitch);

#[cfg(test)]
mod tests;
