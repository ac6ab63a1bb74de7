//! CITER (arXiv 2502.01976): a trained head scores how well the small model does at this position. Where the score is
//! below the threshold the large model writes the token instead, and hands back after it.
//!
//! A score equal to the threshold stays. A score that is not a number hands over.
//!
//! State: one word, the threshold.

use tokenrouter_sdk::prelude::*;

const THRESHOLD: Number = Number {
    name: "threshold",
    summary: "score below which a token is handed over, 0 to 1; 0.95 in the authors' code, 0.98 as retrained for Qwen3",
    default: 0.98,
    min: 0.0,
    max: 1.0,
    per_request: true,
};

const HEAD: Text = Text {
    name: "head",
    summary: "name of the head that scores the small model, 0 (hand over) to 1 (good enough)",
    default: "citer",
    per_request: false,
};

/// The policy.
pub struct Citer {
    plan: Plan,
    models: Pair,
    threshold: Threshold,
}

impl Policy for Citer {
    const ABOUT: About = About {
        name: "citer",
        version: env!("CARGO_PKG_VERSION"),
        summary: "Hands one token to the large model where a head finds the small one not good enough",
        options: &[&THRESHOLD, &HEAD, &SMALL, &LARGE],
    };

    fn init(deployment: &Deployment, options: &Options) -> Result<Self, String> {
        let models = Pair::read(deployment, options)?;
        let score = head(deployment, &HEAD, options)?;
        Ok(Self {
            plan: models.plan(deployment, 1, vec![score]),
            models,
            threshold: Threshold::read(&THRESHOLD, options),
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
            let score = row.signals[0];
            score < Threshold::of(row.state[0]) || score.is_nan()
        })
    }
}

tokenrouter_sdk::export!(Citer);

#[cfg(test)]
mod tests;
