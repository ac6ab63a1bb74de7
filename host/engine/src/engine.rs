//! The engine: starts a thread for every model, takes jobs in, and takes everything back at the end.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use tokenrouter_core::ahead::Optimistic;
use tokenrouter_core::kv::blocks_for;
use tokenrouter_core::launch::LaunchRule;
use tokenrouter_core::limits::{KV_BLOCK_TOKENS, MODELS_MAX, StepLimits};
use tokenrouter_core::policy::FailureMode;
use tokenrouter_core::{ModelIndex, TokenId};
use tokenrouter_model::ModelError;
use tokenrouter_model::runner::{ModelInfo, Runner};
use tokenrouter_model::text::Tokenizer;
use tokenrouter_policy::Generation;

use crate::answer::TextAnswer;
use crate::health::{NotReady, Watchdog};
use crate::job::{Job, SubmitError, Target};
use crate::link::{Link, Message};
use crate::replan::Replanner;
use crate::served::Served;
use crate::stats::{EngineStats, ModelCounters};
use crate::stream::AnswerStream;
use crate::subserver::{Subserver, SubserverParts};
use crate::timeline::StepRecord;
use crate::trace::{TraceSink, Tracer};
use crate::traffic::Traffic;

mod policies;
mod shared;
mod submit;

pub(crate) use shared::{Shared, Slot};

/// How long the threads may take to end with the engine. One that does not come back from a step is left behind.
const END_MAX: Duration = Duration::from_secs(5);

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
    /// How long a model may take for one step, in microseconds, before it counts as stalled.
    pub stall_us_max: u64,
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
            stall_us_max: 60_000_000,
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
    /// Policies by name, to begin with; the first is the default. Without any, the first model answers alone. They become
    /// the generations 1, 2, …
    pub policies: Vec<(String, Generation)>,
    /// What happens to a request whose policy fails.
    pub on_fault: FailureMode,
    /// When idle models launch. [`LaunchRule::Planned`] is planned anew as the engine learns, whatever table it starts with.
    pub rule: LaunchRule,
    /// Whether a model writes on while another decides. Not while a record is kept, which has one decision for each token.
    pub optimistic: Optimistic,
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

