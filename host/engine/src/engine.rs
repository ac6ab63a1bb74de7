//! The engine: starts a thread for every model, takes jobs in, and takes everything back at the end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, bounded};
use tokenrouter_core::admission::{AdmissionLimits, Admissions};
use tokenrouter_core::kv::blocks_for;
use tokenrouter_core::launch::LaunchRule;
use tokenrouter_core::limits::{KV_BLOCK_TOKENS, MODELS_MAX, StepLimits};
use tokenrouter_core::policy::FailureMode;
use tokenrouter_core::request::{Answer, Request};
use tokenrouter_core::{ModelIndex, TokenId};
use tokenrouter_model::ModelError;
use tokenrouter_model::runner::{ModelInfo, Runner};
use tokenrouter_model::text::Tokenizer;
use tokenrouter_policy::Generation;

use crate::answer::TextAnswer;
use crate::board::Board;
use crate::generations::Registry;
use crate::job::{Job, SubmitError, Target};
use crate::link::{Link, Message};
use crate::replan::Replanner;
use crate::stats::{EngineStats, ModelCounters};
use crate::stream::AnswerStream;
use crate::subserver::{Subserver, SubserverParts};
use crate::trace::{TraceSink, Tracer};

mod submit;

use submit::Active;

/// Bounds of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineLimits {
    /// Most requests that run at once.
    pub requests_running_max: usize,
    /// Most requests that wait to start; one more is refused.
    pub requests_waiting_max: usize,
    /// Tokens in the KV pool of every model; rounded up to whole blocks.
    pub kv_tokens: usize,
    /// How much of the pool may be promised to running requests, in per cent. Each is promised its prompt and its longest
    /// answer. Above 100, requests that all use what they may take KV from younger ones, which compute it again.
    pub kv_promised_percent: usize,
    /// Bounds of a step and of waiting.
    pub step: StepLimits,
}

impl Default for EngineLimits {
    fn default() -> Self {
        Self {
            requests_running_max: 64,
            requests_waiting_max: 256,
            kv_tokens: 16_384,
            kv_promised_percent: 100,
            step: StepLimits::default(),
        }
    }
}

/// One model to serve.
pub struct EngineModel {
    /// Its name in the deployment.
    pub name: String,
    /// What runs it.
    pub runner: Box<dyn Runner>,
}

/// What an engine is made of.
pub struct EngineParts {
    /// The models, by custom from the smallest to the largest.
    pub models: Vec<EngineModel>,
    /// The tokenizer they share.
    pub tokenizer: Tokenizer,
    /// Policies by name; the first is the default. Without any, the first model answers alone.
    pub policies: Vec<(String, Generation)>,
    /// What happens to a request whose policy fails.
    pub on_fault: FailureMode,
    /// When idle models launch. [`LaunchRule::Planned`] is planned anew as the engine learns, whatever table it starts with.
    pub rule: LaunchRule,
    /// Bounds.
    pub limits: EngineLimits,
    /// Where a record of all decisions goes, if one is kept.
    pub trace: Option<TraceSink>,
}

/// Why an engine does not start.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// No model, or too many.
    #[error("a deployment has 1 to {MODELS_MAX} models, this one has {0}")]
    ModelCount(usize),
    /// A policy was configured for another deployment.
    #[error("policy \"{policy}\" was configured for {planned} models, the deployment has {models}")]
    Plan {
        /// The policy.
        policy: String,
        /// Models in its plan.
        planned: usize,
        /// Models of the deployment.
        models: usize,
    },
    /// A model did not get its KV pool.
    #[error("model \"{model}\": {source}")]
    Model {
        /// The model.
        model: String,
        /// What is wrong.
        source: Box<ModelError>,
    },
    /// No thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// A request and the model that it starts at.
type Admitted = (Box<Request<TextAnswer>>, ModelIndex);

/// What the engine's handle, its streams and its subservers share.
pub(crate) struct Shared {
    pub(crate) board: Board,
    pub(crate) links: Vec<Link>,
    admissions: Mutex<Admissions<Admitted>>,
    idle: Condvar,
    closing: AtomicBool,
    next_id: AtomicU64,
}

impl Shared {
    fn admissions(&self) -> MutexGuard<'_, Admissions<Admitted>> {
        // Admissions are whole between any two of its calls.
        self.admissions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends off as many waiting requests as may run.
    fn start_waiting(&self) {
        loop {
            let next = self.admissions().start_next();
            let Some(started) = next else { return };
            self.start(started);
        }
    }

