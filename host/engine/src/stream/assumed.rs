//! What is assumed behind an answer's committed tokens: what of it a reader is shown, and the steps that wrote it.
//!
//! Models write ahead and settle on threads of their own, and a draft learns late that it was wrong. So the committed tokens
//! decide: one that is assumed leaves when it is committed, all leave when another is committed in its place, and a draft
//! that was found out adds nothing any more.

use std::collections::VecDeque;
use std::sync::Arc;

use tokenrouter_core::{ModelIndex, TokenId};

use super::{StepNote, Written};

/// A token that a model has written ahead. It becomes part of the answer if all before it does and, where another model is asked
/// about it, if that one writes it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assumed {
    /// The token.
    pub token: TokenId,
    /// The model that has written it ahead.
    pub model: ModelIndex,
    /// The model that is asked about it and whose token it will be; `None`: it is the writer's own.
    pub asked: Option<ModelIndex>,
}

/// What is to be kept of what is written ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// The tokens, for the reader.
    pub(crate) tokens: bool,
    /// The steps, for the tokens that they become.
    pub(crate) steps: bool,
}

#[derive(Debug)]
struct Entry {
    assumed: Assumed,
    /// The step that wrote it ahead; none for the first of a draft, whose step was the request's own.
    step: Option<StepNote>,
}

/// All that is assumed of one answer, behind its committed tokens.
#[derive(Debug)]
pub(crate) struct Assumptions {
    kept: Kept,
    /// Nothing is shown from one of these on: the answer would end with it.
    stop_tokens: Arc<[TokenId]>,
    /// Number of the last draft.
    draft: u64,
    /// Whether that draft is still believed.
    open: bool,
    entries: VecDeque<Entry>,
    /// The step that may write the next entry.
    step: Option<StepNote>,
    /// Whether the reader has not seen what is shown now.
    changed: bool,
}

impl Assumptions {
    /// `None` if nothing is to be kept.
    pub(crate) fn new(kept: Kept, stop_tokens: Arc<[TokenId]>) -> Option<Self> {
        (kept.tokens || kept.steps).then(|| Self {
            kept,
            stop_tokens,
            draft: 0,
            open: false,
            entries: VecDeque::new(),
            step: None,
            changed: false,
        })
    }

    /// A new draft replaces whatever there was. Returns its number.
    pub(super) fn begin(&mut self) -> u64 {
        self.drop_all();
        self.draft += 1;
        self.open = true;
        self.draft
    }

    /// Keeps a step of the draft, in case its token is assumed.
    pub(super) fn stage(&mut self, draft: u64, step: StepNote) {
        if self.believes(draft) {
            self.step = Some(step);
        }
    }

    /// The draft has one more token. Returns whether there is something new to show.
    pub(super) fn push(&mut self, draft: u64, assumed: Assumed) -> bool {
        if !self.believes(draft) {
            return false;
        }
        let step = self.step.take();
        self.entries.push_back(Entry { assumed, step });
        // Behind a token that ends the answer nothing is new.
        let news = self.kept.tokens && self.shown_entries().count() == self.entries.len();
        self.changed |= news;
        news
    }

    /// The draft is over. Returns whether there is something new to show.
    pub(super) fn end(&mut self, draft: u64) -> bool {
        self.believes(draft) && self.drop_all()
    }

    /// A token is committed, which also gets the step that wrote it ahead.
    pub(super) fn commit(&mut self, written: &mut Written) {
        let is_shown = self.shown_entries().next().is_some();
        match self.entries.pop_front() {
            Some(Entry { assumed, step }) if assumed.token == written.token => {
                self.changed |= self.kept.tokens && is_shown;
                // Of a token that another model was asked about, it was taken at the handoff.
                if assumed.asked.is_none() && assumed.model == written.model {
                    written.steps.extend(step);
                }
            }
            // Another token than was assumed, or one that the draft did not get to.
            _ => {
                self.changed |= self.kept.tokens && is_shown;
                self.drop_all();
            }
        }
    }

    /// The step in which `by` wrote the next token ahead, about which another model is asked now.
    pub(super) fn take_step(&mut self, by: ModelIndex) -> Option<StepNote> {
        let first = self.entries.front_mut()?;
        let is_asked = first.assumed.model == by && first.assumed.asked.is_some();
        first.step.take_if(|_| is_asked)
    }

    /// Nothing is assumed any more. Returns whether there is something new to show.
    pub(super) fn drop_all(&mut self) -> bool {
        let news = self.kept.tokens && self.shown_entries().next().is_some();
        self.changed |= news;
        self.entries.clear();
        self.step = None;
        self.open = false;
        news
    }

    /// Whether what is shown has changed since this was asked last.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// What the reader is shown.
    pub(super) fn shown(&self) -> Vec<Assumed> {
        if !self.kept.tokens {
            return Vec::new();
        }
        self.shown_entries().collect()
    }

    pub(super) fn keeps_steps(&self) -> bool {
        self.kept.steps
    }

    fn believes(&self, draft: u64) -> bool {
        self.open && self.draft == draft
    }

    fn shown_entries(&self) -> impl Iterator<Item = Assumed> {
        let assumed = self.entries.iter().map(|entry| entry.assumed);
        assumed.take_while(|assumed| !self.stop_tokens.contains(&assumed.token))
    }
}
