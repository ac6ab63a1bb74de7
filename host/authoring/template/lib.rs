//! POLICY-NAME: asks the large model where the small one is unsure.
//!
//! The whole policy is this file. The host calls it after every token with what it asked for (its signals), and it names
//! the model that goes on.

// Policies, plans, options and all types of the contract. The contract itself is wit/policy.wit.
use tokenrouter_sdk::prelude::*;

/// An option: set by the deployment file or `--plugin-config limit=0.8`, and, being `per_request`, also by one request. Name,
/// type and range are checked for you, and `tokenrouter-host policy inspect` shows the summary.
const LIMIT: Number = Number {
    name: "limit",
    summary: "ask the large model below this probability, 0 to 1",
    default: 0.9,
    min: 0.0,
    max: 1.0,
    per_request: true,
};

/// What `init` computes from the options. It never changes afterwards: what a policy wants to remember of a request goes into
/// the request's own words of state.
pub struct Unsure {
    plan: Plan,
    models: Pair,
    limit: f64,
}

impl Policy for Unsure {
    const ABOUT: About = About {
        name: "POLICY-NAME",
        version: env!("CARGO_PKG_VERSION"),
        summary: "Asks the large model for every token that the small one is not sure of",
        // SMALL and LARGE let a deployment of three models say which two are meant.
        options: &[&LIMIT, &SMALL, &LARGE],
    };

    fn init(deployment: &Deployment, options: &Options) -> Result<Self, String> {
        let models = Pair::read(deployment, options)?;
        // For each model: the signals that `route` gets after its steps, in this order. Here one number at the small model and
        // none at the large one. `Signal` lists what there is: entropies, top logits, heads, draws, …
        let mut signals = vec![Vec::new(); deployment.models.len()];
        signals[models.small as usize] = vec![Signal::MaxProbability];
        Ok(Self {
            // Requests start at the small model and carry one word of state.
            plan: plan(models.small, 1, signals),
            models,
            limit: options.get(&LIMIT),
        })
    }

    fn plan(&self) -> &Plan {
        &self.plan
    }

    /// A new request. Its own limit, or else ours, is kept in its state.
    fn admit(&self, _request: &Request, options: &Options) -> Result<Admission, String> {
        let limit = options.given(&LIMIT).unwrap_or(self.limit);
        Ok(Admission {
            model: self.models.small,
            state: vec![limit.to_bits()],
        })
    }

    /// After every step, for every request: who goes on. Naming `at` itself stays, and the candidate is part of the answer.
    fn route(&self, at: ModelIndex, row: Row<'_>) -> ModelIndex {
        if at != self.models.small {
            // The large model has written one token; that will do.
            return self.models.small;
        }
        let limit = f64::from_bits(row.state[0]);
        let probability = f64::from(row.signals[0]);
        if probability < limit { self.models.large } else { at }
    }

    // `send` and `receive` have defaults: what the entry model (the small one) was unsure of is discarded, and the large one
    // writes that token itself; what the large one wrote is kept; the state travels as it is.
}

tokenrouter_sdk::export!(Unsure);

/// Native tests: nothing here needs WebAssembly.
#[cfg(test)]
mod tests {
    use tokenrouter_sdk::testing::{admit, init, number, route};

    use super::*;

    #[test]
    fn below_its_limit_a_token_goes_to_the_large_model() {
        let policy: Unsure = init(&["small", "large"], vec![number("limit", 0.5)]).unwrap();
        let state = admit(&policy, vec![]).unwrap().state;
        // Three rows of a step of model 0, one signal each.
        let decisions = route(&policy, 0, &[&[0.49], &[0.5], &[0.99]], &state);
        assert_eq!(decisions.destinations, [1, 0, 0]);
        // And the large model, 1, hands back.
        assert_eq!(route(&policy, 1, &[&[]], &state).destinations, [0]);
    }

    #[test]
    fn a_request_may_bring_its_own_limit() {
        let policy: Unsure = init(&["small", "large"], vec![]).unwrap();
        let state = admit(&policy, vec![number("limit", 0.0)]).unwrap().state;
        assert_eq!(route(&policy, 0, &[&[0.01]], &state).destinations, [0]);
        assert!(admit(&policy, vec![number("limit", 1.5)]).is_err());
    }
}
