//! What another plan than the recorded one would have been given.

use std::ops::Range;

use tokenrouter_core::draw::{Purpose, uniform_f32};
use tokenrouter_core::signal::{Plan, Signal};

use super::format::StepLine;
use super::{Trace, TraceError, parse_signal, signal_name};

/// How a plan's signals follow from recorded steps, by recorded generation and model.
#[derive(Debug)]
pub struct Columns {
    /// By generation, `None` first: requests without a policy.
    by_generation: Vec<(Option<u32>, Vec<Vec<Find>>)>,
}

/// Where the columns of one signal come from.
#[derive(Clone, Debug)]
enum Find {
    /// Recorded because the policy asked for it.
    Asked(Range<usize>),
    /// Recorded always.
    Standard(Range<usize>),
    /// Entropy of the largest logits, renormalised.
    TopEntropy(Range<usize>),
    /// The largest probabilities: logits relative to the largest, whose probability is at the other place.
    TopProbabilities(Range<usize>, usize),
    /// A function of seed and position.
    Uniform(u32),
    Position,
}

impl Columns {
    /// # Errors
    /// [`TraceError::Signal`]: `plan` asks for what was neither recorded nor follows from it.
    pub fn new(trace: &Trace, plan: &Plan) -> Result<Self, TraceError> {
        let standard: Vec<_> = trace.header.standard.iter().map(String::as_str).collect();
        let standard = places(&standard);
        let mut ids: Vec<Option<u32>> = trace.requests.iter().map(|it| it.request.generation).collect();
        ids.sort_unstable();
        ids.dedup();
        let mut by_generation = Vec::new();
        for id in ids {
            let mut models = Vec::new();
            for (model, signals) in plan.signals.iter().enumerate() {
                let generation = id.and_then(|id| trace.generation(id));
                let names = generation
                    .and_then(|it| it.signals.get(model))
                    .map_or(&[][..], Vec::as_slice);
                let asked = places(&names.iter().map(String::as_str).collect::<Vec<_>>());
                let find = |signal| {
                    find(signal, &asked, &standard).ok_or_else(|| TraceError::Signal {
                        signal: signal_name(signal),
                        model: trace.header.models[model].name.clone(),
                        known: known(&asked, &standard),
                    })
                };
                models.push(signals.iter().map(find).collect::<Result<Vec<_>, _>>()?);
            }
            by_generation.push((id, models));
        }
        Ok(Self { by_generation })
    }

    /// Appends a row's columns. Returns false if the line has fewer than it should.
    pub fn append(&self, generation: Option<u32>, seed: u64, step: &StepLine, out: &mut Vec<f32>) -> bool {
        let found = self.by_generation.iter().find(|(id, _)| *id == generation);
        let Some(finds) = found.and_then(|(_, models)| models.get(step.at as usize)) else {
            return false;
        };
        finds.iter().all(|find| append(find, seed, step, out).is_some())
    }
}

fn append(find: &Find, seed: u64, step: &StepLine, out: &mut Vec<f32>) -> Option<()> {
    let (asked, standard) = (&step.asked.0, &step.standard.0);
    match find {
        Find::Asked(range) => out.extend_from_slice(asked.get(range.clone())?),
        Find::Standard(range) => out.extend_from_slice(standard.get(range.clone())?),
        Find::TopEntropy(range) => {
            let top = standard.get(range.clone())?;
            let weights = || top.iter().map(|logit| f64::from(logit - top[0]).exp());
            let sum: f64 = weights().sum();
            // H = -sum p ln p; what has probability 0 adds nothing.
            let entropy: f64 = weights()
                .map(|w| w / sum)
                .filter(|p| *p > 0.0)
                .map(|p| -p * p.ln())
                .sum();
            out.push(entropy.max(0.0) as f32);
        }
        Find::TopProbabilities(range, largest) => {
            let (top, largest) = (standard.get(range.clone())?, *standard.get(*largest)?);
            out.extend(
                top.iter()
                    .map(|logit| (f64::from(logit - top[0]).exp() * f64::from(largest)) as f32),
            );
        }
        Find::Uniform(number) => out.push(uniform_f32(seed, step.position.into(), Purpose::Policy(*number))),
        Find::Position => out.push(step.position as f32),
    }
    Some(())
}

/// Signals and the columns they stand in; names of a later host that this one does not know end the list.
fn places(names: &[&str]) -> Vec<(Signal, Range<usize>)> {
    let mut next = 0;
    let signals = names.iter().map_while(|name| parse_signal(name));
    signals
        .map(|signal| {
            let start = next;
            next += signal.columns();
            (signal, start..next)
        })
        .collect()
}

