//! The signals of `wit/policy.wit`, computed from a row of raw logits.
//!
//! With z the logits, m the largest and d = z - m: S = sum e^d, the largest probability is 1 / S, and the entropy is
//! ln S - (sum d e^d) / S. This is logsumexp(z) - sum p z with m taken out, and unlike -sum p ln p it stays a number when a
//! probability underflows. Sums are f64; results are f32.

use tokenrouter_core::draw::{Purpose, uniform_f32};
use tokenrouter_core::signal::Signal;

use crate::descending::Descending;

/// What a row's signals depend on beside its logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalKey {
    /// The request's seed.
    pub seed: u64,
    /// The position the candidate would take.
    pub position: u64,
    /// How many newlines the committed text ends with, at most 2.
    pub newlines: u8,
}

impl SignalKey {
    /// The value of a signal that does not come from logits; `None` for one that does.
    pub fn value(self, signal: &Signal) -> Option<f32> {
        match signal {
            Signal::Uniform(number) => Some(uniform_f32(self.seed, self.position, Purpose::Policy(*number))),
            Signal::Position => Some(self.position as f32),
            Signal::Newlines => Some(f32::from(self.newlines.min(2))),
            _ => None,
        }
    }
}

/// Computes signals. Buffers are kept.
#[derive(Debug, Default)]
pub struct Signals {
    tokens: Descending,
}

impl Signals {
    /// Appends the columns of `plan` for one row. `logits` has no NaN, no positive infinity and at least one finite number;
    /// a negative infinity is a probability of 0. Without logits (they were no distribution) their signals are 0.
    ///
    /// Where a top list is longer than the vocabulary, its last logits are negative infinity and probabilities 0. `score` gives
    /// the score of a head by its name.
    pub fn append(
        &mut self,
        plan: &[Signal],
        logits: Option<&[f32]>,
        key: SignalKey,
        score: impl Fn(&str) -> f32,
        out: &mut Vec<f32>,
    ) {
        let mut row = Row {
            logits,
            summary: None,
            filled: false,
            tokens: &mut self.tokens,
        };
        for signal in plan {
            if let Some(value) = key.value(signal) {
                out.push(value);
            } else if let (Signal::HeadScore(name), Some(_)) = (signal, logits) {
                out.push(score(name));
            } else {
                row.append(signal, out);
            }
        }
    }
}

/// A row's logits and what has been computed of them so far.
struct Row<'a> {
    logits: Option<&'a [f32]>,
    summary: Option<Summary>,
    filled: bool,
    tokens: &'a mut Descending,
}

impl Row<'_> {
    fn append(&mut self, signal: &Signal, out: &mut Vec<f32>) {
        let Some(logits) = self.logits else {
            out.extend(std::iter::repeat_n(0.0, signal.columns()));
            return;
        };
        match signal {
            Signal::Entropy => out.push(self.summary(logits).entropy() as f32),
            Signal::EntropyNormalised if logits.len() < 2 => out.push(0.0),
            Signal::EntropyNormalised => {
                out.push((self.summary(logits).entropy() / (logits.len() as f64).ln()) as f32);
            }
            Signal::MaxProbability => out.push((1.0 / self.summary(logits).sum) as f32),
            Signal::TopKEntropy(k) => {
                let top = self.top(logits, *k);
                out.push(Summary::of(top.map(|(logit, _)| *logit)).entropy() as f32);
            }
            Signal::TopKLogits(k) => {
                let end = out.len() + *k as usize;
                out.extend(self.top(logits, *k).map(|(logit, _)| *logit));
                out.resize(end, f32::NEG_INFINITY);
            }
            Signal::TopKProbabilities(k) => {
                let (summary, end) = (self.summary(logits), out.len() + *k as usize);
                let top = self.top(logits, *k);
                out.extend(top.map(|(logit, _)| summary.probability(*logit) as f32));
                out.resize(end, 0.0);
            }
            // Do not come from logits: the caller has dealt with them.
            Signal::Uniform(_) | Signal::Position | Signal::Newlines | Signal::HeadScore(_) => {}
        }
    }

    /// The sums over the vocabulary, computed for the first signal that needs them.
    fn summary(&mut self, logits: &[f32]) -> Summary {
        *self.summary.get_or_insert_with(|| Summary::of(logits.iter().copied()))
    }

    fn top(&mut self, logits: &[f32], k: u32) -> impl Iterator<Item = &(f32, u32)> + Clone {
        if !self.filled {
            self.tokens.fill(logits, |_| true);
            self.filled = true;
        }
        self.tokens.first(k as usize).iter()
    }
}

/// The sums over a distribution from which entropy and probabilities follow.
#[derive(Clone, Copy)]
pub(crate) struct Summary {
    pub(crate) max: f64,
    /// S = sum e^d.
    pub(crate) sum: f64,
    /// sum d e^d.
    pub(crate) weighted: f64,
}

impl Summary {
    pub(crate) fn of(logits: impl Iterator<Item = f32> + Clone) -> Self {
        let max = f64::from(logits.clone().fold(f32::NEG_INFINITY, f32::max));
        let (mut sum, mut weighted) = (0.0, 0.0);
        for logit in logits {
            let d = f64::from(logit) - max;
            // A probability of 0 adds nothing; with d = -inf the product would be NaN.
            let e = d.exp();
            if e > 0.0 {
                sum += e;
                weighted += d * e;
            }
        }
        Self { max, sum, weighted }
    }