    /// Sends a request to its first model.
    fn start(&self, ((mut request, entry), tokens): (Admitted, usize)) {
        request.answer.take_budget(tokens);
        self.board.add_waiting(entry, 1);
        if let Err(Message::Arrive { mut request, .. }) =
            self.links[entry.index()].send(Message::Arrive { request, from: None })
        {
            // That subserver is gone. The budget is given back here and not by dropping the request, which would start
            // the next one from within.
            self.board.sub_waiting(entry, 1);
            request.answer.forget_budget();
            self.admissions().ended(tokens);
            self.idle.notify_all();
        }
    }

    /// A client has left: a request that waits to start is taken out, one that waits at a model is looked for.
    fn abandon(&self) {
        let gone = self.admissions().remove(|(request, _)| request.answer.abandoned());
        drop(gone);
        self.idle.notify_all();
        // Those behind it may fit where it did not.
        self.start_waiting();
        for link in &self.links {
            drop(link.send(Message::Sweep));
        }
    }

    /// Ends everything: no new jobs, and what waits or runs is dropped, which tells its clients.
    pub(crate) fn stop(&self) {
        self.closing.store(true, Ordering::Release);
        drop(self.admissions().remove(|_| true));
        for link in &self.links {
            drop(link.send(Message::Stop));
        }
        self.idle.notify_all();
    }
}

/// A request's share of the budget, given back when it is dropped.
pub(crate) struct Slot {
    shared: Arc<Shared>,
    /// Tokens of the budget, once the request has started.
    pub(crate) taken: Option<usize>,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot")
            .field("taken", &self.taken)
            .finish_non_exhaustive()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let Some(tokens) = self.taken else { return };
        self.shared.admissions().ended(tokens);
        self.shared.idle.notify_all();
        self.shared.start_waiting();
    }
}

