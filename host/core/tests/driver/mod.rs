//! Two schedulers driven as fast as they go: null models that answer at once, and the random policy at p = 0.35. What is
//! left is the scheduler's own cost.

use tokenrouter_core::ahead::{AheadCounts, Optimistic};
use tokenrouter_core::draw::{self, Purpose, uniform_f32};
use tokenrouter_core::kv::KvPool;
use tokenrouter_core::launch::{Decision, LaunchRule, ModelView, View};
use tokenrouter_core::limits::StepLimits;
use tokenrouter_core::policy::{
    Decisions, FailureMode, LeavingRow, Parcel, Policy, PolicyFault, PolicyState, RouteBatch,
};
use tokenrouter_core::prefix::PrefixSalt;
use tokenrouter_core::request::{Answer, Finish, GenerationId, Request};
use tokenrouter_core::route::{Policies, Routing, StepResult};
use tokenrouter_core::scheduler::{Action, Scheduler, Verdict};
use tokenrouter_core::signal::{Plan, Signal};
use tokenrouter_core::step::StepBatch;
use tokenrouter_core::{ModelIndex, RequestId, TokenId};

/// Probability that a step of the small model hands over.
const P: f32 = 0.35;
/// Words of the vocabulary.
const VOCABULARY: u32 = 1_000;
/// Probability that the large model writes what the small one would have written.
const AGREEMENT: f32 = 0.7;
/// Blocks of each KV pool.
const KV_BLOCKS: usize = 1 << 16;

struct Nobody;

impl Answer for Nobody {
    type Ahead = ();
    fn ahead(&self) -> Option<()> {
        Some(())
    }
    fn handed_over(&mut self, _: ModelIndex, _: ModelIndex) {}
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

/// Room in the buffers of whoever drives the schedulers: what they need at most depends on rare coincidences.
const BUFFERS: usize = 4_096;

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
    acting: Vec<Action<Nobody>>,
    now_us: u64,
    /// Candidates routed so far.
    pub routed: u64,
}

impl Driver {
    /// `requests` requests of at most `tokens_max` tokens.
    pub fn new(requests: usize, tokens_max: u32, optimistic: Optimistic) -> Self {
        let limits = StepLimits {
            long_tokens_min: usize::MAX,
            ..StepLimits::default()
        };
        let scheduler = |model| {
            Scheduler::new(ModelIndex(model), 2, LaunchRule::Eager, limits, KvPool::new(KV_BLOCKS))
                .with_optimistic(optimistic)
        };
        let plan = Plan {
            entry: ModelIndex(0),
            state_words: 0,
            signals: vec![vec![Signal::Uniform(0)], vec![Signal::Uniform(1)]],
            texts: false,
        };
        let mut driver = Self {
            schedulers: [scheduler(0), scheduler(1)],
            policy: RandomPolicy(plan),
            routing: Routing::foreseeing(optimistic != Optimistic::Off),
            views: Vec::with_capacity(BUFFERS),
            batch: limits.batch(KV_BLOCKS),
            candidates: Vec::with_capacity(BUFFERS),
            signals: Vec::with_capacity(BUFFERS),
            signal_starts: Vec::with_capacity(BUFFERS),
            finite: Vec::with_capacity(BUFFERS),
            verdicts: Vec::with_capacity(BUFFERS),
            actions: Vec::with_capacity(BUFFERS),
            acting: Vec::with_capacity(BUFFERS),
            now_us: 0,
            routed: 0,
        };
        for id in 0..requests as u64 {
            let mut request = Box::new(Request::new(RequestId(id), id, &[1, 2, 3], tokens_max, Nobody));
            request.generation = Some(GenerationId(0));
            request.prefix_salt = Some(PrefixSalt(0));
            driver.schedulers[0].arrive(0, request, &mut Vec::new());
        }
        driver
    }

    /// A step of each model that has something to do.
    #[allow(dead_code, reason = "the test runs models that are not equally fast")]
    pub fn round(&mut self) {
        for model in 0..2 {
            self.step(model);
        }
    }

    /// A step of the large model, and five of the small one meanwhile.
    #[allow(dead_code, reason = "the benchmark runs models that are equally fast")]
    pub fn uneven_round(&mut self) {
        (0..5).for_each(|_| self.step(0));
        self.step(1);
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
        let ends = self.batch.rows.iter().map(|row| (row.position + row.len, row.logits));
        let positions = ends.flat_map(|(end, logits)| end + 1 - logits..end + 1);
        for (row, position) in scheduler.candidates().zip(positions) {
            let position = u64::from(position);
            let agrees = uniform_f32(row.seed, position, Purpose::Choice) < AGREEMENT;
            let by = if agrees { ModelIndex(0) } else { at };
            self.candidates.push(draw::token(row.seed, position, by, VOCABULARY));
            self.signals
                .push(uniform_f32(row.seed, position, Purpose::Policy(at.0)));
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
        scheduler.settle(
            self.now_us,
            &self.candidates,
            &mut self.verdicts,
            self.routing.foreseen(),
            &mut self.actions,
        );
        // What arrives may move again, but is not received again.
        while !self.actions.is_empty() {
            std::mem::swap(&mut self.actions, &mut self.acting);
            for action in self.acting.drain(..) {
                match action {
                    Action::Send { to, mut request, kept } => {
                        let parcel = Parcel {
                            keep_candidate: kept,
                            state: request.state,
                        };
                        if let Ok(state) = self.policy.receive(to, at, &parcel) {
                            request.state = state;
                        }
                        self.schedulers[to.index()].arrive(self.now_us, request, &mut self.actions);
                    }
                    Action::Pass { to, request } => {
                        self.schedulers[to.index()].arrive(self.now_us, request, &mut self.actions);
                    }
                    Action::Assume {
                        at,
                        request,
                        position,
                        entry,
                    } => self.schedulers[at.index()].assume(request, position, entry),
                    Action::Settled {
                        to,
                        seat,
                        length,
                        goes_on,
                    } => self.schedulers[to.index()].settled(seat, length, goes_on),
                    Action::End { .. } => panic!("a request ended: give the driver more tokens"),
                }
            }
        }
    }

    #[allow(dead_code, reason = "the benchmark only measures time")]
    /// What has come of writing ahead at the small model and of settling at the large one.
    pub fn ahead_counts(&self) -> [AheadCounts; 2] {
        [0, 1].map(|model| self.schedulers[model].ahead_counts())
    }
}
