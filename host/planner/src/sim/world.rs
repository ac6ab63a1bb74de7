//! The event loop: steps end, requests come and leave, idle models decide, time jumps to what happens next.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use tokenrouter_core::admission::{AdmissionLimits, Admissions, Refused};
use tokenrouter_core::ahead::{AheadCounts, Optimistic};
use tokenrouter_core::kv::{KvPool, PrefixCounts, blocks_for};
use tokenrouter_core::launch::{Decision, LaunchRule, ModelView, View, next_turn};
use tokenrouter_core::limits::{KV_BLOCK_TOKENS, StepLimits};
use tokenrouter_core::policy::{Admission, FailureMode, Parcel, Policy, PolicyFault};
use tokenrouter_core::prefix::PrefixSalt;
use tokenrouter_core::request::{Answer, Finish, GenerationId, Request};
use tokenrouter_core::route::{Policies, Routing, StepResult};
use tokenrouter_core::scheduler::{Action, Verdict};
use tokenrouter_core::{ModelIndex, RequestId, TokenId};

use super::agreement::Agreement;
use super::answer::{Commit, SimAnswer};
use super::latency::Latency;
use super::node::Node;
use super::report::Report;
use super::routing::{SimPolicy, SimRouting};

/// What a simulation is made of.
#[derive(Clone, Debug)]
pub struct SimulationParts {
    /// Step latency of each model.
    pub latencies: Vec<Latency>,
    /// How requests are routed.
    pub routing: SimRouting,
    /// When idle models launch.
    pub rule: LaunchRule,
    /// Bounds of a step and of waiting.
    pub limits: StepLimits,
    /// Most requests that run at once: the N of a closed loop.
    pub concurrency: usize,
    /// Tokens in every model's KV pool.
    pub kv_tokens: usize,
    /// Tokens that admission may promise; more than `kv_tokens` means that requests preempt each other.
    pub kv_tokens_promised: usize,
    /// Whether a model writes on while another decides.
    pub optimistic: Optimistic,
    /// Where all models would write the same token.
    pub agreement: Agreement,
}

/// A request to simulate.
#[derive(Clone, Debug)]
pub struct SimRequest {
    /// Key of its draws.
    pub seed: u64,
    /// Its prompt.
    pub prompt: Vec<TokenId>,
    /// Most tokens of its answer.
    pub tokens_max: u32,
    /// A token that ends the answer.
    pub stop_token: Option<TokenId>,
    /// The model it starts at, and its policy's first words about it.
    pub admission: Admission,
    /// Whose prefixes it shares; `None`: nobody's.
    pub prefix_salt: Option<PrefixSalt>,
    /// When it comes.
    pub arrives_us: u64,
    /// When its client leaves, if it does.
    pub leaves_us: Option<u64>,
}

/// How a simulated request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How.
    pub finish: Finish,
    /// Its answer.
    pub commits: Vec<Commit>,
    /// Handoffs.
    pub handoffs: u32,
}

/// A deployment in virtual time.
pub struct Simulation {
    nodes: Vec<Node>,
    policy: SimPolicies,
    routing: Routing,
    admissions: Admissions<(Box<Request<SimAnswer>>, ModelIndex)>,
    budgets: Vec<usize>,
    arrivals: VecDeque<(u64, Box<Request<SimAnswer>>, ModelIndex)>,
    departures: Vec<(u64, Rc<Cell<bool>>)>,
    outcomes: Vec<Option<Outcome>>,
    now_us: u64,
    turn: ModelIndex,
    sync: LaunchRule,
    committed: Rc<Cell<u64>>,
    concurrency: usize,
    verdicts: Vec<Verdict>,
    actions: Vec<Action<SimAnswer>>,
}

struct SimPolicies {
    policy: Box<dyn Policy>,
    /// The first, if it has failed.
    fault: Option<PolicyFault>,
}

impl Policies for SimPolicies {
    fn policy(&mut self, _: GenerationId) -> Option<&mut dyn Policy> {
        Some(&mut *self.policy)
    }
    fn token_text(&self, _: TokenId) -> String {
        String::new()
    }
    fn fault(&mut self, _: GenerationId, fault: &PolicyFault) {
        self.fault.get_or_insert_with(|| fault.clone());
    }
}