/// A deployment that runs. Dropping it ends it at once; [`Engine::drain`] first lets requests finish.
pub struct Engine {
    shared: Arc<Shared>,
    tokenizer: Tokenizer,
    stop_tokens: Arc<[TokenId]>,
    names: Vec<String>,
    infos: Vec<ModelInfo>,
    counters: Vec<Arc<ModelCounters>>,
    active: Vec<Active>,
    on_fault: FailureMode,
    limits: EngineLimits,
    trace: Option<TraceSink>,
    threads: Vec<JoinHandle<()>>,
    /// Stops the planner when it is dropped, if there is one.
    replanner: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Engine {
    /// Makes the KV pools and starts a thread for every model.
    ///
    /// # Errors
    /// [`EngineError`]: the parts do not fit together, or memory or threads are short.
    pub fn start(mut parts: EngineParts) -> Result<Self, EngineError> {
        let count = parts.models.len();
        check(&parts)?;
        let blocks = blocks_for(parts.limits.kv_tokens);
        parts.limits.kv_tokens = blocks * KV_BLOCK_TOKENS;
        for model in &mut parts.models {
            let name = &model.name;
            model.runner.allocate(blocks).map_err(|source| EngineError::Model {
                model: name.clone(),
                source: Box::new(source),
            })?;
        }
        let limits = parts.limits;
        let (links, inboxes): (Vec<_>, Vec<_>) = (0..count).map(|_| Link::new()).unzip();
        let shared = Arc::new(Shared {
            board: Board::new(count),
            links,
            admissions: Mutex::new(Admissions::new(AdmissionLimits {
                running_max: limits.requests_running_max,
                waiting_max: limits.requests_waiting_max,
                kv_tokens: limits.kv_tokens,
                kv_tokens_promised: limits.kv_tokens.saturating_mul(limits.kv_promised_percent) / 100,
            })),
            idle: Condvar::new(),
            closing: AtomicBool::new(false),
            next_id: AtomicU64::new(0),
        });
        let registry = Arc::new(Registry::default());
        let active = parts
            .policies
            .into_iter()
            .map(|(name, generation)| Active::new(name, generation, &registry))
            .collect();
        let infos: Vec<_> = parts.models.iter().map(|model| model.runner.info().clone()).collect();
        let mut engine = Self {
            shared,
            tokenizer: parts.tokenizer,
            stop_tokens: union_of_eos(&infos),
            names: parts.models.iter().map(|model| model.name.clone()).collect(),
            infos,
            counters: (0..count).map(|_| Arc::default()).collect(),
            active,
            on_fault: parts.on_fault,
            limits,
            trace: parts.trace,
            threads: Vec::new(),
            replanner: None,
        };
        for (index, (model, inbox)) in parts.models.into_iter().zip(inboxes).enumerate() {
            let subserver = Subserver::new(SubserverParts {
                model: ModelIndex(index as u32),
                runner: model.runner,
                rule: parts.rule.clone(),
                limits: limits.step,
                kv_blocks: blocks,
                inbox,
                shared: engine.shared.clone(),
                registry: registry.clone(),
                tokenizer: engine.tokenizer.clone(),
                on_fault: parts.on_fault,
                counters: engine.counters[index].clone(),
                tracer: engine
                    .trace
                    .clone()
                    .map(|sink| Tracer::new(sink, engine.tokenizer.clone())),
            });
            let thread = std::thread::Builder::new().name(format!("model-{}", model.name));
            engine.threads.push(thread.spawn(move || subserver.run())?);
        }
        if matches!(parts.rule, LaunchRule::Planned(_)) {
            engine.start_replanner()?;
        }
        Ok(engine)
    }

    fn start_replanner(&mut self) -> Result<(), EngineError> {
        let replanner = Replanner::new(
            self.counters.clone(),
            self.shared.clone(),
            self.active.first().map_or(0, Active::entry),
            self.limits.requests_running_max,
        );
        let (stop, stopped) = bounded(0);
        let thread = std::thread::Builder::new().name("planner".to_owned());
        self.replanner = Some((stop, thread.spawn(move || replanner.run(&stopped))?));
        Ok(())
    }

    /// The models' tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The models' names, in the deployment's order.
    pub fn model_names(&self) -> &[String] {
        &self.names
    }

    /// What is to be known of each model.
    pub fn model_infos(&self) -> &[ModelInfo] {
        &self.infos
    }

    /// Names of the active policies, the default first.
    pub fn policy_names(&self) -> impl Iterator<Item = &str> {
        self.active.iter().map(|active| active.name.as_str())
    }

    /// The engine's bounds, as they are in force.
    pub fn limits(&self) -> &EngineLimits {
        &self.limits
    }

    /// Tokens that prompt and answer may have together: the smallest context of the models.
    pub fn context_max(&self) -> u32 {
        self.infos.iter().map(|info| info.context_max).min().unwrap_or(0)
    }

    /// Changes the launch rule of all models.
    pub fn set_rule(&self, rule: &LaunchRule) {
        for link in &self.shared.links {
            drop(link.send(Message::Rule(rule.clone())));
        }
    }

    /// Counters now.
    pub fn stats(&self) -> EngineStats {
        let admissions = self.shared.admissions();
        let board = &self.shared.board;
        let models = self.counters.iter().zip(&self.names).zip((0..).map(ModelIndex));
        EngineStats {
            requests_running: admissions.running(),
            requests_waiting: admissions.waiting(),
            models: models
                .map(|((counters, name), model)| counters.read(name, board.waiting(model), board.running(model)))
                .collect(),
        }
    }

    /// Whether every model's thread runs and jobs are taken.
    pub fn is_ready(&self) -> bool {
        !self.shared.closing.load(Ordering::Acquire) && self.threads.iter().all(|thread| !thread.is_finished())
    }

    /// Takes no more jobs, and waits until all requests have ended or `limit` is over. Returns whether they have.
    pub fn drain(&self, limit: Duration) -> bool {
        self.shared.closing.store(true, Ordering::Release);
        let until = Instant::now() + limit;
        let mut admissions = self.shared.admissions();
        while admissions.running() + admissions.waiting() > 0 {
            let Some(left) = until.checked_duration_since(Instant::now()) else {
                return false;
            };
            admissions = self
                .shared
                .idle
                .wait_timeout(admissions, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        true
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.replanner.take() {
            drop(stop);
            drop(thread.join());
        }
        self.shared.stop();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so already.
            drop(thread.join());
        }
    }
}

fn check(parts: &EngineParts) -> Result<(), EngineError> {
    let models = parts.models.len();
    if models == 0 || models > MODELS_MAX {
        return Err(EngineError::ModelCount(models));
    }
    for (policy, generation) in &parts.policies {
        let planned = generation.plan().signals.len();
        if planned != models {
            return Err(EngineError::Plan {
                policy: policy.clone(),
                planned,
                models,
            });
        }
    }
    Ok(())
}

/// An answer ends with whatever ends one for any of the models, since any of them may write last.
fn union_of_eos(infos: &[ModelInfo]) -> Arc<[TokenId]> {
    let mut union: Vec<_> = infos.iter().flat_map(|info| info.eos.iter().copied()).collect();
    union.sort_unstable();
    union.dedup();
    union.into()
}
