//! The policies as one subserver holds them: an instance for every generation its requests use, and the signals that their
//! steps need.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

use tokenrouter_core::policy::{Policy, PolicyFault};
use tokenrouter_core::request::GenerationId;
use tokenrouter_core::route::Policies;
use tokenrouter_core::signal::Signal;
use tokenrouter_core::{ModelIndex, TokenId};
use tokenrouter_model::text::Tokenizer;
use tokenrouter_policy::PolicyInstance;

use crate::served::{Served, ServedCounters};
use crate::stats::ModelCounters;
use crate::traffic::Routed;

/// One subserver's policies.
pub(crate) struct Generations {
    model: ModelIndex,
    tokenizer: Tokenizer,
    model_counters: Arc<ModelCounters>,
    slots: Vec<Slot>,
    /// What the signals of each plan but the first are for.
    keys: Vec<PlanKey>,
    /// Signals of plan 0 (none, for requests without a policy), then of each key.
    plans: Vec<Vec<Signal>>,
}

/// A generation's instance here. It stays for as long as anybody holds the generation.
struct Slot {
    id: GenerationId,
    served: Weak<Served>,
    instance: PolicyInstance,
    counters: Arc<ServedCounters>,
    /// Faults of the instance that have been counted.
    faults_counted: u64,
}

/// The generations whose signals a row gets: first those of the one in force, then those of the one that watches.
#[derive(Clone, Copy, PartialEq, Eq)]
struct PlanKey {
    active: GenerationId,
    shadow: Option<GenerationId>,
}

impl Generations {
    pub(crate) fn new(model: ModelIndex, tokenizer: Tokenizer, model_counters: Arc<ModelCounters>) -> Self {
        Self {
            model,
            tokenizer,
            model_counters,
            slots: Vec::new(),
            keys: Vec::new(),
            plans: vec![Vec::new()],
        }
    }

    /// The signals to compute, to be indexed by [`Generations::plan_index`].
    pub(crate) fn plans(&self) -> &[Vec<Signal>] {
        &self.plans
    }

    /// Makes room for the generations of a request that has come.
    pub(crate) fn take_in(&mut self, routed: &Routed) {
        let Some(lease) = &routed.lease else { return };
        self.slot_of(lease.served());
        if let Some(shadow) = &routed.shadow {
            self.slot_of(shadow.lease.served());
        }
    }

    /// Makes all instances anew: they may have been left in the middle of a call.
    pub(crate) fn renew(&mut self) {
        for slot in &mut self.slots {
            if let Some(served) = slot.served.upgrade() {
                slot.instance = served.generation().instance();
                // It counts from zero.
                slot.faults_counted = 0;
            }
        }
    }

    fn slot_of(&mut self, served: &Arc<Served>) {
        let id = served.id();
        let made = || Slot {
            id,
            served: Arc::downgrade(served),
            instance: served.generation().instance(),
            counters: served.counters().clone(),
            faults_counted: 0,
        };
        match self.slots.iter_mut().find(|slot| slot.id == id) {
            Some(slot) if slot.served.as_ptr() == Arc::as_ptr(served) => {}
            // It was let go of and has been loaded again before this subserver heard of the former.
            Some(slot) => *slot = made(),
            None => {
                self.slots.push(made());
                self.publish();
            }
        }
    }

    /// Where the signals of a request stand in [`Generations::plans`]. A request may lose its shadow between two steps.
    pub(crate) fn plan_index(&mut self, routed: &Routed) -> u32 {
        let Some(lease) = &routed.lease else { return 0 };
        let shadow = routed.shadow.as_ref().map(|shadow| shadow.lease.served());
        self.plan_index_of(lease.served(), shadow)
    }

    /// The same of a generation, and of one that watches.
    pub(crate) fn plan_index_of(&mut self, active: &Arc<Served>, shadow: Option<&Arc<Served>>) -> u32 {
        let key = PlanKey {
            active: active.id(),
            shadow: shadow.map(|served| served.id()),
        };
        let place = self.keys.iter().position(|found| *found == key);
        let place = place.unwrap_or_else(|| {
            let signals_here = |served: &Arc<Served>| served.generation().plan().signals[self.model.index()].clone();
            let mut signals = signals_here(active);
            signals.extend(shadow.into_iter().flat_map(signals_here));
            self.keys.push(key);
            self.plans.push(signals);
            self.keys.len() - 1
        });
        place as u32 + 1
    }

    /// Lets go of generations that nobody holds.
    pub(crate) fn retire(&mut self) {
        self.slots.retain(|slot| slot.served.strong_count() > 0);
        let slots = &self.slots;
        let is_here = |id: &GenerationId| slots.iter().any(|slot| slot.id == *id);
        let mut keep = self
            .keys
            .iter()
            .map(|key| is_here(&key.active) && key.shadow.as_ref().is_none_or(is_here))
            .collect::<Vec<_>>()
            .into_iter();
        let mut plans = std::mem::take(&mut self.plans).into_iter();
        self.plans.extend(plans.next());
        let keys = std::mem::take(&mut self.keys);
        for (key, plan) in keys.into_iter().zip(plans) {
            if keep.next() == Some(true) {
                self.keys.push(key);
                self.plans.push(plan);
            }
        }
        self.publish();
    }

    /// The instance of a generation, also of one that only watches.
    pub(crate) fn instance(&mut self, id: GenerationId) -> Option<&mut PolicyInstance> {
        let slot = self.slots.iter_mut().find(|slot| slot.id == id)?;
        // Between the last request's end and the message to let go, nobody asks.
        if slot.served.upgrade().is_none_or(|served| served.is_expelled()) {
            return None;
        }
        Some(&mut slot.instance)
    }

    /// Counts a fault of a generation, in force or watching.
    pub(crate) fn count_fault(&mut self, id: GenerationId, fault: &PolicyFault) {
        let Some(slot) = self.slots.iter_mut().find(|slot| slot.id == id) else {
            return;
        };
        // Calls that were refused because of the faults before them are none themselves, and not worth a line each.
        let faults = slot.instance.counts().faults;
        let new = faults - slot.faults_counted;
        slot.faults_counted = faults;
        if new == 0 {
            tracing::debug!(model = self.model.0, generation = id.0, fault = %fault.0, "policy not asked");
            return;
        }
        slot.counters.add_faults(new, &fault.0);
        tracing::warn!(model = self.model.0, generation = id.0, fault = %fault.0, "policy fault");
    }

    fn publish(&self) {
        ModelCounters::set(&self.model_counters.policy_instances, self.slots.len() as u64);
    }
}

impl Policies for Generations {
    fn policy(&mut self, generation: GenerationId) -> Option<&mut dyn Policy> {
        self.instance(generation).map(|instance| instance as &mut dyn Policy)
    }

    fn token_text(&self, token: TokenId) -> String {
        self.tokenizer.token_text(token)
    }

    fn fault(&mut self, generation: GenerationId, fault: &PolicyFault) {
        let counter: &AtomicU64 = &self.model_counters.policy_faults;
        ModelCounters::add(counter, 1);
        self.count_fault(generation, fault);
    }
}