/// A deployment that runs. Dropping it ends it at once; [`Engine::drain`] first lets requests finish.
pub struct Engine {
    shared: Arc<Shared>,
    tokenizer: Tokenizer,
    stop_tokens: Arc<[TokenId]>,
    names: Vec<String>,
    infos: Vec<ModelInfo>,
    counters: Vec<Arc<ModelCounters>>,
    /// Replaced as a whole by [`Engine::set_traffic`].
    traffic: RwLock<Arc<Traffic>>,
    /// All generations that were made for this engine and are still held by somebody.
    served: Mutex<Vec<Weak<Served>>>,
    on_fault: FailureMode,
    limits: EngineLimits,
    trace: Option<TraceSink>,
    threads: Vec<JoinHandle<()>>,
    /// Disconnected when all of them have ended.
    ended: Receiver<()>,
    /// The watchdog, and the planner if there is one: each ends when its sender is dropped.
    helpers: Vec<(Sender<()>, JoinHandle<()>)>,
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
        let shared = Arc::new(Shared::new(links, &limits));
        let infos: Vec<_> = parts.models.iter().map(|model| model.runner.info().clone()).collect();
        let (alive, ended) = bounded(0);
        let mut engine = Self {
            shared,
            tokenizer: parts.tokenizer,
            stop_tokens: union_of_eos(&infos),
            names: parts.models.iter().map(|model| model.name.clone()).collect(),
            infos,
            counters: (0..count).map(|_| Arc::default()).collect(),
            traffic: RwLock::default(),
            served: Mutex::default(),
            on_fault: parts.on_fault,
            limits,
            trace: parts.trace,
            threads: Vec::new(),
            ended,
            helpers: Vec::new(),
        };
        engine.serve_at_first(parts.policies);
        let optimistic = match &engine.trace {
            Some(_) => Optimistic::Off,
            None => parts.optimistic,
        };
        for (index, (model, inbox)) in parts.models.into_iter().zip(inboxes).enumerate() {
            let subserver = Subserver::new(SubserverParts {
                model: ModelIndex(index as u32),
                name: model.name.clone(),
                runner: model.runner,
                rule: parts.rule.clone(),
                optimistic,
                limits: limits.step,
                kv_blocks: blocks,
                inbox,
                shared: engine.shared.clone(),
                tokenizer: engine.tokenizer.clone(),
                on_fault: parts.on_fault,
                counters: engine.counters[index].clone(),
                tracer: engine
                    .trace
                    .clone()
                    .map(|sink| Tracer::new(sink, engine.tokenizer.clone())),
            });
            let thread = std::thread::Builder::new().name(format!("model-{}", model.name));
            let alive = alive.clone();
            engine.threads.push(thread.spawn(move || {
                subserver.run();
                drop(alive);
            })?);
        }
        engine.start_watchdog()?;
        if matches!(parts.rule, LaunchRule::Planned(_)) {
            engine.start_replanner()?;
        }
        Ok(engine)
    }

    fn start_replanner(&mut self) -> Result<(), EngineError> {
        let replanner = Replanner::new(
            self.counters.clone(),
            self.shared.clone(),
            self.traffic()
                .policies
                .first()
                .map_or(0, |served| served.generation().plan().entry.index()),
            self.limits.requests_running_max,
        );
        self.start_helper("planner", move |stop| replanner.run(stop))
    }

    fn start_watchdog(&mut self) -> Result<(), EngineError> {
        let watchdog = Watchdog {
            shared: self.shared.clone(),
            names: self.names.clone(),
            stall_us_max: self.limits.stall_us_max,
        };
        self.start_helper("watchdog", move |stop| watchdog.run(stop))
    }

    fn start_helper(
        &mut self,
        name: &str,
        run: impl FnOnce(&Receiver<()>) + Send + 'static,
    ) -> Result<(), EngineError> {
        let (stop, stopped) = bounded(0);
        let thread = std::thread::Builder::new().name(name.to_owned());
        self.helpers.push((stop, thread.spawn(move || run(&stopped))?));
        Ok(())
    }

    /// The models' tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The tokens that end answers: those of all models.
    pub fn end_tokens(&self) -> &[TokenId] {
        &self.stop_tokens
    }

    /// The models' names, in the deployment's order.
    pub fn model_names(&self) -> &[String] {
        &self.names
    }

    /// What is to be known of each model.
    pub fn model_infos(&self) -> &[ModelInfo] {
        &self.infos
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
            policies: self.shared.meters.read(self.names.len()),
        }
    }

    /// Microseconds since the engine was started: the clock of [`Engine::steps`].
    pub fn now_us(&self) -> u64 {
        self.shared.board.now_us()
    }

    /// The newest `steps_max` steps of a model after its step number `after`, of the [`STEPS_KEPT`](crate::STEPS_KEPT) that
    /// are kept; oldest first.
    pub fn steps(&self, model: ModelIndex, after: u64, steps_max: usize) -> Vec<StepRecord> {
        let counters = self.counters.get(model.index());
        counters.map_or_else(Vec::new, |counters| counters.timeline.read(after, steps_max))
    }

    /// Whether jobs are taken and every model's thread has shown signs of life lately.
    ///
    /// # Errors
    /// [`NotReady`]: the first of the reasons why not.
    pub fn ready(&self) -> Result<(), NotReady> {
        if let Some(reason) = self.shared.failure() {
            return Err(NotReady::Stopped(reason));
        }
        if self.shared.closing.load(Ordering::Acquire) {
            return Err(NotReady::Draining);
        }
        self.model_troubles().into_iter().flatten().next().map_or(Ok(()), Err)
    }

    /// What is wrong with each model, in the deployment's order; `None` for one that works.
    pub fn model_troubles(&self) -> Vec<Option<NotReady>> {
        let (now_us, stall_us_max) = (self.shared.board.now_us(), self.limits.stall_us_max);
        let pulses = self.shared.pulses.iter().zip(&self.names);
        pulses
            .map(|(pulse, name)| pulse.trouble(name, now_us, stall_us_max))
            .collect()
    }

    /// Why nothing can be answered any more, if so: a model's thread could not be started anew.
    pub fn failure(&self) -> Option<String> {
        self.shared.failure()
    }

    /// Takes no more jobs; those that run or wait go on.
    pub fn close(&self) {
        self.shared.closing.store(true, Ordering::Release);
    }

    /// Takes no more jobs, and waits until all requests have ended or `limit` is over. Returns whether they have.
    pub fn drain(&self, limit: Duration) -> bool {
        self.close();
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
        for (stop, thread) in self.helpers.drain(..) {
            drop(stop);
            drop(thread.join());
        }
        self.shared.stop();
        if self.ended.recv_timeout(END_MAX) == Err(RecvTimeoutError::Timeout) {
            tracing::error!("a model's thread does not come back from its step and is left behind");
            return;
        }
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
