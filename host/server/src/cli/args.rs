//! Arguments, and how they change a deployment.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use tokenrouter_engine::Optimistic;
use tokenrouter_host::deployment::{
    DeploymentError, DeploymentFile, Launch, OptimisticSetting, OptionValue, RequestOptions, Whole, parse_setting,
};
use tokenrouter_policy::Setting;

use super::admin::{ADMIN_EXAMPLES, AdminArgs};
use super::administration::AdministrationArgs;
use super::bench::{BENCH_EXAMPLES, BenchArgs};
use super::calibrate::{CALIBRATE_EXAMPLES, CalibrateArgs};
use super::chat::{CHAT_EXAMPLES, ChatArgs};
use super::doctor::{DOCTOR_EXAMPLES, DoctorArgs};
use super::eval::{EVAL_EXAMPLES, EvalArgs};
use super::gpu_check::{GPU_CHECK_EXAMPLES, GpuCheckArgs};
use super::heads::{HEADS_EXAMPLES, HeadsArgs};
use super::models::{MODELS_EXAMPLES, ModelsArgs};
use super::plan::{PLAN_EXAMPLES, PlanArgs};
use super::policy::{POLICY_EXAMPLES, PolicyArgs};
use super::record::RecordArgs;
use super::simulate::{SIMULATE_EXAMPLES, SimulateArgs};
use super::top::{TOP_EXAMPLES, TopArgs};

const ABOUT: &str = "Serves one answer from several language models: a small model writes, and after every token a routing \
    policy decides who writes the next";

const EXAMPLES: &str = "\
Examples:
  tokenrouter-host
      Serve the built-in deployment at 127.0.0.1:30000: two small arithmetic models and the policy r-stitch.
  tokenrouter-host --plugin-config threshold=0.05
      The same, with the large model asked more often.
  tokenrouter-host --plugin random --plugin-config share=0.3
      Hand 30 % of the small model's steps to the large one at random.
  tokenrouter-host --plugin ./my-policy.wasm
      Route by a policy of your own.
  tokenrouter-host --config my-deployment.toml --launch threshold:1,4
      Serve your own models, with delayed batching.
  tokenrouter-host plan --help, tokenrouter-host simulate --help
      Find thresholds for it.

Then:
  curl http://127.0.0.1:30000/v1/completions \\
    -d '{\"prompt\": \"23*03-98-37*05=\", \"max_tokens\": 64, \"temperature\": 0}'

config/tiny.toml is the built-in deployment with every key explained; GET /info shows what is served.

Exit codes, of every command: 0 after an orderly end; 2 where the command line or a file asks for what cannot be done, so that
trying again will not help; 1 for anything else, such as a host that cannot be reached or answers that failed.";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(name = "tokenrouter-host", version, about = ABOUT, after_help = EXAMPLES)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(flatten)]
    pub(super) serve: ServeArgs,
    #[command(subcommand)]
    pub(super) command: Option<Command>,
}

/// What to do; without a word, `serve`.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Serve a deployment over HTTP (what the command does without a subcommand)
    #[command(after_help = EXAMPLES)]
    Serve(ServeArgs),
    /// Ask in a terminal; tokens have the colour of the model that wrote them
    #[command(after_help = CHAT_EXAMPLES)]
    Chat(ChatArgs),
    /// Watch what the models of a running host do
    #[command(after_help = TOP_EXAMPLES)]
    Top(TopArgs),
    /// Upload, activate, try and roll back policies of a running host
    #[command(after_help = ADMIN_EXAMPLES)]
    Admin(AdminArgs),
    /// Fetch models from the Hugging Face hub, and list those that are here
    #[command(after_help = MODELS_EXAMPLES)]
    Models(ModelsArgs),
    /// Check a deployment without loading its weights: files, vocabularies, policy, memory, devices
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorArgs),
    /// Predict throughput for delayed batching, and the threshold to wait for
    #[command(after_help = PLAN_EXAMPLES)]
    Plan(PlanArgs),
    /// Write a routing policy, build it, check it, measure it, replay requests through it
    #[command(after_help = POLICY_EXAMPLES)]
    Policy(PolicyArgs),
    /// Find the threshold at which the large model writes a wanted share of the tokens
    #[command(after_help = CALIBRATE_EXAMPLES)]
    Calibrate(CalibrateArgs),
    /// Answer problems with known answers: accuracy, share of each model and speed, by policy and threshold
    #[command(after_help = EVAL_EXAMPLES)]
    Eval(EvalArgs),
    /// Measure the speed of a deployment or of any OpenAI server under load
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(Box<BenchArgs>),
    /// Run the scheduler in virtual time, to compare launch rules
    #[command(after_help = SIMULATE_EXAMPLES)]
    Simulate(SimulateArgs),
    /// Make, convert and look at heads: the small networks whose scores policies ask for
    #[command(after_help = HEADS_EXAMPLES)]
    Heads(HeadsArgs),
    /// Check that a GPU computes what the CPU does, and measure how fast
    #[command(after_help = GPU_CHECK_EXAMPLES)]
    GpuCheck(GpuCheckArgs),
}

