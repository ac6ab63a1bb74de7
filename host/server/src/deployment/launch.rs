//! Launch rules as text: `eager`, `threshold`, `threshold:1,4`, `lookahead`, `step-sync`, `model-sync`.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use tokenrouter_core::ahead::{NotOptimistic, Optimistic};
use tokenrouter_engine::{LaunchRule, ThresholdTable};

/// A launch rule that can be read and written.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub struct Launch(pub LaunchRule);

/// A setting of optimistic handoff that can be read: `off`, `auto`, `window:4`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct OptimisticSetting(pub Optimistic);

impl TryFrom<String> for OptimisticSetting {
    type Error = NotOptimistic;

    fn try_from(text: String) -> Result<Self, NotOptimistic> {
        text.parse().map(Self)
    }
}

/// A text that is no launch rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// No rule of that name.
    #[error(
        "\"{0}\" is not a launch rule; they are eager, threshold, threshold:B0,B1,..., lookahead, step-sync and model-sync"
    )]
    Unknown(String),
    /// A threshold that is no number of requests.
    #[error("\"{0}\" is not a threshold; write one whole number of at least 1 for each model, as in threshold:1,4")]
    Threshold(String),
}

impl FromStr for Launch {
    type Err = LaunchError;

    fn from_str(text: &str) -> Result<Self, LaunchError> {
        Ok(Self(match text.split_once(':') {
            None if text == "eager" => LaunchRule::Eager,
            None if text == "lookahead" => LaunchRule::Lookahead,
            None if text == "step-sync" => LaunchRule::StepSync,
            None if text == "model-sync" => LaunchRule::ModelSync,
            None if text == "threshold" => LaunchRule::Planned(ThresholdTable::default()),
            Some(("threshold", list)) => {
                LaunchRule::Threshold(list.split(',').map(threshold).collect::<Result<_, _>>()?)
            }
            _ => return Err(LaunchError::Unknown(text.to_owned())),
        }))
    }
}

fn threshold(text: &str) -> Result<u32, LaunchError> {
    match text.trim().parse() {
        Ok(requests) if requests >= 1 => Ok(requests),
        _ => Err(LaunchError::Threshold(text.trim().to_owned())),
    }
}

impl TryFrom<String> for Launch {
    type Error = LaunchError;

    fn try_from(text: String) -> Result<Self, LaunchError> {
        text.parse()
    }
}

impl Default for Launch {
    fn default() -> Self {
        // Needs no tuning, and in simulation is within 2 % of the best fixed thresholds or above them.
        Self(LaunchRule::Lookahead)
    }
}

impl fmt::Display for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            LaunchRule::Eager => f.write_str("eager"),
            LaunchRule::Threshold(thresholds) => {
                let list: Vec<String> = thresholds.iter().map(u32::to_string).collect();
                write!(f, "threshold:{}", list.join(","))
            }
            LaunchRule::Planned(_) => f.write_str("threshold"),
            LaunchRule::Lookahead => f.write_str("lookahead"),
            LaunchRule::StepSync => f.write_str("step-sync"),
            LaunchRule::ModelSync => f.write_str("model-sync"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_read_back_as_they_are_written() {
        for text in [
            "eager",
            "threshold",
            "threshold:1,4",
            "threshold:8",
            "threshold",
            "lookahead",
            "step-sync",
            "model-sync",
        ] {
            assert_eq!(text.parse::<Launch>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn settings_of_optimistic_handoff_are_read_and_refused() {
        let read = |text: &str| OptimisticSetting::try_from(text.to_owned());
        assert_eq!(read("window:4"), Ok(OptimisticSetting(Optimistic::Window(4))));
        assert_eq!(OptimisticSetting::default().0, Optimistic::Off);
        let error = read("on").unwrap_err().to_string();
        assert!(error.contains("say \"off\", \"auto\", or \"window:K\""), "{error}");
    }

    #[test]
    fn other_texts_are_refused_with_what_would_be_right() {
        for (text, part) in [
            ("fast", "\"fast\" is not a launch rule; they are eager,"),
            ("eager:1", "\"eager:1\" is not a launch rule"),
            (
                "threshold:1,0",
                "\"0\" is not a threshold; write one whole number of at least 1",
            ),
            ("threshold:1,", "\"\" is not a threshold"),
        ] {
            let error = text.parse::<Launch>().unwrap_err().to_string();
            assert!(error.starts_with(part), "{text}: {error}");
        }
    }
}
