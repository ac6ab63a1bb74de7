//! The policies as one subserver holds them: an instance for every generation its requests use.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::{PoisonError, RwLock};

use tokenrouter_core::policy::{Policy, PolicyFault};
use tokenrouter_core::request::GenerationId;
use tokenrouter_core::route::Policies;
use tokenrouter_core::signal::Signal;
use tokenrouter_core::{ModelIndex, TokenId};
use tokenrouter_model::text::Tokenizer;
use tokenrouter_policy::{Generation, PolicyInstance};

use crate::stats::ModelCounters;

/// All generations of an engine, by id.
#[derive(Default)]
pub(crate) struct Registry(RwLock<Vec<Generation>>);

impl Registry {
    /// Adds a generation.
    pub(crate) fn add(&self, generation: Generation) -> GenerationId {
        let mut generations = self.0.write().unwrap_or_else(PoisonError::into_inner);
        generations.push(generation);
        GenerationId(generations.len() as u32 - 1)
    }

    /// The generation with this id.
    pub(crate) fn get(&self, id: GenerationId) -> Option<Generation> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(id.0 as usize)
            .cloned()
    }
}

/// One subserver's policies.
pub(crate) struct Generations {
    model: ModelIndex,
    registry: Arc<Registry>,
    tokenizer: Tokenizer,
    faults: Arc<ModelCounters>,
    instances: Vec<Option<PolicyInstance>>,
    /// Signals of plan 0 (none, for requests without a policy), then of generation 0, 1, …
    plans: Vec<Vec<Signal>>,
}

impl Generations {
    pub(crate) fn new(
        model: ModelIndex,
        registry: Arc<Registry>,
        tokenizer: Tokenizer,
        faults: Arc<ModelCounters>,
    ) -> Self {
        Self {
            model,
            registry,
            tokenizer,
            faults,
            instances: Vec::new(),
            plans: vec![Vec::new()],
        }
    }

    /// The signals to compute, to be indexed by [`Generations::plan_index`].
    pub(crate) fn plans(&self) -> &[Vec<Signal>] {
        &self.plans
    }

    /// Where a request's signals stand in [`Generations::plans`].
    pub(crate) fn plan_index(&mut self, generation: Option<GenerationId>) -> u32 {
        match generation {
            Some(id) if self.instance(id).is_some() => id.0 + 1,
            _ => 0,
        }
    }

    /// Throws all instances away: they may have been left in the middle of a call.
    pub(crate) fn renew(&mut self) {
        self.instances.clear();
    }

    fn instance(&mut self, id: GenerationId) -> Option<&mut PolicyInstance> {
        let index = id.0 as usize;
        if self.instances.get(index).is_none_or(Option::is_none) {
            let generation = self.registry.get(id)?;
            if self.instances.len() <= index {
                self.instances.resize_with(index + 1, || None);
                self.plans.resize(index + 2, Vec::new());
            }
            self.plans[index + 1] = generation.plan().signals[self.model.index()].clone();
            self.instances[index] = Some(generation.instance());
        }
        self.instances[index].as_mut()
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
        let counter: &AtomicU64 = &self.faults.policy_faults;
        ModelCounters::add(counter, 1);
        tracing::warn!(model = self.model.0, generation = generation.0, fault = %fault.0, "policy fault");
    }
}
