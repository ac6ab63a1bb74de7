//! Arguments of `simulate`.

use std::path::PathBuf;

use clap::Args;
use tokenrouter_core::ahead::Optimistic;
use tokenrouter_core::launch::{LaunchRule, ThresholdTable};
use tokenrouter_host::deployment::{Launch, parse_setting};
use tokenrouter_planner::sim::{Agreement, Latency, SimRouting};
use tokenrouter_policy::{Generation, Setting};

use super::agreement::AgreementInput;
use super::recorded::RecordedRows;
use super::routing::RoutingRule;
use super::rules::RuleList;
use super::{component, latency_file};
use crate::cli::numbers::{SEEDS, whole};
use crate::cli::workload::{self, Concurrency, Handover, Milliseconds, Weights};

/// Shown below the options.
pub(in crate::cli) const SIMULATE_EXAMPLES: &str = "\
Example: is a planned threshold better than launching at once, and is look-ahead without a plan?
  $ tokenrouter-host simulate --latency-ms 6.0,27.9 --p 0.35 --concurrency 8
  N           launch  tokens/s  per user  rows a step    busy %  wait p50 ms         p95         p99
  8            eager     367.9      46.0  2.58 / 3.62  86 / 100   0.0 / 15.9  2.4 / 25.5  4.5 / 27.6
     threshold (1,5)     397.4      49.7  2.97 / 5.57   80 / 70    0.0 / 6.0  2.1 / 36.0  2.1 / 42.0
           lookahead     402.5      50.3  3.17 / 5.57   76 / 71    0.0 / 6.0  0.0 / 33.9  3.9 / 39.9

More examples:
  tokenrouter-host simulate --latency-ms 6.0,27.9 --routing bursty:0.10,0.85,0.05 --concurrency 8
      Hand-overs in bursts.
  tokenrouter-host simulate --latency-file config/latency.toml --p 0.35 --launch eager,threshold:1,3
      Latencies by rows, and models that slow each other down.
  tokenrouter-host simulate --latency-ms 6.0,27.9 --routing trace:handovers.txt --launch step-sync
      Hand-overs as recorded: 0010010... for the steps of the small model.
  tokenrouter-host simulate --latency-ms 6.0,27.9 --plugin random --plugin-config share=0.35
      A real policy component decides.
  tokenrouter-host simulate --latency-ms 6.0,27.9 --plugin r-stitch --trace trace.jsonl
      The same with signals of real models, as serve --record wrote them.

The scheduler is the one that serves; only models and clock are replaced. Prompts have one token,
answers 1,000; a request that ends is replaced at once. The same command prints the same.";

/// Options of `simulate`.
#[derive(Debug, Args)]
pub(in crate::cli) struct SimulateArgs {
    #[command(flatten)]
    latency: StepTimes,
    #[command(flatten)]
    routing: SimulatedRouting,
    /// An option of the --plugin; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_setting)]
    plugin_config: Vec<Setting>,
    /// Give the --plugin signals that were recorded (by serve --record), drawn row by row, instead of even draws; the trace must
    /// be of as many models
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Numbers N of requests that are there at a time: N, A..B (both included), or a list of these
    #[arg(long, value_name = "N", default_value = "1,2,4,8,16", allow_hyphen_values = true)]
    pub(super) concurrency: Concurrency,
    /// Launch rules to compare, separated by commas: eager, threshold (planned for each N), threshold:B0,B1,..., lookahead,
    /// step-sync, model-sync [default: eager,threshold,lookahead; with --plugin, whose thresholds cannot be planned,
    /// eager,lookahead]
    #[arg(long, value_name = "RULE,...")]
    launch: Vec<RuleList>,
    /// Whether the small model writes on while the large one decides, to be compared, separated by commas: off, auto, window:K
    /// (at most K tokens ahead)
    #[arg(long, value_name = "SETTING,...", default_value = "off", value_delimiter = ',')]
    pub(super) optimistic: Vec<Optimistic>,
    /// Probability that the large model writes what the small one would have written, or trace:FILE: where it did in a trace of
    /// serve --record, with runs as long as they were there; of use with --optimistic
    #[arg(long, value_name = "A", default_value = "0.7")]
    agreement: AgreementInput,
    /// Tokens to measure over, all requests together, after a warm-up of a twentieth of them
    #[arg(long, value_name = "TOKENS", default_value_t = 60_000, value_parser = whole(1_000..=10_000_000_u64))]
    pub(super) tokens: u64,
    /// Key of all draws: the same seed gives the same result
    #[arg(long, value_name = "SEED", default_value_t = 0, value_parser = whole(SEEDS))]
    pub(super) seed: u64,
    /// Print as JSON: an array of one object for each N and rule
    #[arg(long)]
    pub(super) json: bool,
}

/// How long steps take; one of these.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct StepTimes {
    /// How long every step takes at each model, the small one first, in milliseconds; or paper: 6.0,27.9, the
    /// TokenRouter paper's Qwen3-0.6B and 32B
    #[arg(long, value_name = "MS,MS,...", allow_hyphen_values = true)]
    latency_ms: Option<Milliseconds>,
    /// Latencies by rows, by tokens, and beside another model's step, as TOML or (FILE.json) JSON; config/latency.toml is an
    /// example that explains the keys
    #[arg(long, value_name = "FILE")]
    latency_file: Option<PathBuf>,
}

