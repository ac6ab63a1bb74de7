//! What the operator lets requests set of a policy's options. The policy declares which of them a request may set and checks
//! their values; the deployment may narrow that.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value as Json, json};
use tokenrouter_policy::{OptionInfo, Setting, Value};

/// An option's bounds in requests, as the deployment file writes it.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "false, or { min = NUMBER, max = NUMBER }")]
pub enum RequestOption {
    /// `false`: no request may set it. `true`: any value that the policy takes.
    Allowed(bool),
    /// Numbers from `min` to `max`.
    Range(OptionRange),
}

/// Bounds of a number; one that is left out is none.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OptionRange {
    /// The least value.
    #[serde(default = "minus_infinity")]
    pub min: f64,
    /// The greatest value.
    #[serde(default = "infinity")]
    pub max: f64,
}

fn minus_infinity() -> f64 {
    f64::NEG_INFINITY
}

fn infinity() -> f64 {
    f64::INFINITY
}

/// What requests may set, by option. Options that are not named may be set as the policy allows.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct RequestOptions(BTreeMap<String, RequestOption>);

impl RequestOptions {
    /// Checks that the policy declares every option that is named, and for requests.
    ///
    /// # Errors
    /// Which key is wrong, and what would be right.
    pub fn check(&self, declared: &[OptionInfo]) -> Result<(), String> {
        for (name, option) in &self.0 {
            let per_request = |info: &&OptionInfo| info.per_request;
            if !declared.iter().filter(per_request).any(|info| info.name == *name) {
                let names: Vec<&str> = declared
                    .iter()
                    .filter(per_request)
                    .map(|info| info.name.as_str())
                    .collect();
                let there_are = if names.is_empty() {
                    "none".to_owned()
                } else {
                    names.join(", ")
                };
                return Err(format!(
                    "policy.request_options.{name}: the policy lets no request set that; it lets them set {there_are}"
                ));
            }
            if let RequestOption::Range(range) = option
                && (range.min.is_nan() || range.max.is_nan() || range.min > range.max)
            {
                let OptionRange { min, max } = range;
                return Err(format!(
                    "policy.request_options.{name}: min is {min} and max is {max}; min must not exceed max"
                ));
            }
        }
        Ok(())
    }

    /// By option: whether requests may set it, or the bounds of a number, null for none.
    pub fn to_json(&self) -> Json {
        let finite = |bound: f64| bound.is_finite().then_some(bound);
        let options = self.0.iter().map(|(name, option)| {
            let allowed = match option {
                RequestOption::Allowed(allowed) => json!(allowed),
                RequestOption::Range(OptionRange { min, max }) => json!({ "min": finite(*min), "max": finite(*max) }),
            };
            (name.clone(), allowed)
        });
        Json::Object(options.collect())
    }

    /// Whether a request may set an option to a value.
    ///
    /// # Errors
    /// The sentence that follows the option's name.
    pub fn allow(&self, setting: &Setting) -> Result<(), String> {
        match self.0.get(&setting.name) {
            None | Some(RequestOption::Allowed(true)) => Ok(()),
            Some(RequestOption::Allowed(false)) => Err("is set by the operator; requests may not change it".to_owned()),
            Some(RequestOption::Range(OptionRange { min, max })) => match &setting.value {
                Value::Number(number) if (*min..=*max).contains(number) => Ok(()),
                Value::Number(number) => Err(format!("is {number}; the operator allows {min} to {max}")),
                _ => Err(format!("must be a number; the operator allows {min} to {max}")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> RequestOptions {
        toml::from_str(text).expect("request options")
    }

    fn declared() -> Vec<OptionInfo> {
        ["threshold", "unit"]
            .map(|name| OptionInfo {
                name: name.to_owned(),
                summary: String::new(),
                default: Value::Number(0.0),
                per_request: name == "threshold",
            })
            .to_vec()
    }

    #[test]
    fn requests_stay_within_what_the_operator_set() {
        let allow = |text: &str, value: Value| {
            options(text).allow(&Setting {
                name: "threshold".to_owned(),
                value,
            })
        };
        for (text, value, refusal) in [
            ("", Value::Number(9.0), None),
            ("threshold = true", Value::Number(9.0), None),
            ("unit = false", Value::Number(9.0), None),
            (
                "threshold = false",
                Value::Number(0.1),
                Some("is set by the operator; requests may not change it"),
            ),
            ("threshold = { min = 0.1, max = 0.5 }", Value::Number(0.5), None),
            ("threshold = { min = 0.1 }", Value::Number(9.0), None),
            (
                "threshold = { min = 0.1, max = 0.5 }",
                Value::Number(0.6),
                Some("is 0.6; the operator allows 0.1 to 0.5"),
            ),
            (
                "threshold = { max = 0.5 }",
                Value::Text("0.1".to_owned()),
                Some("must be a number; the operator allows -inf to 0.5"),
            ),
        ] {
            assert_eq!(allow(text, value).err().as_deref(), refusal, "{text}");
        }
    }

    #[test]
    fn clients_are_told_the_bounds() {
        let told = options("threshold = { min = 0.1 }\nunit = false\nother = true").to_json();
        let expected = json!({ "other": true, "threshold": { "min": 0.1, "max": null }, "unit": false });
        assert_eq!(told, expected);
    }

    #[test]
    fn options_that_the_policy_does_not_declare_for_requests_are_errors() {
        for (text, what) in [
            ("threshold = { max = 1 }", None),
            (
                "unit = false",
                Some("policy.request_options.unit: the policy lets no request set that; it lets them set threshold"),
            ),
            (
                "threshold = { min = 1, max = 0 }",
                Some("policy.request_options.threshold: min is 1 and max is 0; min must not exceed max"),
            ),
        ] {
            assert_eq!(options(text).check(&declared()).err().as_deref(), what, "{text}");
        }
    }
}