impl Simulation {
    /// A deployment and the requests that will come, in the order of their arrival. They are routed as the parts say.
    pub fn new(parts: &SimulationParts, requests: &[SimRequest]) -> Self {
        let policy = SimPolicy::new(parts.routing.clone(), parts.latencies.len());
        Self::with_policy(parts, Box::new(policy), requests)
    }

    /// The same with a policy of any kind, for example a component. Signals that a model would have to give are drawn evenly
    /// from [0, 1). `parts.routing` is not used.
    pub fn with_policy(parts: &SimulationParts, policy: Box<dyn Policy>, requests: &[SimRequest]) -> Self {
        let models = parts.latencies.len();
        let committed = Rc::new(Cell::new(0));
        let mut simulation = Self {
            nodes: (0..models as u32)
                .map(|index| Node::new(ModelIndex(index), parts))
                .collect(),
            policy: SimPolicies { policy, fault: None },
            routing: Routing::foreseeing(parts.optimistic != Optimistic::Off),
            admissions: Admissions::new(AdmissionLimits {
                running_max: parts.concurrency,
                waiting_max: usize::MAX,
                kv_tokens: blocks_for(parts.kv_tokens) * KV_BLOCK_TOKENS,
                kv_tokens_promised: parts.kv_tokens_promised,
            }),
            budgets: vec![0; requests.len()],
            arrivals: VecDeque::new(),
            departures: Vec::new(),
            outcomes: vec![None; requests.len()],
            now_us: 0,
            turn: ModelIndex(0),
            sync: parts.rule.clone(),
            committed,
            concurrency: parts.concurrency,
            verdicts: Vec::new(),
            actions: Vec::new(),
        };
        for (index, request) in requests.iter().enumerate() {
            simulation.announce(index, request);
        }
        simulation
            .departures
            .sort_by_key(|departure| std::cmp::Reverse(departure.0));
        simulation
    }

    fn announce(&mut self, index: usize, request: &SimRequest) {
        let abandoned = Rc::new(Cell::new(false));
        if let Some(leaves_us) = request.leaves_us {
            self.departures.push((leaves_us, abandoned.clone()));
        }
        let answer = SimAnswer::new(
            index,
            request.tokens_max,
            request.stop_token,
            abandoned,
            self.committed.clone(),
        );
        let id = RequestId(index as u64);
        let mut made = Box::new(Request::new(
            id,
            request.seed,
            &request.prompt,
            request.tokens_max,
            answer,
        ));
        made.generation = Some(GenerationId(0));
        made.prefix_salt = request.prefix_salt;
        made.state = request.admission.state;
        self.arrivals
            .push_back((request.arrives_us, made, request.admission.model));
    }

    /// Runs until every request has ended. Returns how, in their order.
    ///
    /// # Panics
    /// If nothing can happen any more while requests are still there: a scheduler that hangs.
    pub fn run(mut self) -> (Vec<Outcome>, Self) {
        self.run_while(|_| true);
        let outcomes = std::mem::take(&mut self.outcomes);
        let ended = outcomes.into_iter().enumerate().map(|(index, outcome)| {
            outcome.unwrap_or_else(|| panic!("request {index} hangs: nothing runs and nothing will happen"))
        });
        (ended.collect(), self)
    }

    /// Runs until `warm_up` tokens are written, and measures while `measured` more are.
    ///
    /// # Errors
    /// The policy's first fault.
    pub fn measure(mut self, warm_up: u64, measured: u64) -> Result<Report, PolicyFault> {
        self.run_while(|simulation| simulation.committed.get() < warm_up && simulation.policy.fault.is_none());
        let (from_us, from_tokens) = (self.now_us, self.committed.get());
        self.nodes.iter_mut().for_each(Node::reset);
        let until = warm_up + measured;
        self.run_while(|simulation| simulation.committed.get() < until && simulation.policy.fault.is_none());
        if let Some(fault) = self.policy.fault.take() {
            return Err(fault);
        }
        let seconds = (self.now_us - from_us) as f64 / 1e6;
        let tokens_per_s = (self.committed.get() - from_tokens) as f64 / seconds;
        Ok(Report {
            tokens_per_s,
            per_user_tokens_per_s: tokens_per_s / self.concurrency as f64,
            seconds,
            models: self.nodes.iter_mut().map(|node| node.report(seconds)).collect(),
        })
    }

