//! Routing of whole requests: one model is chosen once and writes the whole answer. The baseline that token-wise routing
//! is compared with, as in RouteLLM (arXiv 2406.18665).
//!
//! What chooses (`mode`): a draw, so that the large model gets a fixed share; a score that the client computed and sends
//! with the request; or a head at the end of the prompt, where the small model has read all of it. A score that reaches
//! the threshold, or that is not a number, goes to the large model.
//!
//! A draw and a client's score choose at admission, so the other model never sees the request. The head's score is there
//! after the small model's first step, whose candidate is discarded if the large model is chosen.
//!
//! State: one word, the threshold with [`OPEN`] as long as nothing is chosen; 0 afterwards.

mod options;

use options::{HEAD, MODE, Mode, SCORE, SHARE, THRESHOLD};
use tokenrouter_sdk::prelude::*;

/// In the state: the head's score is to choose, at the next step.
const OPEN: StateWord = 1 << 32;

const CHOSEN: StateWord = 0;

/// The policy.
pub struct RequestLevel {
    plan: Plan,
    models: Pair,
    mode: Mode,
}

impl Policy for RequestLevel {
    const ABOUT: About = About {
        name: "request-level",
        version: env!("CARGO_PKG_VERSION"),
        summary: "Chooses one model for the whole answer: by a draw, a score from the client, or a head on the prompt",
        options: &[&MODE, &SHARE, &THRESHOLD, &SCORE, &HEAD, &SMALL, &LARGE],
    };

    fn init(deployment: &Deployment, options: &Options) -> Result<Self, String> {
        let models = Pair::read(deployment, options)?;
        let mode = Mode::read(options)?;
        let signals = match mode {
            Mode::Head(_) => vec![head(deployment, &HEAD, options)?],
            Mode::Share(_) | Mode::Score(_) => Vec::new(),
        };
        Ok(Self {
            plan: models.plan(deployment, 1, signals),
            models,
            mode,
        })
    }

    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn admit(&self, request: &Request, options: &Options) -> Result<Admission, String> {
        self.mode.check_request(options)?;
        let (large, state) = match &self.mode {
            Mode::Share(share) => {
                let share = options.given(&SHARE).unwrap_or(*share);
                (f64::from(request.uniform) < share, CHOSEN)
            }
            Mode::Score(threshold) => {
                let score = options
                    .given(&SCORE)
                    .ok_or("option \"score\" is missing; send the score of this prompt, 0 to 1, with the request")?;
                (score as f32 >= Threshold::of(threshold.admit(options)?), CHOSEN)
            }
            Mode::Head(threshold) => (false, threshold.admit(options)? | OPEN),
        };
        Ok(Admission {
            model: if large { self.models.large } else { self.models.small },
            state: vec![state],
        })
    }

    fn route(&self, at: ModelIndex, row: Row<'_>) -> ModelIndex {
        let state = core::mem::replace(&mut row.state[0], CHOSEN);
        if at != self.models.small || state == CHOSEN {
            return at;
        }
        let score = row.signals[0];
        if score >= Threshold::of(state) || score.is_nan() {
            self.models.large
        } else {
            at
        }
    }
}

tokenrouter_sdk::export!(RequestLevel);

#[cfg(test)]
mod tests;
