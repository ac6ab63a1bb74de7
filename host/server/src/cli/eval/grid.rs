//! What is to be measured: policies with their options, of which one may have several values.

use std::fmt;
use std::str::FromStr;

use tokenrouter_host::deployment::parse_setting;
use tokenrouter_policy::Setting;

/// A policy with fixed options and perhaps one that takes several values.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PolicySpec {
    /// Its name, or a .wasm file.
    pub(super) policy: String,
    /// Options that stay.
    pub(super) fixed: Vec<Setting>,
    /// The option that varies, and its values.
    pub(super) varied: Option<(String, Vec<f64>)>,
}

impl PolicySpec {
    /// A policy with one option that varies.
    pub(super) fn varying(policy: &str, option: &str, values: Vec<f64>) -> Self {
        Self {
            policy: policy.to_owned(),
            fixed: Vec::new(),
            varied: Some((option.to_owned(), values)),
        }
    }

    /// Every value of the option that varies, with its name; one point without such an option.
    pub(super) fn points(&self) -> Vec<Option<(String, f64)>> {
        match &self.varied {
            None => vec![None],
            Some((name, values)) => values.iter().map(|value| Some((name.clone(), *value))).collect(),
        }
    }
}

impl FromStr for PolicySpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (policy, options) = match text.split_once(':') {
            Some((policy, options)) => (policy, options.split(';').collect()),
            None => (text, Vec::new()),
        };
        if policy.is_empty() {
            return Err("the policy's name is empty; write NAME or NAME:OPTION=VALUE".to_owned());
        }
        let mut spec = Self {
            policy: policy.to_owned(),
            fixed: Vec::new(),
            varied: None,
        };
        for option in options {
            match several(option)? {
                None => spec.fixed.push(parse_setting(option)?),
                Some(varied) => {
                    if let Some((first, _)) = spec.varied.replace(varied) {
                        return Err(format!("{first} has several values already; only one option may vary"));
                    }
                }
            }
        }
        Ok(spec)
    }
}

/// `NAME=1,2`: an option with several numbers.
fn several(option: &str) -> Result<Option<(String, Vec<f64>)>, String> {
    let Some((name, values)) = option.split_once('=').filter(|(_, values)| values.contains(',')) else {
        return Ok(None);
    };
    // A list in brackets is one value.
    if values.trim_start().starts_with('[') {
        return Ok(None);
    }
    numbers(values).map(|values| Some((name.trim().to_owned(), values)))
}

/// Numbers separated by commas.
pub(super) fn numbers(text: &str) -> Result<Vec<f64>, String> {
    let number = |item: &str| {
        let found = item.trim().parse().ok().filter(|value: &f64| value.is_finite());
        found.ok_or_else(|| format!("\"{item}\" is not a number; write numbers separated by commas, as in 0.1,0.3"))
    };
    text.split(',').map(number).collect()
}

impl fmt::Display for PolicySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_option_may_have_several_values() {
        let spec: PolicySpec = "r-stitch:unit=nats;threshold=0.1, 0.2".parse().unwrap();
        assert_eq!(spec.policy, "r-stitch");
        assert_eq!(spec.fixed, [parse_setting("unit=nats").unwrap()]);
        assert_eq!(spec.varied, Some(("threshold".to_owned(), vec![0.1, 0.2])));
        assert_eq!(spec.points().len(), 2);

        let plain: PolicySpec = "me:weights=[1,2]".parse().unwrap();
        assert_eq!((plain.fixed.len(), plain.points()), (1, vec![None]));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (text, expected) in [
            ("", "the policy's name is empty"),
            ("a:x=1,2;y=1,2", "x has several values already"),
            ("a:x=1,b", "\"b\" is not a number"),
        ] {
            let error = text.parse::<PolicySpec>().unwrap_err();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