    /// Nats. Never below 0, where rounding could put it. 0 for an empty distribution.
    pub(crate) fn entropy(&self) -> f64 {
        if self.sum > 0.0 {
            (self.sum.ln() - self.weighted / self.sum).max(0.0)
        } else {
            0.0
        }
    }

    pub(crate) fn probability(&self, logit: f32) -> f64 {
        (f64::from(logit) - self.max).exp() / self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: SignalKey = SignalKey {
        seed: 7,
        position: 41,
        newlines: 5,
    };

    fn signals(logits: &[f32], plan: &[Signal]) -> Vec<f32> {
        let mut out = Vec::new();
        let score = |head: &str| head.len() as f32;
        Signals::default().append(plan, Some(logits), KEY, score, &mut out);
        out
    }

    fn close(found: &[f32], expected: &[f32]) {
        assert_eq!(found.len(), expected.len(), "{found:?} {expected:?}");
        for (a, b) in found.iter().zip(expected) {
            assert!(a == b || (a - b).abs() < 1e-6, "{found:?}, expected {expected:?}");
        }
    }

    const ENTROPIES: [Signal; 4] = [
        Signal::Entropy,
        Signal::EntropyNormalised,
        Signal::TopKEntropy(4),
        Signal::MaxProbability,
    ];

    #[test]
    fn a_uniform_distribution_has_the_largest_entropy() {
        // 32 tokens: ln 32 nats; of any 4 of them ln 4.
        close(
            &signals(&[3.5; 32], &ENTROPIES),
            &[32f32.ln(), 1.0, 4f32.ln(), 1.0 / 32.0],
        );
    }

    #[test]
    fn certainty_has_entropy_zero_and_is_a_number() {
        let mut logits = vec![-500.0; 10];
        logits[3] = 500.0;
        assert_eq!(signals(&logits, &ENTROPIES), [0.0, 0.0, 0.0, 1.0]);
        logits.fill(f32::NEG_INFINITY);
        logits[3] = -3.0;
        assert_eq!(signals(&logits, &ENTROPIES), [0.0, 0.0, 0.0, 1.0]);
        assert_eq!(signals(&[2.0], &ENTROPIES), [0.0, 0.0, 0.0, 1.0]);
    }

    /// p = 1/2, 1/4, 1/8, 1/8: H = 7/4 ln 2. Of the first two, 2/3 and 1/3: H = ln 3 - 2/3 ln 2.
    #[test]
    fn values_worked_out_by_hand() {
        let p = [0.125f32, 0.5, 0.125, 0.25];
        let logits = p.map(|p| p.ln() + 2.0);
        let ln2 = 2f32.ln();
        close(
            &signals(
                &logits,
                &[
                    Signal::TopKProbabilities(3),
                    Signal::Entropy,
                    Signal::TopKEntropy(2),
                    Signal::EntropyNormalised,
                    Signal::MaxProbability,
                    Signal::TopKLogits(2),
                ],
            ),
            &[
                0.5,
                0.25,
                0.125,
                1.75 * ln2,
                3f32.ln() - ln2 * 2.0 / 3.0,
                0.875,
                0.5,
                logits[1],
                logits[3],
            ],
        );
    }

    #[test]
    fn an_infinite_logit_counts_as_probability_zero() {
        let logits = [1.0, f32::NEG_INFINITY, 1.0];
        let plan = [
            Signal::Entropy,
            Signal::TopKLogits(3),
            Signal::TopKProbabilities(3),
            Signal::TopKEntropy(3),
        ];
        let ln2 = 2f32.ln();
        close(
            &signals(&logits, &plan),
            &[ln2, 1.0, 1.0, f32::NEG_INFINITY, 0.5, 0.5, 0.0, ln2],
        );
    }

    #[test]
    fn a_top_list_has_its_columns_whatever_the_vocabulary() {
        let plan = [
            Signal::TopKLogits(4),
            Signal::TopKProbabilities(4),
            Signal::TopKEntropy(4),
            Signal::TopKEntropy(0),
        ];
        let none = f32::NEG_INFINITY;
        close(
            &signals(&[0.0, 0.0], &plan),
            &[0.0, 0.0, none, none, 0.5, 0.5, 0.0, 0.0, 2f32.ln(), 0.0],
        );
    }

    #[test]
    fn the_other_signals_come_from_the_key() {
        let plan = [Signal::Uniform(2), Signal::Position, Signal::Newlines];
        assert_eq!(
            signals(&[0.0], &plan),
            [uniform_f32(7, 41, Purpose::Policy(2)), 41.0, 2.0]
        );
    }

    #[test]
    fn without_a_distribution_the_columns_are_there_and_zero() {
        let mut out = Vec::new();
        let plan = [
            Signal::Entropy,
            Signal::TopKLogits(3),
            Signal::HeadScore("r2r".to_owned()),
            Signal::Position,
        ];
        Signals::default().append(&plan, None, KEY, |_| f32::NAN, &mut out);
        assert_eq!(out, [0.0, 0.0, 0.0, 0.0, 0.0, 41.0]);
    }

    #[test]
    fn scores_of_heads_stand_in_their_columns() {
        let head = |name: &str| Signal::HeadScore(name.to_owned());
        let plan = [head("r2r"), Signal::Position, head("citer")];
        assert_eq!(signals(&[0.0], &plan), [3.0, 41.0, 5.0]);
    }
}
