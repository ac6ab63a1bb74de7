//! The one place that changes policies: it checks what is asked, saves the new set, and then gives the engine its new traffic.
//! Changes are made one after the other; checking an upload happens before its turn, so that a slow one holds nobody up.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokenrouter_engine::{Canary, Comparison, Engine, GenerationId, Served, Shadow, Traffic};
use tokenrouter_policy::{Deployment, Digest, Generation, PolicyCode, PolicyHost};

use super::prepare::{Prepared, Workshop};
use super::set::Withdrawn;
use super::{
    Audit, BreakerLimits, Components, Entry, PolicySet, Record, Restored, SigningKey, Store, SwapError, Trial, now_ms,
    signature,
};
use crate::deployment::OptionValue;

mod changes;

pub use changes::{Activation, Change, Done, Upload};

/// Instances that are kept free for checking uploads.
const INSTANCES_SPARE: usize = 4;

/// Most generations that may be loaded at a time, whatever the number of instances.
const LIVE_MAX: usize = 32;

/// What a manager goes by.
#[derive(Clone, Debug)]
pub struct ManagerSettings {
    /// Keys whose signatures count.
    pub keys: Vec<SigningKey>,
    /// Whether an upload must be signed.
    pub require_signature: bool,
    /// How long requests of a generation that was replaced may take to end; then the failure mode applies to them.
    pub drain_max: Duration,
    /// When a failing policy is taken out.
    pub breaker: BreakerLimits,
}

impl Default for ManagerSettings {
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            require_signature: false,
            drain_max: Duration::from_secs(600),
            breaker: BreakerLimits::default(),
        }
    }
}

/// The policy that the deployment itself names.
pub struct First {
    /// Its name.
    pub name: String,
    /// The component.
    pub bytes: Arc<[u8]>,
    /// What it is configured with.
    pub options: BTreeMap<String, OptionValue>,
    /// The two together.
    pub generation: Generation,
}

/// What a manager is made of.
pub struct ManagerParts {
    /// The engine, which has no policies yet.
    pub engine: Arc<Engine>,
    /// Compiles uploads.
    pub host: Arc<PolicyHost>,
    /// What policies are configured for.
    pub deployment: Deployment,
    /// Bounds.
    pub settings: ManagerSettings,
    /// The state directory and what it held, if there is one.
    pub store: Option<(Store, Restored)>,
    /// Serves when the state directory has nothing to restore.
    pub first: Option<First>,
}

/// The policies of a running host.
pub struct Manager {
    pub(super) engine: Arc<Engine>,
    pub(super) settings: ManagerSettings,
    workshop: Workshop,
    audit: Audit,
    /// Held by the upload that is being checked.
    uploads: Mutex<()>,
    /// Held by the change that is being made.
    changes: Mutex<()>,
    /// Held while a set is saved, so only by those who change something.
    state: Mutex<State>,
    /// What of the state others see, so that nobody who looks waits for a disk.
    shown: Mutex<Shown>,
    persists: bool,
    live_max: usize,
}

/// What is in force.
#[derive(Clone, Default)]
pub(super) struct Shown {
    pub(super) set: PolicySet,
    /// What the present shadow decided, with its number.
    pub(super) comparison: Option<(u32, Arc<Comparison>)>,
}

pub(super) struct State {
    pub(super) set: PolicySet,
    /// Generations that are loaded because of the set.
    pub(super) served: BTreeMap<u32, Arc<Served>>,
    components: Components,
    store: Option<Store>,
    /// The last upload that was not activated yet; it stays loaded.
    staged: Option<u32>,
    /// What the present shadow decided, with its number.
    pub(super) comparison: Option<(u32, Arc<Comparison>)>,
    /// Generations that were replaced, and until when their requests may take.
    pub(super) leaving: Vec<(Weak<Served>, Instant)>,
}

