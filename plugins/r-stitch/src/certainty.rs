//! When a model counts as certain of its token.

use tokenrouter_sdk::prelude::*;

/// Option `threshold`.
pub const THRESHOLD: Number = Number {
    name: "threshold",
    summary: "entropy above which, or largest probability below which, a model is uncertain; 0.03 by default, which \
              in nats is 0.03 ln V; with signal maxprob 0.9 by default",
    default: 0.03,
    min: 0.0,
    // In nats: ln V of any vocabulary there will be. Normalised entropy and probability are bound by 1, see below.
    max: 20.0,
    per_request: true,
};

/// Option `signal`.
pub const SIGNAL: Choice = Choice {
    name: "signal",
    summary: "what certainty is read from: the entropy of the distribution, or its largest probability",
    default: "entropy",
    choices: &["entropy", "maxprob"],
    per_request: false,
};

/// Option `unit`.
pub const UNIT: Choice = Choice {
    name: "unit",
    summary: "unit of the entropy and its threshold: normalised (by ln V, so 0 to 1; as published) or nats",
    default: "normalised",
    choices: &["normalised", "nats"],
    per_request: false,
};

/// Where `signal = "maxprob"` draws the line when no threshold is given. The publication names no value; a choice
/// between two tokens at 0.885 and 0.115 has 0.358 nats, which is the entropy's default at a vocabulary of 151,936.
const MAXPROB_DEFAULT: f64 = 0.9;

/// How certainty is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// Entropy / ln V at most the threshold.
    Normalised,
    /// Entropy in nats at most the threshold.
    Nats,
    /// Largest probability at least the threshold.
    MaxProbability,
}

impl Certainty {
    /// From the options `signal` and `unit`.
    ///
    /// # Errors
    /// If a unit is given for a signal that has none.
    pub fn read(options: &Options) -> Result<Self, String> {
        options.only_for(&UNIT, &SIGNAL, &["entropy"])?;
        Ok(match (options.get(&SIGNAL), options.get(&UNIT)) {
            ("maxprob", _) => Self::MaxProbability,
            (_, "nats") => Self::Nats,
            (_, _) => Self::Normalised,
        })
    }

    /// The signal to ask the host for.
    pub fn signal(self) -> Signal {
        match self {
            Self::Normalised => Signal::EntropyNormalised,
            Self::Nats => Signal::Entropy,
            Self::MaxProbability => Signal::MaxProbability,
        }
    }

    /// The threshold. `vocabulary` is the V of the small model.
    ///
    /// # Errors
    /// If the one given is above what the signal can reach.
    pub fn threshold(self, vocabulary: u32, options: &Options) -> Result<Threshold, String> {
        let (default, max) = match self {
            Self::Normalised => (THRESHOLD.default, 1.0),
            Self::Nats => (THRESHOLD.default * f64::from(vocabulary).ln(), THRESHOLD.max),
            Self::MaxProbability => (MAXPROB_DEFAULT, 1.0),
        };
        Threshold::read_up_to(&THRESHOLD, default, max, options)
    }

    /// Whether a model with this value of the signal is certain. A value equal to the threshold is; NaN never is.
    pub fn is_certain(self, value: f32, threshold: f32) -> bool {
        match self {
            Self::Normalised | Self::Nats => value <= threshold,
            Self::MaxProbability => value >= threshold,
        }
    }
}
