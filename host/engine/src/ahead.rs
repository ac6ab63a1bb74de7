//! What a model needs of a request that it writes ahead for, while the request itself is at another model.

use std::sync::Arc;

use tokenrouter_core::signal::Signal;
use tokenrouter_model::runner::Sampling;

use crate::seen::Seen;
use crate::served::Served;
use crate::stream::{AnswerWriter, Assumed, DraftWriter};

/// How its candidates are drawn, and who is asked about them. It holds the generation, as the request does.
pub(crate) struct TextAhead {
    pub(crate) sampling: Sampling,
    pub(crate) served: Arc<Served>,
    /// Whom to tell, if anybody wants to know.
    draft: Option<DraftWriter>,
}

impl std::fmt::Debug for TextAhead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut fields = f.debug_struct("TextAhead");
        fields
            .field("sampling", &self.sampling)
            .field("generation", &self.served.id());
        fields.finish()
    }
}

impl TextAhead {
    /// `None` if the policy looks at what only the request knows: the text committed so far.
    pub(crate) fn new(sampling: Sampling, served: &Arc<Served>, writer: &AnswerWriter) -> Option<Self> {
        let mut signals = served.generation().plan().signals.iter().flatten();
        let reads_text = signals.any(|signal| *signal == Signal::Newlines);
        (!reads_text).then(|| Self {
            sampling,
            served: served.clone(),
            draft: writer.draft(),
        })
    }

    /// A token is assumed.
    pub(crate) fn assumed(&self, assumed: Assumed) {
        if let Some(draft) = &self.draft {
            draft.push(assumed);
        }
    }

    /// Notes what the candidate that may be assumed next looked like to the policy, if the client wants to know.
    pub(crate) fn note_step(&self, step: Seen<'_>) {
        if let Some(draft) = self.draft.as_ref().filter(|draft| draft.keeps_steps()) {
            draft.stage(step.note(Some(&self.served)));
        }
    }
}
