//! What the scheduler asks of a policy, in plain columns. The Wasm host implements it; so do the probabilities and
//! traces of a simulation.

use crate::ids::{ModelIndex, TokenId};
use crate::limits::STATE_WORDS_MAX;
use crate::signal::Plan;
use crate::texts::Texts;

/// A policy as the scheduler's driver calls it: one generation, at one model.
pub trait Policy {
    /// What it asked for at `init`.
    fn plan(&self) -> &Plan;

    /// Who goes on, for every row of `batch`. On success `out` has a destination within the deployment and the plan's
    /// words of state for every row.
    fn route(&mut self, at: ModelIndex, batch: &RouteBatch, out: &mut Decisions) -> Result<(), PolicyFault>;

    /// A row leaves `at` for `to`.
    fn send(&mut self, at: ModelIndex, to: ModelIndex, row: LeavingRow<'_>) -> Result<Parcel, PolicyFault>;

    /// A request arrives at `at` from `from`; its state there.
    fn receive(&mut self, at: ModelIndex, from: ModelIndex, parcel: &Parcel) -> Result<PolicyState, PolicyFault>;
}

/// A policy did not do its part: a trap, a deadline, a wrong answer. The text is for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFault(pub String);

/// What happens to a request whose policy faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailureMode {
    /// It ends with an error.
    #[default]
    Fail,
    /// The candidate is committed and the model goes on.
    Stay,
    /// The request moves to this model (or stays there); the candidate of another model is discarded.
    Fallback(ModelIndex),
}

/// A policy's words about one request, held inline: `words[..len]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicyState {
    words: [u64; STATE_WORDS_MAX],
    len: u8,
}

impl PolicyState {
    /// No words.
    pub(crate) const EMPTY: Self = Self {
        words: [0; STATE_WORDS_MAX],
        len: 0,
    };

    /// The state with these words.
    ///
    /// # Panics
    /// If there are more than [`STATE_WORDS_MAX`]: plans are checked against it when a policy is loaded.
    pub fn new(words: &[u64]) -> Self {
        let mut state = Self {
            words: [0; STATE_WORDS_MAX],
            len: words.len() as u8,
        };
        state.words[..words.len()].copy_from_slice(words);
        state
    }

    /// The words.
    pub fn words(&self) -> &[u64] {
        &self.words[..usize::from(self.len)]
    }
}

/// A step's rows that belong to one policy, in columns; `rows` of everything. Buffers are kept and refilled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RouteBatch {
    /// The candidate of each row.
    pub candidates: Vec<TokenId>,
    /// rows × columns of the plan at this model.
    pub signals: Vec<f32>,
    /// rows × the plan's words of state.
    pub state: Vec<u64>,
    /// Text of each candidate, or empty when the plan has no `texts`.
    pub texts: Texts,
}

impl RouteBatch {
    /// Empties all columns and keeps their memory.
    pub fn clear(&mut self) {
        self.candidates.clear();
        self.signals.clear();
        self.state.clear();
        self.texts.clear();
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.candidates.len()
    }
}

/// A policy's answer to a [`RouteBatch`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decisions {
    /// Who goes on, by row.
    pub destinations: Vec<ModelIndex>,
    /// rows × words of state.
    pub state: Vec<u64>,
}

/// One row that leaves, for `send`.
#[derive(Clone, Copy, Debug)]
pub struct LeavingRow<'a> {
    /// The token the step sampled.
    pub candidate: TokenId,
    /// The row's signals.
    pub signals: &'a [f32],
    /// The state `route` returned.
    pub state: &'a [u64],
    /// Text of the candidate, or empty when the plan has no `texts`.
    pub text: &'a str,
}

/// What `send` answers and `receive` is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parcel {
    /// Whether the candidate is committed before the request leaves.
    pub keep_candidate: bool,
    /// The state that travels.
    pub state: PolicyState,
}

/// A request at admission, for `admit`.
#[derive(Clone, Debug)]
pub struct Admitting<'a> {
    /// The request's seed.
    pub seed: u64,
    /// The prompt, at least one token.
    pub prompt: &'a [TokenId],
    /// Most tokens of the answer.
    pub max_tokens: u32,
    /// Sampling temperature; 0 is greedy.
    pub temperature: f32,
}

/// Where a request starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The model that writes the first token.
    pub model: ModelIndex,
    /// The first state.
    pub state: PolicyState,
}
