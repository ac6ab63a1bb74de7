//! ME, a mixture-model-like ensemble (arXiv 2605.00419): the writer of every token is drawn by weight. With plain
//! sampling a token's distribution is the weighted mean of the models' distributions, but every token costs the
//! step of one model only.
//!
//! Every token is committed. The first token's writer is drawn at admission, every later one after the token before it,
//! by draws that depend on the request's seed and the position alone.
//!
//! State: none.

use tokenrouter_sdk::prelude::*;

const WEIGHTS: Numbers = Numbers {
    name: "weights",
    summary: "probability of each model to write a token, in the deployment's order, with sum 1; 0 leaves a model out; \
              empty: 0.5, 0.3, 0.2 for three models (as published), else all alike",
    default: &[],
    min: 0.0,
    max: 1.0,
    per_request: false,
};

const PUBLISHED: [f64; 3] = [0.5, 0.3, 0.2];

/// How far the sum of the weights may be from 1: what people write with a few decimals.
const SUM_ERROR_MAX: f64 = 1e-6;

/// The policy.
pub struct Me {
    plan: Plan,
    /// Sums of the weights up to and with each model; the last is 1.
    cumulative: Vec<f64>,
}

impl Policy for Me {
    const ABOUT: About = About {
        name: "me",
        version: env!("CARGO_PKG_VERSION"),
        summary: "Draws the writer of every token by weight, so that two or more models mix their distributions",
        options: &[&WEIGHTS],
    };

    fn init(deployment: &Deployment, options: &Options) -> Result<Self, String> {
        check_models(deployment, 2)?;
        let models = deployment.models.len();
        let cumulative = cumulative(weights(models, options)?)?;
        let signals = vec![vec![Signal::Uniform(0)]; models];
        Ok(Self {
            plan: plan(draw(&cumulative, 0.0), 0, signals),
            cumulative,
        })
    }

    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn admit(&self, request: &Request, _options: &Options) -> Result<Admission, String> {
        Ok(Admission {
            model: draw(&self.cumulative, request.uniform),
            state: Vec::new(),
        })
    }

    fn route(&self, _at: ModelIndex, row: Row<'_>) -> ModelIndex {
        draw(&self.cumulative, row.signals[0])
    }

    /// Nobody is in doubt: what was written stays.
    fn send(&self, _at: ModelIndex, _to: ModelIndex, step: Step) -> Parcel {
        Parcel {
            keep_candidate: true,
            state: step.state,
        }
    }
}

/// The weights as configured, one for every model.
fn weights(models: usize, options: &Options) -> Result<Vec<f64>, String> {
    let given = options.get(&WEIGHTS);
    if given.len() == models {
        return Ok(given);
    }
    match (given.len(), models) {
        (0, 3) => Ok(PUBLISHED.to_vec()),
        (0, _) => Ok(vec![1.0 / models as f64; models]),
        (weights, _) => Err(format!(
            "option \"weights\" has {weights} numbers; the deployment has {models} models, and each needs one"
        )),
    }
}

/// Running sums, scaled so that the last is exactly 1.
fn cumulative(weights: Vec<f64>) -> Result<Vec<f64>, String> {
    let sum: f64 = weights.iter().sum();
    if (sum - 1.0).abs() > SUM_ERROR_MAX {
        return Err(format!(
            "the numbers of option \"weights\" have sum {}; it must be 1",
            decimal(sum)
        ));
    }
    let mut reached = 0.0;
    let sums = weights.into_iter().map(|weight| {
        reached += weight;
        reached / sum
    });
    Ok(sums.collect())
}

/// The model that a draw in [0, 1) falls to: the first whose sum is above it. So a model of weight 0 is never drawn.
fn draw(cumulative: &[f64], uniform: f32) -> ModelIndex {
    let below = cumulative.iter().take_while(|sum| **sum <= f64::from(uniform)).count();
    // A draw of 1 or more is against the contract; the last model takes it.
    below.min(cumulative.len() - 1) as ModelIndex
}

tokenrouter_sdk::export!(Me);

#[cfg(test)]
mod tests;