fn find(signal: &Signal, asked: &[(Signal, Range<usize>)], standard: &[(Signal, Range<usize>)]) -> Option<Find> {
    let place = |list: &[(Signal, Range<usize>)]| {
        let found = list.iter().find(|(known, _)| known == signal);
        found.map(|(_, range)| range.clone())
    };
    if let Some(range) = place(asked) {
        return Some(Find::Asked(range));
    }
    if let Some(range) = place(standard) {
        return Some(Find::Standard(range));
    }
    let top = |wanted: u32| {
        standard.iter().find_map(|(known, range)| match known {
            Signal::TopKLogits(k) if wanted <= *k => Some(range.start..range.start + wanted as usize),
            _ => None,
        })
    };
    match signal {
        Signal::TopKLogits(k) => top(*k).map(Find::Standard),
        Signal::TopKEntropy(k) => top(*k).map(Find::TopEntropy),
        Signal::TopKProbabilities(k) => {
            let largest = standard.iter().find(|(known, _)| *known == Signal::MaxProbability);
            Some(Find::TopProbabilities(top(*k)?, largest?.1.start))
        }
        Signal::Uniform(number) => Some(Find::Uniform(*number)),
        Signal::Position => Some(Find::Position),
        _ => None,
    }
}

fn known(asked: &[(Signal, Range<usize>)], standard: &[(Signal, Range<usize>)]) -> String {
    let names: Vec<String> = asked
        .iter()
        .chain(standard)
        .map(|(signal, _)| signal_name(signal))
        .collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use tokenrouter_core::ModelIndex;

    use super::*;
    use crate::trace::format::{FORMAT, GenerationLine, Header, ModelLine, RequestLine};
    use crate::trace::{Numbers, RecordedRequest};

    /// p = 1/2, 1/4, 1/8, 1/8 of a vocabulary of four.
    fn trace() -> (Trace, StepLine) {
        let logits = [0.5f32, 0.25, 0.125, 0.125].map(f32::ln);
        let step = StepLine {
            id: 3,
            at: 0,
            position: 9,
            candidate: 1,
            text: None,
            asked: Numbers(vec![0.75, 42.0]),
            standard: Numbers([vec![1.2, 0.5], logits.to_vec()].concat()),
            to: Some(0),
            keep: true,
        };
        let request = RequestLine {
            id: 3,
            seed: 77,
            prompt: vec![1],
            max_tokens: 8,
            temperature: 0.0,
            options: Default::default(),
            generation: Some(1),
            entry: 0,
        };
        let trace = Trace {
            header: Header {
                format: FORMAT,
                host: "0".to_owned(),
                deployment: "test".to_owned(),
                models: vec![ModelLine {
                    name: "only".to_owned(),
                    parameters: 1,
                    vocabulary: 4,
                }],
                standard: ["entropy", "max-probability", "top-k-logits(4)"]
                    .map(str::to_owned)
                    .to_vec(),
            },
            generations: vec![GenerationLine {
                id: 1,
                name: "any".to_owned(),
                version: "1".to_owned(),
                sha256: String::new(),
                options: Default::default(),
                signals: vec![vec!["head-score(h)".to_owned(), "newlines".to_owned()]],
            }],
            requests: vec![RecordedRequest {
                request,
                steps: vec![step.clone()],
            }],
            orphans: 0,
            end: None,
        };
        (trace, step)
    }

    fn plan(signals: &[Signal]) -> Plan {
        Plan {
            entry: ModelIndex(0),
            state_words: 0,
            signals: vec![signals.to_vec()],
            texts: false,
        }
    }

    #[test]
    fn what_was_not_recorded_follows_from_what_was() {
        let (trace, step) = trace();
        let asks = [
            Signal::Newlines,
            Signal::HeadScore("h".to_owned()),
            Signal::Entropy,
            Signal::TopKLogits(2),
            Signal::TopKProbabilities(3),
            Signal::TopKEntropy(2),
            Signal::Uniform(5),
            Signal::Position,
        ];
        let columns = Columns::new(&trace, &plan(&asks)).unwrap();
        let mut found = Vec::new();
        assert!(columns.append(Some(1), 77, &step, &mut found));
        // Of the two largest, 2/3 and 1/3: H = ln 3 - 2/3 ln 2.
        let two = 3f32.ln() - 2f32.ln() * 2.0 / 3.0;
        let draw = uniform_f32(77, 9, Purpose::Policy(5));
        let expected = [
            42.0,
            0.75,
            1.2,
            0.5f32.ln(),
            0.25f32.ln(),
            0.5,
            0.25,
            0.125,
            two,
            draw,
            9.0,
        ];
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "{found}, expected {expected}");
        }
    }

    #[test]
    fn what_does_not_follow_is_named() {
        let (trace, _) = trace();
        for signal in [
            Signal::TopKLogits(5),
            Signal::EntropyNormalised,
            Signal::HeadScore("x".to_owned()),
        ] {
            let error = Columns::new(&trace, &plan(std::slice::from_ref(&signal)))
                .unwrap_err()
                .to_string();
            assert!(
                error.contains(&signal_name(&signal)) && error.contains("head-score(h)"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_line_with_too_few_numbers_is_told_apart() {
        let (trace, mut step) = trace();
        let columns = Columns::new(&trace, &plan(&[Signal::TopKLogits(4)])).unwrap();
        step.standard.0.truncate(3);
        assert!(!columns.append(Some(1), 77, &step, &mut Vec::new()));
        assert!(!columns.append(None, 77, &step, &mut Vec::new()));
    }
}
