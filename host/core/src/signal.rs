//! The numbers a policy can ask for at a step; their definitions stand in `wit/policy.wit`.

use crate::ids::ModelIndex;

/// One signal. The twin of the contract's `signal`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Entropy of softmax(logits), nats.
    Entropy,
    /// Entropy / ln V, V the width of the logits.
    EntropyNormalised,
    /// Entropy in nats of the k largest probabilities, renormalised.
    TopKEntropy(u32),
    /// The largest probability.
    MaxProbability,
    /// The k largest logits, descending: k columns.
    TopKLogits(u32),
    /// The k largest probabilities, descending: k columns.
    TopKProbabilities(u32),
    /// The score of a head the deployment names.
    HeadScore(String),
    /// A draw in [0, 1) keyed by (seed, position, number).
    Uniform(u32),
    /// Position of the candidate in the whole sequence, from 0.
    Position,
    /// Newlines at the end of the committed text, at most 2.
    Newlines,
}

impl Signal {
    /// How many columns the signal fills.
    pub fn columns(&self) -> usize {
        match self {
            Signal::TopKLogits(k) | Signal::TopKProbabilities(k) => *k as usize,
            _ => 1,
        }
    }
}

/// What a policy wants: fixed for the life of a generation. The twin of the contract's `plan`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The model that writes first unless admission names another.
    pub entry: ModelIndex,
    /// Words of state per request.
    pub state_words: usize,
    /// Signals by model.
    pub signals: Vec<Vec<Signal>>,
    /// Whether the policy reads the candidates' texts.
    pub texts: bool,
}

impl Plan {
    /// Columns of signals in a row of a step of `model`.
    pub fn columns(&self, model: ModelIndex) -> usize {
        self.signals[model.index()].iter().map(Signal::columns).sum()
    }
}
