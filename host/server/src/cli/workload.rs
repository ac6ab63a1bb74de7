//! What `plan` and `simulate` are told of a deployment: step latencies, routing probabilities, numbers of requests.

use std::fmt;
use std::str::FromStr;

use tokenrouter_planner::{Handback, Latencies, PlanError, REQUESTS_MAX, Routing, System};

/// Step latency of each model, in ms: `6.0,27.9`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Milliseconds(pub(super) Vec<f64>);

/// Latencies by name: the TokenRouter paper's Qwen3-0.6B and 32B (there p = 0.35 under R2R).
const PRESETS: [(&str, &[f64]); 1] = [("paper", &[6.0, 27.9])];

impl FromStr for Milliseconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((_, latencies)) = PRESETS.iter().find(|(name, _)| *name == text) {
            return Ok(Self(latencies.to_vec()));
        }
        let latency = |item: &str| {
            let found = item.trim().parse().ok().filter(|ms: &f64| ms.is_finite() && *ms > 0.0);
            found.ok_or_else(|| {
                format!("\"{item}\" is not a latency; write milliseconds for each model, as in 6.0,27.9, or the preset paper")
            })
        };
        text.split(',').map(latency).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list: Vec<String> = self.0.iter().map(f64::to_string).collect();
        f.write_str(&list.join(", "))
    }
}

/// How two models hand requests over: `P`, or `P,Q`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Handover {
    /// The large model writes one token and hands back, as under R2R, CITER, Co-LLM and random routing.
    OneToken {
        /// Probability that a step of the small model hands over.
        p: f64,
    },
    /// The large model goes on until it hands back with a probability of its own.
    RStitch {
        /// Probability that a step of the small model hands over.
        p: f64,
        /// Probability that a step of the large model hands back.
        q: f64,
    },
}

impl Handover {
    /// The planner's matrices.
    pub(super) fn routing(self) -> Result<Routing, PlanError> {
        match self {
            Self::OneToken { p } => Routing::one_token_handback(p),
            Self::RStitch { p, q } => Routing::r_stitch(p, q),
        }
    }
}

impl FromStr for Handover {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match probabilities(text)?.as_slice() {
            &[p] => Ok(Self::OneToken { p }),
            &[p, q] => Ok(Self::RStitch { p, q }),
            more => Err(format!(
                "{} probabilities; write P for one-token hand-back, or P,Q for r-stitch",
                more.len()
            )),
        }
    }
}

impl fmt::Display for Handover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneToken { p } => write!(f, "one-token hand-back, p = {p}"),
            Self::RStitch { p, q } => write!(f, "r-stitch, p = {p}, q = {q}"),
        }
    }
}

/// Share of each model in a mixture: `0.5,0.3,0.2`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Weights(Vec<f64>);

impl Weights {
    /// The planner's matrices.
    pub(super) fn routing(&self) -> Result<Routing, PlanError> {
        Routing::mixture(&self.0)
    }
}

impl FromStr for Weights {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let weights = probabilities(text)?;
        // The planner's own check says more than "not a number": it names the sum.
        Routing::mixture(&weights).map_err(|error| error.to_string())?;
        Ok(Self(weights))
    }
}

impl fmt::Display for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list: Vec<String> = self.0.iter().map(f64::to_string).collect();
        write!(f, "mixture of weights {}", list.join(", "))
    }
}

/// Numbers within 0..=1, separated by commas.
pub(super) fn probabilities(text: &str) -> Result<Vec<f64>, String> {
    let probability = |item: &str| {
        let found = item.trim().parse().ok().filter(|p| (0.0..=1.0).contains(p));
        found.ok_or_else(|| format!("\"{item}\" is not a probability; write a number from 0 to 1, as in 0.35"))
    };
    text.split(',').map(probability).collect()
}

/// Numbers of concurrent requests: `4`, `1..16` (both ends included), or a list of these. Ascending, none twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Concurrency(pub(super) Vec<usize>);

impl FromStr for Concurrency {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |item: &str| {
            let found = item.trim().parse().ok().filter(|n| (1..=REQUESTS_MAX).contains(n));
            found.ok_or_else(|| {
                format!("\"{item}\" is not a number of requests; write 1 to {REQUESTS_MAX}, as in 8, 1..16 or 1,4,8")
            })
        };
        let mut requests = Vec::new();
        for item in text.split(',') {
            let (first, last) = match item.split_once("..") {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(item)?, number(item)?),
            };
            if first > last {
                return Err(format!(
                    "{item} is empty; write the smaller number first, as in {last}..{first}"
                ));
            }
            requests.extend(first..=last);
        }
        requests.sort_unstable();
        requests.dedup();
        Ok(Self(requests))
    }
}

/// A positive number of milliseconds.
pub(super) fn quantum_ms(text: &str) -> Result<f64, String> {
    let found = text.parse().ok().filter(|ms: &f64| ms.is_finite() && *ms > 0.0);
    found.ok_or_else(|| format!("\"{text}\" is not a length of time; write milliseconds, as in 0.1"))
}

