//! Co-LLM (arXiv 2403.03870): the small model was trained together with a head that says where to defer. Above the
//! threshold the large model writes the token instead, and hands back after it.
//!
//! A probability equal to the threshold stays. One that is not a number hands over.
//!
//! State: two words, the threshold and the number of prompt tokens.

mod warm_up;

use tokenrouter_sdk::prelude::*;
use warm_up::{WARM_UP, WARM_UP_TOKENS, WarmUp};

const THRESHOLD: Number = Number {
    name: "threshold",
    summary: "probability to defer above which a token is handed over, 0 to 1; found by search for each task, 0.15 on \
              GSM8K",
    default: 0.15,
    min: 0.0,
    max: 1.0,
    per_request: true,
};

const HEAD: Text = Text {
    name: "head",
    summary: "name of the head that gives the probability to defer",
    default: "co-llm",
    per_request: false,
};

/// The policy.
pub struct CoLlm {
    plan: Plan,
    models: Pair,
    threshold: Threshold,
    warm_up: WarmUp,
}

impl Policy for CoLlm {
    const ABOUT: About = About {
        name: "co-llm",
        version: env!("CARGO_PKG_VERSION"),
        summary: "Hands one token to the large model where the small one was trained to defer",
        options: &[&THRESHOLD, &WARM_UP, &WARM_UP_TOKENS, &HEAD, &SMALL, &LARGE],
    };

    fn init(deployment: &Deployment, options: &Options) -> Result<Self, String> {
        let models = Pair::read(deployment, options)?;
        let signals = vec![head(deployment, &HEAD, options)?, Signal::Position];
        Ok(Self {
            plan: models.plan(deployment, 2, signals),
            models,
            threshold: Threshold::read(&THRESHOLD, options),
            warm_up: WarmUp::read(options)?,
        })
    }

    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn admit(&self, request: &Request, options: &Options) -> Result<Admission, String> {
        Ok(Admission {
            model: self.models.small,
            state: vec![self.threshold.admit(options)?, request.prompt.len() as StateWord],
        })
    }

    fn route(&self, at: ModelIndex, row: Row<'_>) -> ModelIndex {
        self.models.one_token(at, || {
            let (defer, position) = (row.signals[0], row.signals[1]);
            let written = (position as StateWord).saturating_sub(row.state[1]);
            let threshold = self.warm_up.threshold(Threshold::of(row.state[0]), written);
            defer > threshold || defer.is_nan()
        })
    }
}

tokenrouter_sdk::export!(CoLlm);

#[cfg(test)]
mod tests;
