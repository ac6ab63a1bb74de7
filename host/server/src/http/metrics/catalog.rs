//! Every metric: its name, its type, what it means, and where it is read. Names follow vLLM's where the meaning is the same.

use std::sync::Arc;

use tokenrouter_engine::stats::{HistogramStats, ModelStats, Outcome, PolicyStats};
use tokenrouter_engine::{ComparisonReport, ServedStats};

use super::text::{Kind, Metric, Reading};

/// The engine as a whole.
pub(super) struct EngineView {
    pub(super) running: usize,
    pub(super) waiting: usize,
    pub(super) ready: bool,
    pub(super) started_s: u64,
}

/// One model.
pub(super) struct ModelView {
    pub(super) stats: ModelStats,
    pub(super) is_up: bool,
    pub(super) kv_tokens: usize,
}

/// One policy's requests.
pub(super) struct PolicyView {
    pub(super) stats: PolicyStats,
    /// The models' names as clients write them.
    pub(super) members: Arc<[String]>,
}

/// One loaded generation of a policy.
pub(super) struct GenerationView {
    pub(super) stats: ServedStats,
    /// What it is for.
    pub(super) role: &'static str,
    /// What it decided, if it watches.
    pub(super) shadow: Option<ComparisonReport>,
}

/// One row of [`ENGINE`], and so on.
type Entry<View> = (&'static str, Kind, &'static str, fn(&View) -> Reading);

const fn metric<View>((name, kind, help, read): Entry<View>) -> Metric<View> {
    Metric { name, kind, help, read }
}

/// Requests over HTTP, by route, method and status.
pub(super) const REQUESTS: Metric<u64> = metric((
    "tokenrouter_http_requests_total",
    Kind::Counter,
    "HTTP requests that have been responded to; of a stream, its beginning",
    |count| Reading::Count(*count),
));

/// Fields of requests that nobody knows, by name.
pub(super) const UNKNOWN_FIELDS: Metric<u64> = metric((
    "tokenrouter_unknown_fields_total",
    Kind::Counter,
    "Fields of requests that the server does not know, by name; a bounded number of names, then (others)",
    |count| Reading::Count(*count),
));

/// Of the engine.
pub(super) const ENGINE: &[Metric<EngineView>] = &[
    metric((
        "tokenrouter_ready",
        Kind::Gauge,
        "1 while requests are taken and all models work",
        |it| Reading::Count(it.ready.into()),
    )),
    metric((
        "tokenrouter_start_time_seconds",
        Kind::Gauge,
        "When the engine was started, since 1970",
        |it| Reading::Count(it.started_s),
    )),
    metric((
        "tokenrouter_num_requests_running",
        Kind::Gauge,
        "Requests that run",
        |it| Reading::Count(it.running as u64),
    )),
    metric((
        "tokenrouter_num_requests_waiting",
        Kind::Gauge,
        "Requests that wait to start",
        |it| Reading::Count(it.waiting as u64),
    )),
];

