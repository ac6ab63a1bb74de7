//! The inputs of an examination: everything follows from a seed, so a failure can be repeated.

use tokenrouter_core::ModelIndex;
use tokenrouter_core::draw::{Purpose, bits, uniform_f32};
use tokenrouter_core::policy::RouteBatch;
use tokenrouter_core::signal::Signal;

use crate::Generation;

/// What the numbers of a row look like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Flavour {
    /// As a model at work would give them.
    Plausible,
    /// Every signal is this number, whether a model could give it or not.
    All(f32),
    /// Every signal is one of the extremes, drawn.
    Mixed,
}

/// Numbers that a policy must survive: heads can score anything, and `-inf` fills top lists longer than the vocabulary.
const EXTREMES: [f32; 7] = [0.0, 1.0, -1.0, 3.0e38, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];

/// All flavours.
pub(super) fn flavours() -> impl Iterator<Item = Flavour> + Clone {
    [Flavour::Plausible, Flavour::Mixed]
        .into_iter()
        .chain(EXTREMES.map(Flavour::All))
}

/// Texts that a candidate may have: whole words, line ends, parts of characters, nothing, and long ones.
const TEXTS: [&str; 7] = ["word", " 12", "\n", "\n\n", "\u{fffd}", "", "ὕδωρ 水 водá"];

/// Draws inputs for one generation.
pub(super) struct Vectors<'a> {
    generation: &'a Generation,
    seed: u64,
}

impl<'a> Vectors<'a> {
    pub(super) fn new(generation: &'a Generation, seed: u64) -> Self {
        Self { generation, seed }
    }

    /// A whole number below `bound`, for input number `index`.
    pub(super) fn below(&self, index: u64, purpose: u32, bound: u64) -> u64 {
        bits(self.seed, index, Purpose::Policy(purpose)) % bound
    }

    /// A request's seed.
    pub(super) fn request_seed(&self, index: u64) -> u64 {
        bits(self.seed, index, Purpose::Admission)
    }

    /// A batch of model `at` with one row for every state in `states`, which are the words of all rows.
    pub(super) fn batch(
        &self,
        at: ModelIndex,
        rows: usize,
        flavour: Flavour,
        index: u64,
        states: &[u64],
    ) -> RouteBatch {
        let mut batch = RouteBatch {
            state: states.to_vec(),
            ..RouteBatch::default()
        };
        for row in 0..rows as u64 {
            let key = index << 16 | row;
            self.push_row(at, flavour, self.request_seed(key), 1 + row * 7, &mut batch);
        }
        batch
    }

    /// Appends a row of a request with this seed, whose candidate would take `position`; its state is the caller's.
    pub(super) fn push_row(&self, at: ModelIndex, flavour: Flavour, seed: u64, position: u64, batch: &mut RouteBatch) {
        let facts = &self.generation.deployment().models[at.index()];
        batch
            .candidates
            .push((bits(seed, position, Purpose::Sample(at)) % u64::from(facts.vocabulary)) as u32);
        let plan = self.generation.plan();
        for (number, signal) in plan.signals[at.index()].iter().enumerate() {
            let start = batch.signals.len();
            let draw = Draw {
                seed,
                position,
                number: 1 << 31 | at.0 << 16 | number as u32,
            };
            draw.append(signal, facts.vocabulary, &mut batch.signals);
            for (column, value) in batch.signals[start..].iter_mut().enumerate() {
                match flavour {
                    Flavour::Plausible => {}
                    Flavour::All(extreme) => *value = extreme,
                    Flavour::Mixed => {
                        let pick = bits(seed, position, Purpose::Policy(draw.number ^ (column as u32) << 20));
                        *value = EXTREMES[(pick % EXTREMES.len() as u64) as usize];
                    }
                }
            }
        }
        if plan.texts {
            let pick = bits(seed, position, Purpose::Policy(1 << 30)) as usize;
            batch.texts.push(TEXTS[pick % TEXTS.len()]);
        }
    }
}

/// A signal of one row.
#[derive(Clone, Copy)]
struct Draw {
    seed: u64,
    position: u64,
    /// Sets this signal's draws apart from all others.
    number: u32,
}

impl Draw {
    fn unit(self, column: u32) -> f32 {
        uniform_f32(self.seed, self.position, Purpose::Policy(self.number ^ column << 20))
    }

    /// Appends the signal's columns within the ranges that `wit/policy.wit` defines. Small entropies are common, as they
    /// are with a model that is mostly sure.
    fn append(self, signal: &Signal, vocabulary: u32, out: &mut Vec<f32>) {
        let unit = self.unit(0);
        match signal {
            Signal::Entropy => out.push(unit.powi(4) * (vocabulary as f32).ln()),
            Signal::EntropyNormalised => out.push(unit.powi(4)),
            Signal::TopKEntropy(k) => out.push(unit.powi(4) * (*k as f32).ln()),
            Signal::MaxProbability => out.push(1.0 - unit.powi(3) * 0.99),
            Signal::TopKLogits(k) => {
                let mut logit = 20.0 * unit;
                for column in 0..*k {
                    out.push(logit);
                    logit -= 2.0 * self.unit(column + 1);
                }
            }
            Signal::TopKProbabilities(k) => {
                let mut left = 1.0;
                let mut last = 1.0f32;
                for column in 0..*k {
                    last = last.min(left * (0.2 + 0.7 * self.unit(column + 1)));
                    left -= last;
                    out.push(last);
                }
            }
            Signal::HeadScore(_) => out.push(unit),
            Signal::Uniform(number) => out.push(uniform_f32(self.seed, self.position, Purpose::Policy(*number))),
            Signal::Position => out.push(self.position as f32),
            Signal::Newlines => out.push((unit * 3.0).floor()),
        }
    }
}
