//! A generation at work: what its requests hold on to, and what is counted of it.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokenrouter_core::request::GenerationId;
use tokenrouter_policy::{Generation, PolicyInstance};

use crate::engine::Shared;
use crate::link::Message;

/// A generation that an engine serves or has served. It lives for as long as somebody holds it: the engine's traffic, a
/// request that it routes, or whoever means to serve it again. With the last holder its code and instances go.
pub struct Served {
    id: GenerationId,
    name: String,
    generation: Generation,
    /// For `admit`, which runs on the caller's thread.
    admit: Mutex<PolicyInstance>,
    counters: Arc<ServedCounters>,
    expelled: AtomicBool,
    /// Who must let go of instances when nobody holds this any more.
    engine: Weak<Shared>,
}

/// What is counted of a generation.
#[derive(Debug, Default)]
pub(crate) struct ServedCounters {
    requests: AtomicU64,
    running: AtomicU32,
    faults: AtomicU64,
    last_fault: Mutex<Option<String>>,
}

impl ServedCounters {
    /// Counts faults of an instance; the text is kept for whoever asks why.
    #[cold]
    pub(crate) fn add_faults(&self, faults: u64, text: &str) {
        self.faults.fetch_add(faults, Ordering::Relaxed);
        *self.last_fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(text.to_owned());
    }
}

/// A generation at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedStats {
    /// Which.
    pub id: GenerationId,
    /// The name it is served by.
    pub name: String,
    /// SHA-256 of its component, in hexadecimal.
    pub digest: String,
    /// Requests it has routed, those that it routes now included.
    pub requests: u64,
    /// Requests it routes now, or only watches.
    pub running: u32,
    /// Calls into it that failed, by trap, limit or wrong answer.
    pub faults: u64,
    /// The last of them.
    pub last_fault: Option<String>,
    /// Whether its requests go on without it because its time to finish them was over.
    pub expelled: bool,
}

impl Served {
    pub(crate) fn new(id: GenerationId, name: String, generation: Generation, engine: Weak<Shared>) -> Self {
        Self {
            id,
            name,
            admit: Mutex::new(generation.instance()),
            generation,
            counters: Arc::default(),
            expelled: AtomicBool::new(false),
            engine,
        }
    }

    /// Which generation. Ids are never used twice.
    pub fn id(&self) -> GenerationId {
        self.id
    }

    /// The name in `deployment@name`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The component with its configuration.
    pub fn generation(&self) -> &Generation {
        &self.generation
    }

    /// From now on its requests meet the failure mode instead of it. For requests that take too long to end.
    pub fn expel(&self) {
        self.expelled.store(true, Ordering::Release);
    }

    /// It routes its requests again, those included that went on without it.
    pub fn readmit(&self) {
        self.expelled.store(false, Ordering::Release);
    }

    /// What is counted of it, now.
    pub fn stats(&self) -> ServedStats {
        let counters = &*self.counters;
        let last_fault = counters.last_fault.lock().unwrap_or_else(PoisonError::into_inner);
        ServedStats {
            id: self.id,
            name: self.name.clone(),
            digest: self.generation.digest().to_string(),
            requests: counters.requests.load(Ordering::Relaxed),
            running: counters.running.load(Ordering::Relaxed),
            faults: counters.faults.load(Ordering::Relaxed),
            last_fault: last_fault.clone(),
            expelled: self.is_expelled(),
        }
    }

    pub(crate) fn is_expelled(&self) -> bool {
        self.expelled.load(Ordering::Acquire)
    }

    pub(crate) fn counters(&self) -> &Arc<ServedCounters> {
        &self.counters
    }

    /// The instance for `admit`. It is whole after any call, also one that failed.
    pub(crate) fn admitting(&self) -> MutexGuard<'_, PolicyInstance> {
        self.admit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Served {
    /// Nobody asks for its instances any more: every subserver lets go of its own.
    fn drop(&mut self) {
        let Some(engine) = self.engine.upgrade() else { return };
        for link in &engine.links {
            drop(link.send(Message::Retire));
        }
    }
}

/// A request's hold on the generation that routes it, or watches it.
pub(crate) struct Lease(Arc<Served>);

impl Lease {
    pub(crate) fn new(served: Arc<Served>) -> Self {
        served.counters.requests.fetch_add(1, Ordering::Relaxed);
        served.counters.running.fetch_add(1, Ordering::Relaxed);
        Self(served)
    }

    pub(crate) fn served(&self) -> &Arc<Served> {
        &self.0
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.counters.running.fetch_sub(1, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Lease").field(&self.0.id).finish()
    }
}
