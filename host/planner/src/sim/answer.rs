//! The answer of a simulated request: counts, cancellation, and a record of who wrote what.

use std::cell::Cell;
use std::rc::Rc;

use tokenrouter_core::request::{Answer, Finish};
use tokenrouter_core::{ModelIndex, TokenId};

/// A committed token and who wrote it.
pub type Commit = (TokenId, ModelIndex);

/// What a simulated request keeps of its answer.
#[derive(Debug)]
pub struct SimAnswer {
    /// Everything committed, in order.
    pub commits: Vec<Commit>,
    /// Index of the request in the order of submission.
    pub index: usize,
    stop_token: Option<TokenId>,
    /// Set from outside when the client leaves.
    abandoned: Rc<Cell<bool>>,
    committed: Rc<Cell<u64>>,
}

impl SimAnswer {
    pub(super) fn new(
        index: usize,
        tokens_max: u32,
        stop_token: Option<TokenId>,
        abandoned: Rc<Cell<bool>>,
        committed: Rc<Cell<u64>>,
    ) -> Self {
        Self {
            commits: Vec::with_capacity(tokens_max as usize),
            index,
            stop_token,
            abandoned,
            committed,
        }
    }
}

impl Answer for SimAnswer {
    type Ahead = ();

    fn ahead(&self) -> Option<()> {
        Some(())
    }

    fn handed_over(&mut self, _: ModelIndex, _: ModelIndex) {}

    fn commit(&mut self, token: TokenId, by: ModelIndex) -> Option<Finish> {
        self.commits.push((token, by));
        self.committed.set(self.committed.get() + 1);
        (self.stop_token == Some(token)).then_some(Finish::Stop)
    }

    fn abandoned(&self) -> bool {
        self.abandoned.get()
    }
}
