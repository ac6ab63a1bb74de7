//! A list of launch rules. The thresholds of one rule are separated by commas too, so a number belongs to the rule before it.

use std::str::FromStr;

use tokenrouter_host::deployment::{Launch, LaunchError};

/// Rules in the order they were given, at least one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RuleList(pub(super) Vec<Launch>);

impl FromStr for RuleList {
    type Err = LaunchError;

    fn from_str(text: &str) -> Result<Self, LaunchError> {
        let mut rules: Vec<String> = Vec::new();
        for item in text.split(',') {
            let goes_on = !item.trim().starts_with(|first: char| first.is_ascii_alphabetic());
            match rules.last_mut() {
                Some(rule) if goes_on => {
                    rule.push(',');
                    rule.push_str(item);
                }
                _ => rules.push(item.to_owned()),
            }
        }
        rules
            .iter()
            .map(|rule| rule.trim().parse())
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_belong_to_the_rule_before_them() {
        let list: RuleList = "eager,threshold:1,3, lookahead,threshold,threshold:2,step-sync"
            .parse()
            .unwrap();
        let names: Vec<String> = list.0.iter().map(Launch::to_string).collect();
        assert_eq!(
            names,
            [
                "eager",
                "threshold:1,3",
                "lookahead",
                "threshold",
                "threshold:2",
                "step-sync"
            ]
        );
    }

    #[test]
    fn what_is_no_rule_is_named() {
        let error = |text: &str| text.parse::<RuleList>().unwrap_err().to_string();
        assert!(error("eager,fast").starts_with("\"fast\" is not a launch rule"));
        assert!(error("eager,3").starts_with("\"eager,3\" is not a launch rule"));
        assert!(error("threshold:1,").starts_with("\"\" is not a threshold"));
        assert!(error("").starts_with("\"\" is not a launch rule"));
    }
}
