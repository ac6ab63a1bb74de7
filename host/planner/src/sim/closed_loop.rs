//! A closed loop, which is what a plan predicts: a request that ends is replaced at once, so as many as ever are there.

use tokenrouter_core::ahead::Optimistic;
use tokenrouter_core::draw::{Purpose, bits};
use tokenrouter_core::launch::LaunchRule;
use tokenrouter_core::limits::{KV_BLOCK_TOKENS, StepLimits};
use tokenrouter_core::policy::{Admission, Policy, PolicyFault};
use tokenrouter_core::{ModelIndex, TokenId};

use super::agreement::Agreement;
use super::latency::Latency;
use super::report::Report;
use super::routing::{SimPolicy, SimRouting};
use super::world::{SimRequest, Simulation, SimulationParts};

/// The prompt of every request.
pub const PROMPT: [TokenId; 1] = [1];

/// Tokens of every answer: so long that beginnings and ends hardly count.
pub const ANSWER_TOKENS: u32 = 1_000;

/// Share of the measured tokens that are written before measuring begins.
const WARM_UP: f64 = 0.05;

/// N requests with long answers that start at model 0 and want nothing but time: prompts of one token, KV for all, no bound
/// on a wait, no long stretches. What a plan leaves out stays out, except for what `latencies` and `routing` bring in.
#[derive(Clone, Debug)]
pub struct ClosedLoop {
    /// Step latency of each model.
    pub latencies: Vec<Latency>,
    /// How requests are routed.
    pub routing: SimRouting,
    /// When idle models launch.
    pub rule: LaunchRule,
    /// N, the requests that run at a time.
    pub requests: usize,
    /// Key of all draws.
    pub seed: u64,
    /// Whether the small model writes on while the large one decides.
    pub optimistic: Optimistic,
    /// Where both would write the same token.
    pub agreement: Agreement,
}

impl ClosedLoop {
    /// Measures over `tokens` tokens of all answers together, after a warm-up of a twentieth of them.
    pub fn measure(&self, tokens: u64) -> Report {
        let policy = SimPolicy::new(self.routing.clone(), self.latencies.len());
        let admission = Admission {
            model: ModelIndex(0),
            state: SimPolicy::first_state(),
        };
        self.measure_policy(tokens, Box::new(policy), |_| admission)
            .expect("simulated routing does not fail")
    }

    /// The same with a policy of any kind in place of `routing`. `admit` is given a request's seed and says where it starts.
    ///
    /// # Errors
    /// The policy's first fault.
    pub fn measure_policy(
        &self,
        tokens: u64,
        policy: Box<dyn Policy>,
        mut admit: impl FnMut(u64) -> Admission,
    ) -> Result<Report, PolicyFault> {
        let warm_up = (tokens as f64 * WARM_UP).ceil() as u64;
        // Room for what the last answers write beyond the tokens measured.
        let answers = (warm_up + tokens).div_ceil(ANSWER_TOKENS.into()) + self.requests as u64;
        let request = |index| {
            let seed = bits(self.seed, index, Purpose::Admission);
            SimRequest {
                seed,
                prompt: PROMPT.to_vec(),
                tokens_max: ANSWER_TOKENS,
                stop_token: None,
                admission: admit(seed),
                prefix_salt: None,
                arrives_us: 0,
                leaves_us: None,
            }
        };
        let requests: Vec<SimRequest> = (0..answers).map(request).collect();
        Simulation::with_policy(&self.parts(), policy, &requests).measure(warm_up, tokens)
    }

    fn parts(&self) -> SimulationParts {
        let kv_tokens = self.requests * (ANSWER_TOKENS as usize + 1).next_multiple_of(KV_BLOCK_TOKENS);
        SimulationParts {
            latencies: self.latencies.clone(),
            routing: self.routing.clone(),
            rule: self.rule.clone(),
            limits: StepLimits {
                rows_max: self.requests,
                long_tokens_max: usize::MAX,
                long_tokens_min: usize::MAX,
                // Half of all, so that adding it to a time does not overflow.
                wait_us_max: u64::MAX / 2,
            },
            concurrency: self.requests,
            kv_tokens,
            kv_tokens_promised: kv_tokens,
            optimistic: self.optimistic,
            agreement: self.agreement.clone(),
        }
    }
}
