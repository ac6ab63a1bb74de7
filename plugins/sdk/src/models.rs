//! Choosing models by name, for policies that route between a small and a large one.

use crate::{Deployment, ModelIndex, Options, Plan, Signal, Text, plan};

/// Option `small`: which model writes by default.
pub const SMALL: Text = Text {
    name: "small",
    summary: "name of the small model; empty: the first",
    default: "",
    per_request: false,
};

/// Option `large`: which model helps.
pub const LARGE: Text = Text {
    name: "large",
    summary: "name of the large model; empty: the last",
    default: "",
    per_request: false,
};

/// A small and a large model, two different ones of a deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The model that writes by default.
    pub small: ModelIndex,
    /// The model that helps.
    pub large: ModelIndex,
}

impl Pair {
    /// The pair that the options [`SMALL`] and [`LARGE`] name. The policy must declare both.
    ///
    /// # Errors
    /// If the deployment has one model only, a name is not there, or both are the same model.
    pub fn read(deployment: &Deployment, options: &Options) -> Result<Self, String> {
        check_models(deployment, 2)?;
        let last = deployment.models.len() as ModelIndex - 1;
        let small = by_name(deployment, &SMALL, options, 0)?;
        let large = by_name(deployment, &LARGE, options, last)?;
        if small == large {
            return Err(format!(
                "options \"small\" and \"large\" both mean model \"{}\"; name two different models of {}",
                deployment.models[small as usize].name,
                names(deployment)
            ));
        }
        Ok(Self { small, large })
    }

    /// A plan that enters at the small model, gets `signals` there, and none anywhere else.
    pub fn plan(self, deployment: &Deployment, state_words: u32, signals: Vec<Signal>) -> Plan {
        let mut by_model = vec![Vec::new(); deployment.models.len()];
        by_model[self.small as usize] = signals;
        plan(self.small, state_words, by_model)
    }

    /// Who goes on where the large model helps out with single tokens: the small model hands over when a token is
    /// `wanted`, every other model hands back after the one it wrote. `wanted` is asked at the small model alone.
    ///
    /// With the default `send` the small model's candidate is discarded and the helper's kept, so every visit to the
    /// large model commits exactly one token.
    pub fn one_token(self, at: ModelIndex, wanted: impl FnOnce() -> bool) -> ModelIndex {
        if at == self.small && wanted() {
            self.large
        } else {
            self.small
        }
    }
}

/// Refuses a deployment that has fewer than `least` models.
///
/// # Errors
/// Says how many there are and how many are needed.
pub fn check_models(deployment: &Deployment, least: usize) -> Result<(), String> {
    if deployment.models.len() >= least {
        return Ok(());
    }
    let found = match deployment.models.as_slice() {
        [] => "no model".to_owned(),
        [only] => format!("one model, \"{}\"", only.name),
        several => format!("{} models", several.len()),
    };
    Err(format!(
        "deployment \"{}\" has {found}; this policy needs at least {least}",
        deployment.name
    ))
}

fn by_name(
    deployment: &Deployment,
    option: &Text,
    options: &Options,
    default: ModelIndex,
) -> Result<ModelIndex, String> {
    let name = options.get(option);
    if name.is_empty() {
        return Ok(default);
    }
    match deployment.models.iter().position(|model| model.name == name) {
        Some(index) => Ok(index as ModelIndex),
        None => Err(format!(
            "option \"{}\": the deployment has no model \"{name}\"; its models are {}",
            option.name,
            names(deployment)
        )),
    }
}

fn names(deployment: &Deployment) -> String {
    let names: Vec<String> = deployment
        .models
        .iter()
        .map(|model| format!("\"{}\"", model.name))
        .collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Setting;
    use crate::testing::{deployment, text};

    fn pair(models: &[&str], settings: Vec<Setting>) -> Result<Pair, String> {
        Pair::read(&deployment(models), &Options::read(&[&SMALL, &LARGE], settings)?)
    }

    #[test]
    fn the_first_and_the_last_model_are_the_pair_unless_named() {
        assert_eq!(pair(&["a", "b", "c"], vec![]), Ok(Pair { small: 0, large: 2 }));
        assert_eq!(
            pair(&["a", "b", "c"], vec![text("large", "b")]),
            Ok(Pair { small: 0, large: 1 })
        );
        assert_eq!(
            pair(&["a", "b"], vec![text("small", "b"), text("large", "a")]),
            Ok(Pair { small: 1, large: 0 })
        );
    }

    #[test]
    fn signals_are_asked_for_at_the_small_model_alone() {
        let pair = Pair { small: 1, large: 0 };
        assert_eq!(
            pair.plan(&deployment(&["a", "b", "c"]), 2, vec![Signal::Entropy]),
            Plan {
                entry: 1,
                state_words: 2,
                signals: vec![vec![], vec![Signal::Entropy], vec![]],
                texts: false
            }
        );
    }

    #[test]
    fn one_token_of_help_is_followed_by_the_way_back() {
        let pair = Pair { small: 1, large: 0 };
        assert_eq!(pair.one_token(1, || true), 0);
        assert_eq!(pair.one_token(1, || false), 1);
        for helper in [0, 2] {
            assert_eq!(pair.one_token(helper, || panic!("asked at a helper")), 1);
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let refusal = pair(&["a", "b"], vec![text("large", "d")]).unwrap_err();
        assert_eq!(
            refusal,
            "option \"large\": the deployment has no model \"d\"; its models are \"a\", \"b\""
        );
    }

    #[test]
    fn one_model_for_both_is_refused() {
        let refusal = pair(&["a", "b"], vec![text("small", "b")]).unwrap_err();
        assert!(refusal.contains("both mean model \"b\""), "{refusal}");
    }
}