    /// Blocks, seats and budget that are still taken; all 0 once every request has ended.
    pub fn still_taken(&self) -> (usize, usize, usize) {
        let pools = || self.nodes.iter().map(|node| node.scheduler.kv());
        (
            pools().map(|kv| kv.blocks_total() - kv.blocks_free()).sum(),
            pools().map(KvPool::seats_taken).sum(),
            self.admissions.running() + self.admissions.waiting(),
        )
    }

    /// How often KV was dropped to make room, at all models.
    pub fn evictions(&self) -> u64 {
        self.nodes.iter().map(|node| node.scheduler.kv().evictions()).sum()
    }

    /// What has come of sharing prefixes, at all models together.
    pub fn prefix_counts(&self) -> PrefixCounts {
        let counts = self.nodes.iter().map(|node| node.scheduler.kv().prefix_counts());
        counts.fold(PrefixCounts::default(), std::ops::Add::add)
    }

    /// What has come of decoding ahead, at all models together.
    pub fn ahead(&self) -> AheadCounts {
        let counts = self.nodes.iter().map(|node| node.scheduler.ahead_counts());
        counts.fold(AheadCounts::default(), std::ops::Add::add)
    }

    fn run_while(&mut self, go_on: impl Fn(&Self) -> bool) {
        while go_on(self) {
            self.happen();
            self.decide();
            let Some(next_us) = self.next_us() else { return };
            self.now_us = next_us;
        }
    }

    fn next_us(&self) -> Option<u64> {
        let steps = self.nodes.iter().filter_map(|node| node.ends_us);
        let wakes = self.nodes.iter().map(|node| node.wake_us).filter(|&us| us != u64::MAX);
        let arrival = self.arrivals.front().map(|arrival| arrival.0);
        let departure = self.departures.last().map(|departure| departure.0);
        steps.chain(wakes).chain(arrival).chain(departure).min()
    }

    /// All that happens now: clients leave, steps end, requests come.
    fn happen(&mut self) {
        while self
            .departures
            .last()
            .is_some_and(|departure| departure.0 <= self.now_us)
        {
            if let Some((_, abandoned)) = self.departures.pop() {
                abandoned.set(true);
                self.sweep();
            }
        }
        for model in 0..self.nodes.len() {
            if self.nodes[model].ends_us.is_some_and(|ends_us| ends_us <= self.now_us) {
                self.end_step(model);
            }
        }
        while self.arrivals.front().is_some_and(|arrival| arrival.0 <= self.now_us) {
            let Some((_, request, entry)) = self.arrivals.pop_front() else {
                break;
            };
            let length_max = request.length_max() as usize;
            if let Err(((request, _), refused)) = self.admissions.enqueue((request, entry), length_max) {
                assert_eq!(refused, Refused::NeverFits);
                self.close(&request, Finish::Failed("never fits".to_owned()));
            }
        }
        self.start_waiting();
    }

    fn start_waiting(&mut self) {
        while let Some(((request, entry), tokens)) = self.admissions.start_next() {
            self.budgets[request.answer.index] = tokens;
            self.arrive(entry, request);
        }
    }

    fn sweep(&mut self) {
        for (request, _) in self.admissions.remove(|(request, _)| request.answer.abandoned()) {
            self.close(&request, Finish::Cancelled);
        }
        for model in 0..self.nodes.len() {
            self.nodes[model].scheduler.sweep_abandoned(&mut self.actions);
            self.act(model);
        }
    }

    fn end_step(&mut self, model: usize) {
        let at = ModelIndex(model as u32);
        let node = &mut self.nodes[model];
        node.end_step(self.now_us);
        self.retime();
        let node = &mut self.nodes[model];
        let finite = vec![true; node.candidates.len()];
        let result = StepResult {
            candidates: &node.candidates,
            signals: &node.signals,
            signal_starts: &node.signal_starts,
            finite: &finite,
        };
        self.routing.decide(
            at,
            &node.scheduler.candidates(),
            result,
            &mut self.policy,
            FailureMode::Fail,
            &mut self.verdicts,
        );
        node.scheduler.settle(
            self.now_us,
            &node.candidates,
            &mut self.verdicts,
            self.routing.foreseen(),
            &mut self.actions,
        );
        self.act(model);
        if self.sync.is_synchronous() && self.turn == at {
            self.turn = next_turn(&self.sync, at, &self.views(at));
        }
    }

