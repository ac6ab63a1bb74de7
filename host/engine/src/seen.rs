//! A step as a policy saw it, and what is told of it to clients that ask.

use tokenrouter_core::scheduler::Verdict;
use tokenrouter_core::{ModelIndex, TokenId};

use crate::served::Served;
use crate::stream::StepNote;

/// A row of a step: what its model wrote, what a policy was shown of it, and what is to become of it.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub(crate) at: ModelIndex,
    pub(crate) candidate: TokenId,
    /// All that was computed for the row.
    pub(crate) signals: &'a [f32],
    pub(crate) verdict: &'a Verdict,
}

impl Seen<'_> {
    /// What is told of it. `served` routes the request.
    pub(crate) fn note(self, served: Option<&Served>) -> StepNote {
        let to = match self.verdict {
            Verdict::Stay { .. } | Verdict::Fail(_) => self.at,
            Verdict::HandOff { to, .. } => *to,
        };
        // What a shadow asked for comes behind what the policy in force did.
        let columns = served.map_or(0, |served| served.generation().plan().columns(self.at));
        StepNote {
            model: self.at,
            candidate: self.candidate,
            signals: self.signals[..columns.min(self.signals.len())].into(),
            to,
        }
    }
}
