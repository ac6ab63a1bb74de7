//! The large model opens the answer, the small one goes on. `docs/write-a-policy.md` explains it line by line.
//!
//! State: one word, how many tokens the large model has still to write.

use tokenrouter_sdk::prelude::*;

const TOKENS: Number = Number {
    name: "tokens",
    summary: "tokens of the answer that the large model writes first, 0 to 1000000",
    default: 16.0,
    min: 0.0,
    max: 1e6,
    per_request: true,
};

/// The policy.
pub struct Opening {
    plan: Plan,
    models: Pair,
    tokens: f64,
}

impl Policy for Opening {
    const ABOUT: About = About {
        name: "opening",
        version: env!("CARGO_PKG_VERSION"),
        summary: "The large model opens the answer, the small one goes on",
        options: &[&TOKENS, &SMALL, &LARGE],
    };

    fn init(deployment: &Deployment, options: &Options) -> Result<Self, String> {
        let models = Pair::read(deployment, options)?;
        let (plan, tokens) = (models.plan(deployment, 1, vec![]), options.get(&TOKENS));
        Ok(Self { plan, models, tokens })
    }

    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn admit(&self, _request: &Request, options: &Options) -> Result<Admission, String> {
        let left = options.given(&TOKENS).unwrap_or(self.tokens) as StateWord;
        let model = if left > 0 { self.models.large } else { self.models.small };
        Ok(Admission {
            model,
            state: vec![left],
        })
    }

    fn route(&self, at: ModelIndex, row: Row<'_>) -> ModelIndex {
        row.state[0] = row.state[0].saturating_sub(1);
        if row.state[0] > 0 { at } else { self.models.small }
    }
}

tokenrouter_sdk::export!(Opening);

#[cfg(test)]
mod tests {
    use tokenrouter_sdk::testing::{admit, init, number, route, send};

    use super::*;

    #[test]
    fn the_large_model_writes_as_many_tokens_as_it_is_given_and_keeps_them() {
        let policy: Opening = init(&["small", "large"], vec![number("tokens", 2.0)]).unwrap();
        let admission = admit(&policy, vec![]).unwrap();
        assert_eq!(admission.model, 1);
        let first = route(&policy, 1, &[&[]], &admission.state);
        assert_eq!(first.destinations, [1]);
        let second = route(&policy, 1, &[&[]], &first.state);
        assert_eq!(second.destinations, [0]);
        assert!(send(&policy, 1, 0, &second.state).keep_candidate);
        assert_eq!(route(&policy, 0, &[&[]], &second.state).destinations, [0]);
    }

    #[test]
    fn a_request_may_ask_for_none() {
        let policy: Opening = init(&["small", "large"], vec![]).unwrap();
        let admission = admit(&policy, vec![number("tokens", 0.0)]).unwrap();
        assert_eq!(admission.model, 0);
    }
}
