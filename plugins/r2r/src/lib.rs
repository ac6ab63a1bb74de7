//! R2R, "Roads to Rome" (arXiv 2505.21600): the small model writes, and where its token would send the reasoning down
//! another path than the large model's, the large one writes that token instead and hands back.
//!
//! What foresees that is, as published, a trained head that sees the small model's hidden state, its largest logits and
//! the token it picked (`signal = "neural"`), or without training the entropy of its distribution or the aleatoric
//! uncertainty of its largest logits.
//!
//! A measure that reaches the threshold hands over, also one equal to it; so does one that is not a number.
//!
//! State: one word, the threshold.

mod digamma;
mod measure;

use measure::{HEAD, Measure, SIGNAL, THRESHOLD};
use tokenrouter_sdk::prelude::*;

/// The policy.
pub struct R2r {
    plan: Plan,
    models: Pair,
    measure: Measure,
    threshold: Threshold,
}

impl Policy for R2r {
    const ABOUT: About = About {
        name: "r2r",
        version: env!("CARGO_PKG_VERSION"),
        summary: "Hands one token to the large model where the small one's would change the course of the answer",
        options: &[&THRESHOLD, &SIGNAL, &HEAD, &SMALL, &LARGE],
    };

    fn init(deployment: &Deployment, options: &Options) -> Result<Self, String> {
        let models = Pair::read(deployment, options)?;
        let measure = Measure::read(options)?;
        let signal = measure.signal(deployment, models.small, options)?;
        Ok(Self {
            plan: models.plan(deployment, 1, vec![signal]),
            models,
            measure,
            threshold: measure.threshold(options)?,
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
        self.models.one_token(at, || {
            let value = self.measure.value(row.signals);
            value >= Threshold::of(row.state[0]) || value.is_nan()
        })
    }
}

tokenrouter_sdk::export!(R2r);

#[cfg(test)]
mod tests;