/// How requests move between the models; one of these.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct SimulatedRouting {
    /// Two models. P: probability that a step of the small one hands over; the large one then writes one token and hands
    /// back (R2R, CITER, Co-LLM, random). P,Q: it goes on until it hands back with probability Q (r-stitch)
    #[arg(long, value_name = "P[,Q]", allow_hyphen_values = true)]
    p: Option<Handover>,
    /// Any number of models that are drawn by these weights for every token (ME)
    #[arg(long, value_name = "W,W,...", allow_hyphen_values = true)]
    weights: Option<Weights>,
    /// Two models. handback:P is --p P;
    /// bursty:CALM,STORM,FLIP hands over with probability CALM or STORM, and changes between the two with probability FLIP;
    /// stretches:P,S,L lets the large model write L tokens with probability P, else the small one S (GlimpRouter);
    /// trace:FILE hands over as recorded, one 0 or 1 for each step of the small model, as plain digits or a JSON array
    #[arg(long, value_name = "ROUTING")]
    routing: Option<RoutingRule>,
    /// A real policy: the name of one in this binary, or a .wasm file. What it asks of the models (entropies, scores) is drawn
    /// evenly from 0 to 1 for every step, so a threshold becomes a probability
    #[arg(long, value_name = "POLICY")]
    plugin: Option<String>,
}

/// What is to be simulated.
pub(super) struct Workload {
    pub(super) latencies: Vec<Latency>,
    pub(super) route: Route,
    pub(super) agreement: Agreement,
}

/// Who decides where requests go.
pub(super) enum Route {
    Simulated(SimRouting),
    Component {
        generation: Generation,
        /// Signals to draw from.
        recorded: Option<RecordedRows>,
    },
}

impl SimulateArgs {
    /// The launch rules, in the order they were given.
    pub(super) fn rules(&self) -> Vec<Launch> {
        if self.launch.is_empty() {
            let eager = Launch(LaunchRule::Eager);
            let lookahead = Launch(LaunchRule::Lookahead);
            let planned = Launch(LaunchRule::Planned(ThresholdTable::default()));
            return match self.routing.plugin {
                Some(_) => vec![eager, lookahead],
                None => vec![eager, planned, lookahead],
            };
        }
        self.launch.iter().flat_map(|list| list.0.iter().cloned()).collect()
    }

    /// Latencies and routing, once their files are read and they fit each other.
    pub(super) fn workload(&self) -> anyhow::Result<Workload> {
        let (option, latencies) = match (&self.latency.latency_ms, &self.latency.latency_file) {
            (Some(given), _) => (
                "--latency-ms".to_owned(),
                given.0.iter().map(|ms| Latency::Constant(ms * 1e3)).collect(),
            ),
            (None, Some(path)) => (format!("--latency-file {}", path.display()), latency_file::read(path)?),
            (None, None) => anyhow::bail!("one of --latency-ms and --latency-file is needed"),
        };
        let agreement = self.agreement.load()?;
        if let Some(plugin) = &self.routing.plugin {
            let generation = component::load(plugin, &self.plugin_config, latencies.len())?;
            let recorded = self
                .trace
                .as_deref()
                .map(|path| RecordedRows::read(path, generation.plan()));
            let route = Route::Component {
                recorded: recorded.transpose()?,
                generation,
            };
            return Ok(Workload {
                latencies,
                route,
                agreement,
            });
        }
        anyhow::ensure!(
            self.plugin_config.is_empty(),
            "--plugin-config sets options of a --plugin; there is none"
        );
        // Said here: where another option of its group is given, clap does not ask for --plugin.
        anyhow::ensure!(
            self.trace.is_none(),
            "--trace gives recorded signals to a --plugin; there is none"
        );
        let routing = self.routing.simulated()?;
        let models = match &routing {
            SimRouting::Matrix { p, .. } => p.len(),
            _ => 2,
        };
        workload::check_models(&option, latencies.len(), models)?;
        Ok(Workload {
            latencies,
            route: Route::Simulated(routing),
            agreement,
        })
    }

    /// The workload in a line.
    pub(super) fn describe(&self) -> String {
        let latency = match (&self.latency.latency_ms, &self.latency.latency_file) {
            (Some(ms), _) => format!("steps of {ms} ms"),
            (None, path) => format!("steps as in {}", path.as_deref().unwrap_or("".as_ref()).display()),
        };
        let SimulatedRouting {
            p,
            weights,
            routing,
            plugin,
        } = &self.routing;
        let handover = p.iter().map(Handover::to_string);
        let names = handover
            .chain(weights.iter().map(Weights::to_string))
            .chain(routing.iter().map(RoutingRule::to_string))
            .chain(plugin.iter().map(|plugin| format!("routed by {plugin}")));
        format!(
            "{latency}, {}, {} tokens measured, seed {}",
            names.collect::<String>(),
            self.tokens,
            self.seed
        )
    }
}

impl SimulatedRouting {
    fn simulated(&self) -> anyhow::Result<SimRouting> {
        let matrices = match (&self.p, &self.weights, &self.routing) {
            (Some(handover), ..) => handover.routing(),
            (None, Some(weights), _) => weights.routing(),
            (None, None, Some(rule)) => return rule.load(),
            (None, None, None) => anyhow::bail!("one of --p, --weights, --routing and --plugin is needed"),
        };
        Ok(SimRouting::of(&matrices.map_err(|error| workload::explain(&error))?))
    }
}
