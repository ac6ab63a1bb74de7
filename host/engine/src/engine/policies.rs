//! The policies of an engine, and how they are replaced while requests run.

use std::sync::{Arc, PoisonError};

use tokenrouter_core::request::GenerationId;
use tokenrouter_policy::Generation;

use super::{Engine, EngineError};
use crate::served::{Served, ServedStats};
use crate::traffic::Traffic;

impl Engine {
    /// Makes a generation fit to be served by this engine under a name. Nothing is routed by it before
    /// [`Engine::set_traffic`] says so.
    ///
    /// An id belongs to one component with one configuration, for the life of the engine. A generation that was freed may be
    /// installed again; one that is held ([`Engine::held`]) must not be.
    ///
    /// # Errors
    /// [`EngineError::Plan`] if it was configured for another number of models.
    pub fn install(&self, id: GenerationId, name: &str, generation: Generation) -> Result<Arc<Served>, EngineError> {
        let planned = generation.plan().signals.len();
        if planned != self.names.len() {
            return Err(EngineError::Plan {
                policy: name.to_owned(),
                planned,
                models: self.names.len(),
            });
        }
        let served = Served::new(id, name.to_owned(), generation, Arc::downgrade(&self.shared));
        let served = Arc::new(served);
        let mut all = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|held| held.strong_count() > 0);
        all.push(Arc::downgrade(&served));
        Ok(served)
    }

    /// What new requests are routed by.
    pub fn traffic(&self) -> Arc<Traffic> {
        self.traffic.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Routes new requests by this from now on. Requests that have begun keep their generations to the end; a generation that
    /// nobody holds any more is freed.
    pub fn set_traffic(&self, traffic: Traffic) {
        let mut current = self.traffic.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *current, Arc::new(traffic));
        drop(current);
        // The last holder of a generation frees its code, which must not happen under the lock that submissions take.
        drop(before);
    }

    /// The generation with this id, if somebody holds it.
    pub fn held(&self, id: GenerationId) -> Option<Arc<Served>> {
        let all = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter()
            .filter_map(std::sync::Weak::upgrade)
            .find(|served| served.id() == id)
    }

    /// All generations that somebody holds, in the order they were installed.
    pub fn generations(&self) -> Vec<ServedStats> {
        let all = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        let held: Vec<_> = all.iter().filter_map(std::sync::Weak::upgrade).collect();
        drop(all);
        held.iter().map(|served| served.stats()).collect()
    }

    /// Takes the policies that the engine starts with as generations 1, 2, …
    pub(super) fn serve_at_first(&self, policies: Vec<(String, Generation)>) {
        let served = policies.into_iter().zip(1..).filter_map(|((name, generation), id)| {
            // Their plans were checked with the other parts.
            self.install(GenerationId(id), &name, generation).ok()
        });
        let policies = served.collect();
        self.set_traffic(Traffic {
            policies,
            ..Traffic::default()
        });
    }
}
