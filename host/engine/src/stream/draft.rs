//! The way from a draft to the stream of its answer.

use std::sync::Arc;

use super::{Assumed, Shared, StepNote};

/// What writes ahead tells the stream through this. The draft is over when it is dropped.
#[derive(Debug)]
pub(crate) struct DraftWriter {
    shared: Arc<Shared>,
    draft: u64,
    steps: bool,
}

impl DraftWriter {
    /// The next draft of an answer; `None` if nobody wants to know, or the answer has ended.
    pub(super) fn begin(shared: &Arc<Shared>) -> Option<Self> {
        let mut state = shared.state();
        if state.closed {
            return None;
        }
        let assumptions = state.assumptions.as_mut()?;
        Some(Self {
            draft: assumptions.begin(),
            steps: assumptions.keeps_steps(),
            shared: shared.clone(),
        })
    }

    /// Whether steps are kept.
    pub(crate) fn keeps_steps(&self) -> bool {
        self.steps
    }

    /// Keeps a step, in case its token is assumed.
    pub(crate) fn stage(&self, step: StepNote) {
        if let Some(assumptions) = &mut self.shared.state().assumptions {
            assumptions.stage(self.draft, step);
        }
    }

    /// One more token is assumed.
    pub(crate) fn push(&self, assumed: Assumed) {
        let mut state = self.shared.state();
        if !state.closed
            && let Some(assumptions) = &mut state.assumptions
            && assumptions.push(self.draft, assumed)
        {
            self.shared.wake(state);
        }
    }
}

impl Drop for DraftWriter {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        if let Some(assumptions) = &mut state.assumptions
            && assumptions.end(self.draft)
        {
            self.shared.wake(state);
        }
    }
}