impl Manager {
    /// Takes over an engine: with what the state directory holds, else with the deployment's own policy.
    ///
    /// # Errors
    /// The deployment's own policy cannot be served, or the audit log cannot be opened. What is wrong with a state directory's
    /// content is only logged.
    pub fn start(parts: ManagerParts) -> Result<Self, SwapError> {
        let (store, restored) = match parts.store {
            Some((store, restored)) => (Some(store), restored),
            None => (None, Restored::default()),
        };
        let audit = match &store {
            Some(store) => {
                let path = store.audit_path();
                Audit::open(&path).map_err(|source| super::StoreError::Io {
                    what: "open",
                    path,
                    source,
                })?
            }
            None => Audit::log_only(),
        };
        let models = parts.deployment.models.len();
        let instances = parts.host.limits().instances_max as usize;
        // A generation has an instance at every model, and one for `admit`.
        let live_max = (instances.saturating_sub(INSTANCES_SPARE) / (models + 1)).clamp(2, LIVE_MAX);
        let manager = Self {
            engine: parts.engine,
            settings: parts.settings,
            workshop: Workshop {
                host: parts.host,
                deployment: parts.deployment,
            },
            audit,
            uploads: Mutex::default(),
            changes: Mutex::default(),
            shown: Mutex::default(),
            persists: store.is_some(),
            state: Mutex::new(State {
                set: PolicySet::default(),
                served: BTreeMap::new(),
                components: Components::new(),
                store,
                staged: None,
                comparison: None,
                leaving: Vec::new(),
            }),
            live_max,
        };
        for refused in &restored.refused {
            tracing::error!("state directory: {refused}; the one before it is used");
        }
        if !manager.restore(restored)
            && let Some(first) = parts.first
        {
            manager.serve_first(first)?;
        }
        Ok(manager)
    }

    /// Serves what the state directory holds. Returns whether it does.
    fn restore(&self, restored: Restored) -> bool {
        let Some((set, components)) = restored.found else {
            return false;
        };
        let mut state = self.state();
        state.components = components;
        let loaded = self.load_missing(&state, &set);
        match loaded {
            Ok(loaded) => {
                state.served.extend(loaded);
                tracing::info!(
                    default = set.default.as_deref(),
                    generation = set.default_generation(),
                    policies = set.active.len(),
                    "policies of the state directory are served"
                );
                state.set = set;
                self.put_in_force(&mut state);
                true
            }
            Err(error) => {
                tracing::error!(%error, "the policies of the state directory cannot be served here; the deployment's own is");
                state.components = Components::new();
                state.set = PolicySet {
                    newest: set.newest,
                    ..PolicySet::default()
                };
                false
            }
        }
    }

    fn serve_first(&self, first: First) -> Result<(), SwapError> {
        let mut state = self.state();
        let digest = first.generation.digest();
        let record = Record {
            id: state.set.newest + 1,
            name: first.name,
            digest: digest.to_string(),
            options: first.options,
            signed_by: None,
            created_s: now_ms() / 1000,
            withdrawn: None,
        };
        let (id, name) = (record.id, record.name.clone());
        state.served.insert(id, self.install(id, &name, first.generation)?);
        state.components.insert(digest, first.bytes);
        state.set.add(record)?;
        state.set.activate(id, true);
        // Not saved: until somebody changes it, the deployment says what serves.
        self.put_in_force(&mut state);
        Ok(())
    }

    /// Makes a new set the one in force: on the disk, then in the engine. All it needs must be loaded.
    fn commit(&self, state: &mut State, mut set: PolicySet) -> Result<(), SwapError> {
        set.forget();
        if let Some(store) = &mut state.store {
            store.save(&set, &state.components)?;
        }
        state.set = set;
        let named: Vec<String> = state
            .set
            .generations
            .iter()
            .map(|record| record.digest.clone())
            .collect();
        state.components.retain(|digest, _| named.contains(&digest.to_string()));
        state.staged = state.staged.filter(|id| state.set.get(*id).is_some());
        self.put_in_force(state);
        let wanted = wanted(&state.set, state.staged);
        let until = Instant::now() + self.settings.drain_max;
        let gone: Vec<u32> = state.served.keys().copied().filter(|id| !wanted.contains(id)).collect();
        for served in gone.iter().filter_map(|id| state.served.remove(id)) {
            state.leaving.push((Arc::downgrade(&served), until));
        }
        state.leaving.retain(|(served, _)| served.strong_count() > 0);
        Ok(())
    }

