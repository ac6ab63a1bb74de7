//! Random routing: after every step of the small model the large one writes the position with a given
//! probability, and hands back after that one token.
//!
//! It needs nothing of the models, so it shows what another policy's signal is worth at the same share of the large
//! model's tokens, and it sets the routing probability exactly when a scheduler is measured.
//!
//! State: one word, the share as the bits of an `f64`.

use tokenrouter_sdk::prelude::*;

const SHARE: Number = Number {
    name: "share",
    summary: "probability that a step of the small model is handed to the large one, 0 to 1",
    default: 0.5,
    min: 0.0,
    max: 1.0,
    per_request: true,
};

/// The policy.
pub struct Random {
    plan: Plan,
    models: Pair,
    share: f64,
}

impl Policy for Random {
    const ABOUT: About = About {
        name: "random",
        version: env!("CARGO_PKG_VERSION"),
        summary: "Hands one token to the large model at random, with a given probability",
        options: &[&SHARE, &SMALL, &LARGE],
    };

    fn init(deployment: &Deployment, options: &Options) -> Result<Self, String> {
        let models = Pair::read(deployment, options)?;
        Ok(Self {
            plan: models.plan(deployment, 1, vec![Signal::Uniform(0)]),
            models,
            share: options.get(&SHARE),
        })
    }

    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn admit(&self, _request: &Request, options: &Options) -> Result<Admission, String> {
        let share = options.given(&SHARE).unwrap_or(self.share);
        Ok(Admission {
            model: self.models.small,
            state: vec![share.to_bits()],
        })
    }

    fn route(&self, at: ModelIndex, row: Row<'_>) -> ModelIndex {
        // Strictly below: draws are in [0, 1), so a share of 0 never hands over and a share of 1 always does.
        self.models
            .one_token(at, || f64::from(row.signals[0]) < f64::from_bits(row.state[0]))
    }
}

tokenrouter_sdk::export!(Random);

#[cfg(test)]
mod tests;
