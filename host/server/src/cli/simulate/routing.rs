//! `--routing`: how two models hand over, beyond fixed probabilities.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context as _, anyhow, ensure};
use tokenrouter_planner::sim::SimRouting;

use crate::cli::workload::{self, Handover, probabilities};

/// A routing rule as it was written; a trace is read when it is needed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RoutingRule {
    Handback(Handover),
    Bursty {
        calm_p: f64,
        storm_p: f64,
        flip: f64,
    },
    Stretches {
        large_p: f64,
        small_tokens: u32,
        large_tokens: u32,
    },
    Trace(PathBuf),
}

impl FromStr for RoutingRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, values) = text.split_once(':').unwrap_or((text, ""));
        match name {
            "handback" => match values.parse()? {
                one @ Handover::OneToken { .. } => Ok(Self::Handback(one)),
                Handover::RStitch { .. } => Err("handback takes one probability, as in handback:0.35".to_owned()),
            },
            "bursty" => match probabilities(values)?.as_slice() {
                &[calm_p, storm_p, flip] => Ok(Self::Bursty { calm_p, storm_p, flip }),
                _ => Err("bursty takes CALM,STORM,FLIP, as in bursty:0.10,0.85,0.05".to_owned()),
            },
            "stretches" => match values.split(',').collect::<Vec<_>>().as_slice() {
                &[share, small, large] => {
                    let large_p = probabilities(share)?[0];
                    Ok(Self::Stretches {
                        large_p,
                        small_tokens: tokens(small)?,
                        large_tokens: tokens(large)?,
                    })
                }
                _ => Err("stretches takes P,S,L, as in stretches:0.2,40,60".to_owned()),
            },
            "trace" if values.is_empty() => Err("trace takes a file, as in trace:handovers.txt".to_owned()),
            "trace" => Ok(Self::Trace(PathBuf::from(values))),
            _ => Err(format!(
                "\"{text}\" is not a routing; write handback:P, bursty:CALM,STORM,FLIP, stretches:P,S,L or trace:FILE"
            )),
        }
    }
}

fn tokens(text: &str) -> Result<u32, String> {
    let found = text.trim().parse().ok().filter(|&tokens| tokens >= 1);
    found.ok_or_else(|| format!("\"{text}\" is not a number of tokens; write a whole number of at least 1"))
}

impl fmt::Display for RoutingRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handback(handover) => handover.fmt(f),
            Self::Bursty { calm_p, storm_p, flip } => {
                write!(
                    f,
                    "one-token hand-back in bursts, p = {calm_p} or {storm_p}, changing with {flip}"
                )
            }
            Self::Stretches {
                large_p,
                small_tokens,
                large_tokens,
            } => {
                write!(
                    f,
                    "stretches of {small_tokens} or, with p = {large_p}, {large_tokens} tokens"
                )
            }
            Self::Trace(path) => write!(f, "one-token hand-back as recorded in {}", path.display()),
        }
    }
}

impl RoutingRule {
    /// The simulator's rule.
    ///
    /// # Errors
    /// A trace that cannot be read or is none.
    pub(super) fn load(&self) -> anyhow::Result<SimRouting> {
        Ok(match self {
            Self::Handback(handover) => SimRouting::of(&handover.routing().map_err(|error| workload::explain(&error))?),
            &Self::Bursty { calm_p, storm_p, flip } => SimRouting::Bursty { calm_p, storm_p, flip },
            &Self::Stretches {
                large_p,
                small_tokens,
                large_tokens,
            } => SimRouting::Stretches {
                large_p,
                small_tokens,
                large_tokens,
            },
            Self::Trace(path) => SimRouting::Trace {
                hands_over: read_trace(path)?,
            },
        })
    }
}

fn read_trace(path: &Path) -> anyhow::Result<Vec<bool>> {
    let option = || format!("--routing trace:{}", path.display());
    let text = std::fs::read_to_string(path).with_context(option)?;
    trace(&text).with_context(option)
}

/// A trace's text: digits 0 and 1 with any space between them, or a JSON array of 0, 1, false and true.
fn trace(text: &str) -> anyhow::Result<Vec<bool>> {
    let what = "a trace is one 0 or 1 for each step of the small model, as plain digits or a JSON array";
    let text = text.trim();
    let hands_over: Vec<bool> = if text.starts_with('[') {
        let values: Vec<serde_json::Value> = serde_json::from_str(text).with_context(|| what)?;
        let entry = |value: &serde_json::Value| {
            let found = value
                .as_bool()
                .or(value.as_u64().filter(|&number| number <= 1).map(|number| number == 1));
            found.ok_or_else(|| anyhow!("found {value}; {what}"))
        };
        values.iter().map(entry).collect::<Result<_, _>>()?
    } else {
        let entry = |character: char| match character {
            '0' => Ok(false),
            '1' => Ok(true),
            other => Err(anyhow!("found {other:?}; {what}")),
        };
        text.chars()
            .filter(|character| !character.is_whitespace())
            .map(entry)
            .collect::<Result<_, _>>()?
    };
    ensure!(!hands_over.is_empty(), "empty; {what}");
    Ok(hands_over)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read() {
        for (text, rule) in [
            ("handback:0.35", RoutingRule::Handback(Handover::OneToken { p: 0.35 })),
            (
                "bursty:0.10,0.85,0.05",
                RoutingRule::Bursty {
                    calm_p: 0.10,
                    storm_p: 0.85,
                    flip: 0.05,
                },
            ),
            (
                "stretches:0.2,40,60",
                RoutingRule::Stretches {
                    large_p: 0.2,
                    small_tokens: 40,
                    large_tokens: 60,
                },
            ),
            ("trace:a:b.txt", RoutingRule::Trace(PathBuf::from("a:b.txt"))),
        ] {
            assert_eq!(text.parse(), Ok(rule));
        }
    }

    #[test]
    fn what_is_no_rule_is_told_what_would_be_right() {
        for (text, part) in [
            ("", "\"\" is not a routing; write handback:P, bursty:"),
            ("0.35", "\"0.35\" is not a routing; write handback:P"),
            ("handback:1.5", "\"1.5\" is not a probability"),
            ("handback:0.1,0.2", "handback takes one probability"),
            ("bursty:0.1", "bursty takes CALM,STORM,FLIP"),
            ("stretches:0.2,0,60", "\"0\" is not a number of tokens"),
            ("stretches:0.2", "stretches takes P,S,L"),
            ("trace:", "trace takes a file"),
        ] {
            let error = text.parse::<RoutingRule>().unwrap_err();
            assert!(error.starts_with(part), "{text}: {error}");
        }
    }

    #[test]
    fn traces_are_digits_or_json() {
        let expected = [false, true, true, false];
        for text in ["0110\n", "0 1\n1 0", "[0, 1, 1, 0]", "[false, true, 1, 0]"] {
            assert_eq!(trace(text).unwrap(), expected, "{text}");
        }
        for (text, part) in [
            ("", "empty; a trace is"),
            ("012", "found '2'; a trace is"),
            ("[2]", "found 2; a trace is"),
        ] {
            assert!(trace(text).unwrap_err().to_string().starts_with(part), "{text}");
        }
        assert!(trace("[0, 1").is_err());
    }
}
