//! Arguments of `bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tokenrouter_core::ahead::Optimistic;
use tokenrouter_host::deployment::{Launch, parse_setting};
use tokenrouter_policy::Setting;

use crate::cli::numbers::{SEEDS, TEMPERATURES, number, whole};
use crate::cli::picture::PictureFile;

/// Shown below the options.
pub(in crate::cli) const BENCH_EXAMPLES: &str = "\
Examples:
  tokenrouter-host bench --concurrency 1,4,8
      The built-in deployment in this process: N clients that each ask again when they have their answer.
  tokenrouter-host bench --url http://127.0.0.1:30000 --model tiny --rate 20 --speed-min 30
      A server, with requests that arrive at random 20 times a second; goodput counts answers with at least 30 tokens/s.
  tokenrouter-host bench compare --policy random --policy-option share=0.35 --launch step-sync --launch lookahead
      Launch rules in one run, and their ratios.
  tokenrouter-host bench compare --baseline standard-serving --policy r-stitch --policy-option signal=maxprob \\
      --policy-option threshold=0.9 --concurrency 4,8
      The same routing by a dispatcher outside of ordinary servers, one HTTP request a token, against this host.";

/// Measure the speed of a deployment or of any OpenAI server.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(in crate::cli) struct BenchArgs {
    #[command(flatten)]
    pub(super) single: SingleArgs,
    #[command(subcommand)]
    pub(super) command: Option<BenchCommand>,
}

#[derive(Debug, Subcommand)]
pub(super) enum BenchCommand {
    /// Measure several launch rules, policies or the baseline one after the other, and print ratios
    Compare(CompareArgs),
}

#[derive(Debug, Args)]
pub(super) struct SingleArgs {
    /// A server instead of a deployment in this process: http://HOST:PORT
    #[arg(long, value_name = "URL", conflicts_with_all = ["config", "policy", "policy_options", "launch", "optimistic"], requires = "model")]
    pub(super) url: Option<String>,
    /// The model to ask the server for
    #[arg(long, value_name = "NAME", requires = "url")]
    pub(super) model: Option<String>,
    /// The environment variable with the server's key
    #[arg(long, value_name = "NAME", default_value = "OPENAI_API_KEY")]
    pub(super) key_variable: String,
    /// Policy [default: the deployment's]
    #[arg(long, value_name = "POLICY")]
    pub(super) policy: Option<String>,
    /// Launch rule [default: the deployment's]
    #[arg(long, value_name = "RULE")]
    pub(super) launch: Option<Launch>,
    /// Whether a model writes on while another decides: off, auto or window:K [default: the deployment's]
    #[arg(long, value_name = "SETTING")]
    pub(super) optimistic: Option<Optimistic>,
    #[command(flatten)]
    pub(super) load: LoadArgs,
}

#[derive(Debug, Args)]
pub(super) struct CompareArgs {
    /// Policy; give it once for each policy [default: the deployment's]
    #[arg(long = "policy", value_name = "POLICY")]
    pub(super) policies: Vec<String>,
    /// Launch rule; give it once for each rule [default: the deployment's]
    #[arg(long = "launch", value_name = "RULE")]
    pub(super) launch: Vec<Launch>,
    /// Whether a model writes on while another decides, off, auto or window:K; give it once for each setting [default: the
    /// deployment's]
    #[arg(long = "optimistic", value_name = "SETTING")]
    pub(super) optimistic: Vec<Optimistic>,
    /// What the others are compared with [default: the first of them]
    #[arg(long, value_enum)]
    pub(super) baseline: Option<Baseline>,
    /// Servers for the baseline that run already, as URL=MODEL, the small model's first [default: the deployment's models,
    /// each served by this process at a port of its own]
    #[arg(long = "server", value_name = "URL=MODEL", requires = "baseline")]
    pub(super) servers: Vec<String>,
    #[command(flatten)]
    pub(super) load: LoadArgs,
}

/// What serving is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Baseline {
    /// One ordinary server a model, and a dispatcher that asks over HTTP for one token at a time and routes as `--policy`
    /// says (random or r-stitch)
    StandardServing,
}

/// The load, and on what.
#[derive(Debug, Args)]
pub(super) struct LoadArgs {
    /// Deployment, a TOML file [default: the built-in deployment "tiny"]
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// An option of the policy; give it once for each option
    #[arg(long = "policy-option", value_name = "NAME=VALUE", value_parser = parse_setting)]
    pub(super) policy_options: Vec<Setting>,
    /// Prompts, one JSON object a line, as `eval` reads them; asked in turn [default: those of the built-in models]
    #[arg(long, value_name = "FILE")]
    pub(super) prompts: Option<PathBuf>,
    /// Clients that each ask again when they have their answer; one line of the result for each number
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [8], conflicts_with = "rate",
          value_parser = whole(1..=4096_u32))]
    pub(super) concurrency: Vec<u32>,
    /// Requests a second instead, arriving at random (a Poisson process); one line for each number
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', value_parser = number(0.001..=1e6))]
    pub(super) rate: Vec<f64>,
    /// How long each line is measured, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = number(0.001..=86_400.0))]
    pub(super) seconds: f64,
    /// Ask so many times instead, and measure until all have their answers
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["seconds", "rate"], value_parser = whole(1..=u32::MAX))]
    pub(super) answers: Option<u32>,
    /// How long it runs before that without being counted, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = number(0.0..=86_400.0))]
    pub(super) warm_up: f64,
    /// Most tokens of an answer
    #[arg(long, value_name = "TOKENS", default_value_t = 256, value_parser = whole(1..=u32::MAX))]
    pub(super) max_tokens: u32,
    /// Write answers to their full length, whatever the models would end them with
    #[arg(long)]
    pub(super) full_length: bool,
    /// Sampling temperature; 0 is greedy
    #[arg(long, value_name = "NUMBER", default_value_t = 0.0, value_parser = number(TEMPERATURES))]
    pub(super) temperature: f32,
    /// Goodput counts answers that came with at least so many tokens a second, from the question to the end
    #[arg(long, value_name = "TOKENS", default_value_t = 0.0, value_parser = number(0.0..=1e9))]
    pub(super) speed_min: f64,
    /// Decides arrivals and draws
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = whole(SEEDS))]
    pub(super) seed: u64,
    /// Print as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Draw throughput by clients (or by requests a second), as SVG or PNG; needs more than one load
    #[arg(long, value_name = "FILE.svg|FILE.png")]
    pub(super) plot: Option<PictureFile>,
    /// What goes to the log on standard error
    #[arg(long, value_name = "FILTER", default_value = "warn")]
    pub(super) log: String,
}
