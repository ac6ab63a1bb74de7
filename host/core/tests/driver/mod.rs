//! Two schedulers driven as fast as they go: null models that answer at once, and the random policy at p = 0.35. What is
//! left is the scheduler's own cost.

use tokenrouter_core::draw::{self, Purpose, uniform_f32};
use tokenrouter_core::kv::KvPool;
use tokenrouter_core::launch::{Decision, LaunchRule, ModelView, View};
use tokenrouter_core::limits::StepLimits;
use tokenrouter_core::policy::{
    Decisions, FailureMode, LeavingRow, Parcel, Policy, PolicyFault, PolicyState, RouteBatch,
};
use tokenrouter_core::request::{Answer, Finish, GenerationId, Request};
use tokenrouter_core::route::{Policies, Routing, StepResult};
use tokenrouter_core::scheduler::{Action, Scheduler, Verdict};
use tokenrouter_core::signal::{Plan, Signal};
use tokenrouter_core::step::StepBatch;
use tokenrouter_core::{ModelIndex, RequestId, TokenId};

/// Probability that a step of the small model hands over.
const P: f32 = 0.35;
/// Blocks of each KV pool.
const KV_BLOCKS: usize = 1 << 16;

struct Nobody;

impl Answer for Nobody {
    fn commit(&mut self, _: TokenId, _: ModelIndex) -> Option<Finish> {
        None
    }
    fn abandoned(&self) -> bool {
        false
    }
}

struct RandomPolicy(Plan);

impl Policy for RandomPolicy {
    fn plan(&self) -> &Plan {
        &self.0
    }
    fn route(&mut self, at: ModelIndex, batch: &RouteBatch, out: &mut Decisions) -> Result<(), PolicyFault> {
        out.destinations.clear();
        out.state.clear();
        for row in 0..batch.rows() {
            let hand_over = at.0 == 0 && batch.signals[row] < P;
            out.destinations.push(ModelIndex(u32::from(hand_over)));
        }
        Ok(())
    }
    fn send(&mut self, at: ModelIndex, _: ModelIndex, row: LeavingRow<'_>) -> Result<Parcel, PolicyFault> {
        Ok(Parcel {
            keep_candidate: at.0 == 1,
            state: PolicyState::new(row.state),
        })
    }
    fn receive(&mut self, _: ModelIndex, _: ModelIndex, parcel: &Parcel) -> Result<PolicyState, PolicyFault> {
        Ok(parcel.state)
    }
}

impl Policies for RandomPolicy {
    fn policy(&mut self, _: GenerationId) -> Option<&mut dyn Policy> {
        Some(self)
    }
    fn token_text(&self, _: TokenId) -> String {
        String::new()
    }
    fn fault(&mut self, _: GenerationId, _: &PolicyFault) {}
}

/// Two models and a number of requests that never end within a measurement.
pub struct Driver {
    schedulers: [Scheduler<Nobody>; 2],
    policy: RandomPolicy,
    routing: Routing,
    views: Vec<ModelView>,
    batch: StepBatch,
    candidates: Vec<TokenId>,
    signals: Vec<f32>,
    signal_starts: Vec<u32>,
    finite: Vec<bool>,
    verdicts: Vec<Verdict>,
    actions: Vec<Action<Nobody>>,
    now_us: u64,
    /// Candidates routed so far.
    pub routed: u64,
}

impl Driver {
    /// `requests` requests of at most `tokens_max` tokens.
    pub fn new(requests: usize, tokens_max: u32) -> Self {
        let limits = StepLimits {
            long_tokens_min: usize::MAX,
            ..StepLimits::default()
        };
        let scheduler = |model| Scheduler::new(ModelIndex(model), 2, LaunchRule::Eager, limits, KvPool::new(KV_BLOCKS));
        let plan = Plan {
            entry: ModelIndex(0),
            state_words: 0,
            signals: vec![vec![Signal::Uniform(0)], vec![Signal::Uniform(1)]],
            texts: false,
        };
        let mut driver = Self {
            schedulers: [scheduler(0), scheduler(1)],
            policy: RandomPolicy(plan),
            routing: Routing::default(),
            views: Vec::new(),
            batch: limits.batch(KV_BLOCKS),
            candidates: Vec::new(),
            signals: Vec::new(),
            signal_starts: Vec::new(),
            finite: Vec::new(),
            verdicts: Vec::new(),
            actions: Vec::new(),
            now_us: 0,
            routed: 0,
        };
        for id in 0..requests as u64 {
            let mut request = Box::new(Request::new(RequestId(id), id, &[1, 2, 3], tokens_max, Nobody));
            request.generation = Some(GenerationId(0));
            driver.schedulers[0].arrive(0, request);
        }
        driver
    }

    /// A step of each model that has something to do.
    pub fn round(&mut self) {
        for model in 0..2 {
            self.step(model);
        }
    }

    fn step(&mut self, model: usize) {
        self.now_us += 1;
        self.views.clear();
        for scheduler in &self.schedulers {
            self.views.push(ModelView {
                waiting: scheduler.waiting() as u32,
                newcomers: scheduler.newcomers(ModelIndex(model as u32)),
                to_here: scheduler.probability(ModelIndex(model as u32)),
                ..ModelView::default()
            });
        }
        let view = View {
            now_us: self.now_us,
            models: &self.views,
            turn: ModelIndex(0),
        };
        let scheduler = &mut self.schedulers[model];
        if scheduler.launch(view, &mut self.batch) != Decision::Launch {
            return;
        }
        self.candidates.clear();
        self.signals.clear();
        self.signal_starts.clear();
        self.signal_starts.push(0);
        self.finite.clear();
        let at = ModelIndex(model as u32);
        for (row, request) in self.batch.rows.iter().zip(scheduler.candidates()) {
            let position = u64::from(row.position + row.len);
            self.candidates.push(draw::token(request.seed, position, at, 1_000));
            self.signals
                .push(uniform_f32(request.seed, position, Purpose::Policy(at.0)));
            self.signal_starts.push(self.signals.len() as u32);
            self.finite.push(true);
        }
        let result = StepResult {
            candidates: &self.candidates,
            signals: &self.signals,
            signal_starts: &self.signal_starts,
            finite: &self.finite,
        };
        self.routing.decide(
            at,
            &scheduler.candidates(),
            result,
            &mut self.policy,
            FailureMode::Fail,
            &mut self.verdicts,
        );
        self.routed += self.candidates.len() as u64;
        scheduler.settle(self.now_us, &self.candidates, &mut self.verdicts, &mut self.actions);
        for action in self.actions.drain(..) {
            match action {
                Action::Send { to, mut request, kept } => {
                    let parcel = Parcel {
                        keep_candidate: kept,
                        state: request.state,
                    };
                    if let Ok(state) = self.policy.receive(to, at, &parcel) {
                        request.state = state;
                    }
                    self.schedulers[to.index()].arrive(self.now_us, request);
                }
                Action::End { .. } => panic!("a request ended: give the driver more tokens"),
            }
        }
    }
}