/// Of each model.
pub(super) const MODEL: &[Metric<ModelView>] = &[
    metric((
        "tokenrouter_model_up",
        Kind::Gauge,
        "1 unless the model stalls or restarts",
        |it| Reading::Count(it.is_up.into()),
    )),
    metric((
        "tokenrouter_model_restarts_total",
        Kind::Counter,
        "Times that the model was started anew after a panic",
        |it| Reading::Count(it.stats.restarts),
    )),
    metric((
        "tokenrouter_model_restart_failures_total",
        Kind::Counter,
        "Requests that failed by a panic of the model",
        |it| Reading::Count(it.stats.restart_failures),
    )),
    metric((
        "tokenrouter_model_requests_running",
        Kind::Gauge,
        "Requests in the model's running step",
        |it| Reading::Count(it.stats.running.into()),
    )),
    metric((
        "tokenrouter_model_requests_waiting",
        Kind::Gauge,
        "Requests that wait for the model's next step",
        |it| Reading::Count(it.stats.waiting.into()),
    )),
    metric((
        "tokenrouter_model_requests_pending",
        Kind::Gauge,
        "Requests that are elsewhere and keep their place at the model",
        |it| {
            let here = u64::from(it.stats.running + it.stats.waiting);
            Reading::Count(it.stats.seats_taken.saturating_sub(here))
        },
    )),
    metric((
        "tokenrouter_kv_cache_usage_perc",
        Kind::Gauge,
        "Share of the model's KV blocks in use, 0 to 1",
        |it| {
            let tokens = it.stats.kv_blocks_used as usize * tokenrouter_core::limits::KV_BLOCK_TOKENS;
            Reading::Number(tokens as f64 / it.kv_tokens.max(1) as f64)
        },
    )),
    metric((
        "tokenrouter_prefix_hits_total",
        Kind::Counter,
        "Requests of which the model held a part for another one when they came",
        |it| Reading::Count(it.stats.prefixes.hits),
    )),
    metric((
        "tokenrouter_prefix_tokens_total",
        Kind::Counter,
        "Tokens that were not fed to the model because it held them for another request",
        |it| Reading::Count(it.stats.prefixes.tokens),
    )),
    metric((
        "tokenrouter_prefix_blocks_retained",
        Kind::Gauge,
        "KV blocks that no request uses and that keep what they hold; they count as free",
        |it| Reading::Count(it.stats.kv_blocks_retained),
    )),
    metric((
        "tokenrouter_prefix_evictions_total",
        Kind::Counter,
        "Retained KV blocks that were given up because their memory was needed",
        |it| Reading::Count(it.stats.prefixes.given_up),
    )),
    metric((
        "tokenrouter_num_preemptions_total",
        Kind::Counter,
        "Times that a request lost its KV to an older one",
        |it| Reading::Count(it.stats.kv_evictions),
    )),
    metric(("tokenrouter_steps_total", Kind::Counter, "Steps of the model", |it| {
        Reading::Count(it.stats.steps)
    })),
    metric((
        "tokenrouter_tokens_fed_total",
        Kind::Counter,
        "Tokens fed to the model, prompts and tokens of other models included",
        |it| Reading::Count(it.stats.tokens_fed),
    )),
    metric((
        "tokenrouter_handoffs_total",
        Kind::Counter,
        "Requests that the model handed to another",
        |it| Reading::Count(it.stats.handoffs_out),
    )),
    metric((
        "tokenrouter_ahead_tokens_total",
        Kind::Counter,
        "Tokens that the model decoded ahead while another decided",
        |it| Reading::Count(it.stats.ahead.written),
    )),
    metric((
        "tokenrouter_ahead_tokens_dropped_total",
        Kind::Counter,
        "Tokens decoded ahead that were thrown away",
        |it| Reading::Count(it.stats.ahead.dropped),
    )),
    metric((
        "tokenrouter_settled_positions_total",
        Kind::Counter,
        "Positions that another model had decoded past and this one settled",
        |it| Reading::Count(it.stats.ahead.settled),
    )),
    metric((
        "tokenrouter_confirmed_positions_total",
        Kind::Counter,
        "Settled positions at which the model wrote what was assumed",
        |it| Reading::Count(it.stats.ahead.confirmed),
    )),
    metric((
        "tokenrouter_settling_steps_total",
        Kind::Counter,
        "Steps that settled at least one position",
        |it| Reading::Count(it.stats.ahead.settling_steps),
    )),
    metric((
        "tokenrouter_agreement",
        Kind::Gauge,
        "How often, of late, other models confirm what this one assumes, 0 to 1; measured while optimistic handoff is on",
        |it| Reading::Number(f64::from(it.stats.agreement_ppm) / 1e6),
    )),
    metric((
        "tokenrouter_policy_failures_total",
        Kind::Counter,
        "Calls into a policy at the model that failed",
        |it| Reading::Count(it.stats.policy_faults),
    )),
    metric((
        "tokenrouter_step_time_seconds",
        Kind::Histogram,
        "How long a step took, the policy's decision included",
        |it| times(&it.stats.step_times_us),
    )),
    metric(("tokenrouter_batch_size", Kind::Histogram, "Requests in a step", |it| {
        counts(&it.stats.batch_rows)
    })),
    metric((
        "tokenrouter_launch_wait_seconds",
        Kind::Histogram,
        "How long a request had waited at the model when its step was launched",
        |it| times(&it.stats.launch_waits_us),
    )),
    metric((
        "tokenrouter_route_time_seconds",
        Kind::Histogram,
        "How long the policies took to decide about a step",
        |it| times(&it.stats.route_times_us),
    )),
    metric((
        "tokenrouter_handoff_latency_seconds",
        Kind::Histogram,
        "From the decision to hand a request over until this model had it",
        |it| times(&it.stats.handoffs_in_us),
    )),
];