    /// A step has started or ended: steps that run go faster alone than beside another.
    fn retime(&mut self) {
        let running = self.nodes.iter().filter(|node| node.ends_us.is_some()).count();
        for node in &mut self.nodes {
            node.retime(self.now_us, running > 1);
        }
    }

    fn act(&mut self, model: usize) {
        let mut actions = std::mem::take(&mut self.actions);
        for action in actions.drain(..) {
            match action {
                Action::Send { to, kept, mut request } => {
                    let parcel = Parcel {
                        keep_candidate: kept,
                        state: request.state,
                    };
                    let from = ModelIndex(model as u32);
                    match self.policy.policy.receive(to, from, &parcel) {
                        Ok(state) => request.state = state,
                        Err(fault) => self.policy.fault(GenerationId(0), &fault),
                    }
                    self.arrive(to, request);
                }
                Action::Pass { to, request } => self.arrive(to, request),
                Action::Assume {
                    at,
                    request,
                    position,
                    entry,
                } => self.nodes[at.index()].scheduler.assume(request, position, entry),
                Action::Settled {
                    to,
                    seat,
                    length,
                    goes_on,
                } => self.nodes[to.index()].scheduler.settled(seat, length, goes_on),
                Action::End { request, finish } => {
                    let length = request.tokens().len() as u32;
                    for (peer, seat) in request.seats().filter(|(peer, _)| peer.index() != model) {
                        self.nodes[peer.index()].scheduler.forget(seat, length);
                    }
                    self.admissions.ended(self.budgets[request.answer.index]);
                    self.close(&request, finish);
                }
            }
        }
        self.actions = actions;
        self.start_waiting();
    }

    /// A request comes to a model, and may go on from there at once.
    fn arrive(&mut self, at: ModelIndex, request: Box<Request<SimAnswer>>) {
        let mut actions = Vec::new();
        self.nodes[at.index()]
            .scheduler
            .arrive(self.now_us, request, &mut actions);
        if !actions.is_empty() {
            let waiting = std::mem::replace(&mut self.actions, actions);
            self.act(at.index());
            self.actions = waiting;
        }
    }

    fn close(&mut self, request: &Request<SimAnswer>, finish: Finish) {
        let outcome = Outcome {
            finish,
            commits: request.answer.commits.clone(),
            handoffs: request.handoffs(),
        };
        let before = self.outcomes[request.answer.index].replace(outcome);
        assert_eq!(before, None, "request {} ended twice", request.answer.index);
    }

    fn views(&self, reader: ModelIndex) -> Vec<ModelView> {
        self.nodes.iter().map(|node| node.view(reader, self.now_us)).collect()
    }

    /// Idle models decide, until none of them launches any more.
    fn decide(&mut self) {
        let mut changed = true;
        while changed {
            changed = false;
            for model in 0..self.nodes.len() {
                changed |= self.nodes[model].ends_us.is_none() && self.decide_at(model);
            }
        }
    }

    fn decide_at(&mut self, model: usize) -> bool {
        let at = ModelIndex(model as u32);
        let models = self.views(at);
        let idle = models.iter().all(|model| model.running + model.ahead == 0);
        if self.sync.is_synchronous() && idle && models[self.turn.index()].waiting == 0 {
            self.turn = next_turn(&self.sync, self.turn, &models);
        }
        let view = View {
            now_us: self.now_us,
            models: &models,
            turn: self.turn,
        };
        let node = &mut self.nodes[model];
        node.wake_us = u64::MAX;
        match node.scheduler.launch(view, &mut node.batch) {
            Decision::Launch => {
                node.start_step(self.policy.policy.plan(), self.now_us);
                self.retime();
                true
            }
            Decision::Wait { until_us } => {
                node.wake_us = until_us;
                if self.sync.is_synchronous() && idle && self.turn == at && models[model].waiting > 0 {
                    // Its requests need KV that older ones hold, which wait at another model.
                    self.turn = next_turn(&LaunchRule::StepSync, at, &models);
                    return self.turn != at;
                }
                // Others that hold back as well decide anew once they see it.
                node.hold_back()
            }
        }
    }
}