/// What is planned. Without a quantum: a fine one where the fast solution makes it cheap, else the planner's default.
pub(super) fn system(latency_ms: &[f64], routing: &Routing, quantum_ms: Option<f64>) -> Result<System, PlanError> {
    let system = |latencies| System::new(latencies, routing.clone());
    if let Some(quantum_ms) = quantum_ms {
        return system(Latencies::with_quantum(latency_ms, quantum_ms)?);
    }
    let fine = system(Latencies::fine(latency_ms)?)?;
    if Handback::new(&fine).is_some() {
        Ok(fine)
    } else {
        system(Latencies::new(latency_ms)?)
    }
}

/// Refuses latencies that are not as many as the models that the routing is for. `option` gave them.
pub(super) fn check_models(option: &str, latencies: usize, models: usize) -> anyhow::Result<()> {
    anyhow::ensure!(
        latencies == models,
        "{option} gives the latency of {latencies} model(s), but the routing is between {models}; give one for each"
    );
    Ok(())
}

/// A planner's error, with the options that the user gave in place of the planner's fields.
pub(super) fn explain(error: &PlanError) -> anyhow::Error {
    let text = error.to_string();
    for (field, option) in [
        ("latency_ms", "--latency-ms"),
        ("quantum_ms", "--quantum-ms"),
        ("weights", "--weights"),
        ("n:", "--concurrency:"),
    ] {
        if let Some(rest) = text.strip_prefix(field) {
            return anyhow::anyhow!("{option}{rest}");
        }
    }
    match error {
        PlanError::TooLarge { .. } => anyhow::anyhow!("{text} (--quantum-ms, --concurrency)"),
        _ => anyhow::anyhow!("{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal<T: FromStr<Err = String> + fmt::Debug>(text: &str) -> String {
        text.parse::<T>().unwrap_err()
    }

    #[test]
    fn numbers_of_requests_are_single_ranges_and_lists() {
        for (text, numbers) in [
            ("4", vec![4]),
            ("1..4", vec![1, 2, 3, 4]),
            ("8,1..3,2", vec![1, 2, 3, 8]),
        ] {
            assert_eq!(text.parse::<Concurrency>().unwrap().0, numbers, "{text}");
        }
        assert!(refusal::<Concurrency>("0").starts_with("\"0\" is not a number of requests; write 1 to 1024"));
        assert!(refusal::<Concurrency>("1..2000").starts_with("\"2000\" is not a number of requests"));
        assert!(refusal::<Concurrency>("1..").starts_with("\"\" is not a number of requests"));
        assert_eq!(
            refusal::<Concurrency>("9..2"),
            "9..2 is empty; write the smaller number first, as in 2..9"
        );
    }

    #[test]
    fn probabilities_say_which_policy_they_are_of() {
        assert_eq!("0.35".parse(), Ok(Handover::OneToken { p: 0.35 }));
        assert_eq!("0.2, 0.4".parse(), Ok(Handover::RStitch { p: 0.2, q: 0.4 }));
        for text in ["1.2", "-0.1", "NaN", "", "0.1,x"] {
            assert!(
                refusal::<Handover>(text).contains("is not a probability; write a number from 0 to 1"),
                "{text}"
            );
        }
        assert!(refusal::<Handover>("0.1,0.2,0.3").starts_with("3 probabilities; write P for"));
        assert_eq!(
            refusal::<Weights>("0.5,0.3"),
            "weights: probabilities sum to 1, got 0.8"
        );
    }

    #[test]
    fn latencies_are_positive() {
        assert_eq!("6.0, 27.9".parse(), Ok(Milliseconds(vec![6.0, 27.9])));
        for text in ["", "6,", "0", "-1", "inf", "NaN", "6 ms"] {
            assert!(
                refusal::<Milliseconds>(text).contains("is not a latency; write milliseconds"),
                "{text}"
            );
        }
    }

    #[test]
    fn the_default_quantum_is_fine_only_where_that_is_cheap() {
        let quanta = |routing: Routing| {
            system(&[6.0, 27.9], &routing, None)
                .unwrap()
                .latencies()
                .quanta()
                .to_vec()
        };
        assert_eq!(quanta(Routing::one_token_handback(0.35).unwrap()), [20, 93]);
        assert_eq!(quanta(Routing::r_stitch(0.2, 0.4).unwrap()), [3, 14]);
    }

    #[test]
    fn errors_of_the_planner_name_the_option() {
        let routing = Routing::one_token_handback(0.35).unwrap();
        let too_long = system(&[6.0, 27.9], &routing, Some(7.0)).unwrap_err();
        assert!(
            explain(&too_long)
                .to_string()
                .starts_with("--quantum-ms: a quantum is positive and at most")
        );
        let several = check_models("--latency-ms", 3, 2).unwrap_err().to_string();
        assert_eq!(
            several,
            "--latency-ms gives the latency of 3 model(s), but the routing is between 2; give one for each"
        );
    }
}