/// Which deployment, and how it routes. Each wins over the deployment file.
#[derive(Clone, Debug, Args)]
pub(super) struct DeploymentArgs {
    /// Deployment file (TOML) [default: the built-in deployment "tiny"]
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Policy: r2r, citer, co-llm, r-stitch, me, glimprouter, request-level, random, the path of a .wasm file, or none (the
    /// first model answers alone) [default: the deployment's, which for the built-in one is r-stitch]. Another
    /// policy than the deployment's starts without the deployment's options
    #[arg(long, value_name = "POLICY")]
    pub(super) plugin: Option<String>,
    /// An option of the policy; give it once for each option. VALUE is true, false, a number, a list of numbers such as
    /// [1,2.5], or else a text. Added to the deployment's options, and wins over them
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_setting)]
    pub(super) plugin_config: Vec<Setting>,
    /// When an idle model starts its next step: eager, threshold (planned while serving), threshold:B0,B1,... (a number of
    /// requests for each model), lookahead, step-sync or model-sync [default: the deployment's, lookahead if it has none]
    #[arg(long, value_name = "RULE")]
    pub(super) launch: Option<Launch>,
    /// Whether a model writes on while another decides about its last candidate: off, auto, or window:K (at most K tokens
    /// ahead); the answers are the same [default: the deployment's]
    #[arg(long, value_name = "SETTING")]
    pub(super) optimistic: Option<Optimistic>,
}

/// Options of `serve`. Each wins over the deployment file.
#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    pub(super) deployment: DeploymentArgs,
    /// Address to listen at [default: the deployment's, 127.0.0.1:30000 if it has none]
    #[arg(long, value_name = "HOST:PORT")]
    pub(super) listen: Option<String>,
    /// How long running requests may take to finish after Ctrl-C or SIGTERM, in seconds; a second signal ends at once
    /// [default: the deployment's, 30 if it has none]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub(super) drain: Option<Whole<0, 86_400>>,
    #[command(flatten)]
    pub(super) record: RecordArgs,
    /// File of the keys that clients need, one a line as KEY or as NAME KEY [default: the deployment's]. Keys in the
    /// environment variable TOKENROUTER_API_KEYS, separated by commas, count as well; without any, nobody needs one
    #[arg(long, value_name = "FILE")]
    pub(super) api_key_file: Option<PathBuf>,
    /// How lines of the log are written
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = super::logging::Format::Text)]
    pub(super) log_format: super::logging::Format,
    #[command(flatten)]
    pub(super) administration: AdministrationArgs,
    /// What goes to the log on standard error: a level (error, warn, info, debug, trace), or levels by target as in
    /// info,tokenrouter_engine=debug
    #[arg(long, value_name = "FILTER", default_value = super::logging::DEFAULT)]
    pub(super) log: String,
}

fn seconds(text: &str) -> Result<Whole<0, 86_400>, String> {
    let number: i64 = text
        .parse()
        .map_err(|_| format!("\"{text}\" is not a whole number of seconds, 0 to 86400"))?;
    Whole::try_from(number).map_err(|error| error.to_string())
}

impl DeploymentArgs {
    /// The file's deployment or the built-in one, with the options of the command line.
    pub(super) fn file(self) -> Result<DeploymentFile, DeploymentError> {
        let mut file = match &self.config {
            Some(path) => DeploymentFile::read(path)?,
            None => DeploymentFile::built_in()?,
        };
        if let Some(plugin) = self.plugin.filter(|plugin| *plugin != file.policy.plugin) {
            // Options belong to their policy, and a path on the command line counts from the working directory.
            file.policy.options = BTreeMap::new();
            file.policy.request_options = RequestOptions::default();
            file.policy.base = Some(PathBuf::new());
            file.policy.plugin = plugin;
        }
        for setting in self.plugin_config {
            file.policy
                .options
                .insert(setting.name, OptionValue::from(&setting.value));
        }
        if let Some(launch) = self.launch {
            file.launch.rule = launch;
        }
        if let Some(optimistic) = self.optimistic {
            file.launch.optimistic = OptimisticSetting(optimistic);
        }
        Ok(file)
    }
}

impl ServeArgs {
    /// The deployment that is to be served.
    pub(super) fn deployment(self) -> Result<DeploymentFile, DeploymentError> {
        let mut file = self.deployment.file()?;
        if let Some(listen) = self.listen {
            file.server.listen = listen;
        }
        if let Some(path) = self.api_key_file {
            // A path on the command line counts from the working directory.
            file.server.api_key_file = Some(std::path::absolute(&path).unwrap_or(path));
        }
        if let Some(drain) = self.drain {
            file.server.drain_s_max = drain;
        }
        self.administration.apply(&mut file);
        Ok(file)
    }
}
