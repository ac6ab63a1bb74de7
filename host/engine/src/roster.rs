//! All requests that are not over, by where they are: when a model's thread does not come back, those that it has can be
//! told, although their state is out of reach.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokenrouter_core::{ModelIndex, RequestId};

use crate::stream::AnswerHandle;

/// The requests of an engine. Locked once when a request comes and once when it goes.
#[derive(Debug, Default)]
pub(crate) struct Roster(Mutex<HashMap<RequestId, AnswerHandle>>);

impl Roster {
    fn entries(&self) -> MutexGuard<'_, HashMap<RequestId, AnswerHandle>> {
        // The map is whole between any two of its calls.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request has come.
    pub(crate) fn enter(&self, id: RequestId, answer: AnswerHandle) {
        self.entries().insert(id, answer);
    }

    /// It is gone.
    pub(crate) fn leave(&self, id: RequestId) {
        self.entries().remove(&id);
    }

    /// Ends the answers of all requests that are at `model`, and marks the requests as abandoned, so that they go when the
    /// model comes back. Returns how many there were.
    pub(crate) fn fail_at(&self, model: ModelIndex, reason: &str) -> usize {
        self.entries()
            .values()
            .filter(|answer| answer.fail_at(model, reason))
            .count()
    }
}