    /// Gives the engine its traffic, and those who look on the new set.
    fn put_in_force(&self, state: &mut State) {
        let traffic = traffic(state, self.workshop.deployment.models.len());
        self.engine.set_traffic(traffic);
        *self.shown() = Shown {
            set: state.set.clone(),
            comparison: state.comparison.clone(),
        };
    }

    /// Loads what a set has in force and is not loaded.
    fn load_missing(&self, state: &State, set: &PolicySet) -> Result<Vec<(u32, Arc<Served>)>, SwapError> {
        let mut loaded = Vec::new();
        for id in set.in_force().filter(|id| !state.served.contains_key(id)) {
            if loaded.iter().any(|(found, _)| *found == id) {
                continue;
            }
            let Some(record) = set.get(id) else { continue };
            // Its last requests may still hold it.
            if let Some(held) = self.engine.held(GenerationId(id)) {
                held.readmit();
                loaded.push((id, held));
                continue;
            }
            let digest = record.digest.parse::<Digest>().ok();
            let bytes = digest
                .and_then(|digest| state.components.get(&digest))
                .cloned()
                .unwrap_or_default();
            let code = digest.and_then(|digest| code_at_hand(&state.served, digest));
            let prepared = self.workshop.prepare(&bytes, &record.options, code)?;
            loaded.push((id, self.install(id, &record.name, prepared.generation)?));
        }
        Ok(loaded)
    }

    fn install(&self, id: u32, name: &str, generation: Generation) -> Result<Arc<Served>, SwapError> {
        let installed = self.engine.install(GenerationId(id), name, generation);
        installed.map_err(|error| SwapError::Engine(error.to_string()))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // The state is changed by whole assignments, and every set in it is consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn shown(&self) -> MutexGuard<'_, Shown> {
        // Replaced as a whole.
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anything survives a restart.
    pub fn persists(&self) -> bool {
        self.persists
    }

    /// Largest component that is accepted, in bytes.
    pub fn component_bytes_max(&self) -> usize {
        self.workshop.host.limits().component_bytes_max
    }
}

/// Generations that stay loaded: what may route or watch, the default before the present one, so that going back needs no
/// compiling, and the last upload.
fn wanted(set: &PolicySet, staged: Option<u32>) -> Vec<u32> {
    set.in_force().chain(set.former.last().copied()).chain(staged).collect()
}

fn code_at_hand(served: &BTreeMap<u32, Arc<Served>>, digest: Digest) -> Option<PolicyCode> {
    let with_code = served.values().find(|served| served.generation().digest() == digest)?;
    Some(with_code.generation().code().clone())
}

/// The engine's traffic for a set whose generations are loaded.
fn traffic(state: &mut State, models: usize) -> Traffic {
    let set = &state.set;
    let served = |id: u32| state.served.get(&id).cloned();
    let default = set.default.as_deref();
    let of_default = set.active.iter().filter(|(name, _)| Some(name.as_str()) == default);
    let others = set.active.iter().filter(|(name, _)| Some(name.as_str()) != default);
    let policies = of_default.chain(others).filter_map(|(_, &id)| served(id)).collect();
    let canary = set.canary.and_then(|Trial { generation, share }| {
        let served = served(generation)?;
        Some(Canary { served, share })
    });
    let comparison = match (&set.shadow, &state.comparison) {
        (None, _) => None,
        (Some(trial), Some((id, comparison))) if trial.generation == *id => Some((*id, comparison.clone())),
        (Some(trial), _) => Some((trial.generation, Arc::new(Comparison::new(models)))),
    };
    let shadow = set.shadow.and_then(|Trial { generation, share }| {
        let comparison = comparison.as_ref()?.1.clone();
        let served = served(generation)?;
        Some(Shadow {
            served,
            share,
            comparison,
        })
    });
    state.comparison = comparison;
    Traffic {
        policies,
        canary,
        shadow,
    }
}