/// Of each policy's requests.
pub(super) const POLICY: &[Metric<PolicyView>] = &[
    metric((
        "tokenrouter_request_success_total",
        Kind::Counter,
        "Requests whose answers are whole, by how they ended",
        |it| finished(it, &[Outcome::Stop, Outcome::Length]),
    )),
    metric((
        "tokenrouter_request_failure_total",
        Kind::Counter,
        "Requests that ended early: the client left, or an error",
        |it| finished(it, &[Outcome::Cancelled, Outcome::Failed]),
    )),
    metric((
        "tokenrouter_prompt_tokens_total",
        Kind::Counter,
        "Tokens of the prompts of requests that have ended",
        |it| Reading::Count(it.stats.prompt_tokens.sum),
    )),
    metric((
        "tokenrouter_generation_tokens_total",
        Kind::Counter,
        "Tokens written, by the model that wrote them",
        |it| {
            let written = it.members.iter().cloned().zip(it.stats.tokens_by_model.iter().copied());
            Reading::By("written_by", written.collect())
        },
    )),
    metric((
        "tokenrouter_request_handoffs_total",
        Kind::Counter,
        "Handoffs of the requests that have ended",
        |it| Reading::Count(it.stats.handoffs),
    )),
    metric((
        "tokenrouter_time_to_first_token_seconds",
        Kind::Histogram,
        "From a request's submission to its first token",
        |it| times(&it.stats.first_token_us),
    )),
    metric((
        "tokenrouter_inter_token_latency_seconds",
        Kind::Histogram,
        "Between one token of an answer and the next",
        |it| times(&it.stats.inter_token_us),
    )),
    metric((
        "tokenrouter_request_time_per_output_token_seconds",
        Kind::Histogram,
        "The mean of that over an answer",
        |it| times(&it.stats.mean_token_us),
    )),
    metric((
        "tokenrouter_e2e_request_latency_seconds",
        Kind::Histogram,
        "From a request's submission to its end",
        |it| times(&it.stats.total_us),
    )),
    metric((
        "tokenrouter_request_queue_time_seconds",
        Kind::Histogram,
        "From a request's submission until it left the queue",
        |it| times(&it.stats.queue_us),
    )),
    metric((
        "tokenrouter_request_prompt_tokens",
        Kind::Histogram,
        "Tokens of a request's prompt",
        |it| counts(&it.stats.prompt_tokens),
    )),
    metric((
        "tokenrouter_request_generation_tokens",
        Kind::Histogram,
        "Tokens of a request's answer",
        |it| counts(&it.stats.answer_tokens),
    )),
];

/// Of each loaded generation of a policy. One that nobody holds any more is gone from here too.
pub(super) const GENERATION: &[Metric<GenerationView>] = &[
    metric((
        "tokenrouter_policy_generation_role",
        Kind::Gauge,
        "1 with what the generation is for: default, canary, shadow, by name, finishing, in reserve",
        |it| Reading::By("role", vec![(it.role.to_owned(), 1)]),
    )),
    metric((
        "tokenrouter_policy_generation_requests_total",
        Kind::Counter,
        "Requests that the generation has routed or watched",
        |it| Reading::Count(it.stats.requests),
    )),
    metric((
        "tokenrouter_policy_generation_requests_running",
        Kind::Gauge,
        "Requests that the generation routes or watches",
        |it| Reading::Count(it.stats.running.into()),
    )),
    metric((
        "tokenrouter_policy_generation_faults_total",
        Kind::Counter,
        "Calls into the generation that failed, which is what the breaker counts",
        |it| Reading::Count(it.stats.faults),
    )),
    metric((
        "tokenrouter_policy_shadow_steps_total",
        Kind::Counter,
        "Steps that the generation was asked about as the shadow",
        |it| shadowed(it, |report| &report.steps),
    )),
    metric((
        "tokenrouter_policy_shadow_disagreements_total",
        Kind::Counter,
        "Steps at which it would have sent the request elsewhere",
        |it| shadowed(it, |report| &report.disagreements),
    )),
];

fn shadowed(view: &GenerationView, by_model: fn(&ComparisonReport) -> &Vec<u64>) -> Reading {
    Reading::Count(view.shadow.as_ref().map_or(0, |report| by_model(report).iter().sum()))
}

fn finished(view: &PolicyView, outcomes: &[Outcome]) -> Reading {
    let count = |outcome: &Outcome| (outcome.name().to_owned(), view.stats.finished[*outcome as usize]);
    Reading::By("finished_reason", outcomes.iter().map(count).collect())
}

/// A histogram of microseconds, told in seconds.
fn times(stats: &HistogramStats) -> Reading {
    Reading::Histogram {
        stats: stats.clone(),
        unit: 1e-6,
    }
}

fn counts(stats: &HistogramStats) -> Reading {
    Reading::Histogram {
        stats: stats.clone(),
        unit: 1.0,
    }
}
