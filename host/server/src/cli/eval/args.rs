//! Arguments of `eval`.

use std::path::PathBuf;

use clap::Args;
use tokenrouter_host::deployment::Launch;

use super::grid::PolicySpec;
use crate::cli::numbers::{TEMPERATURES, number, whole};
use crate::cli::picture::PictureFile;

/// Shown below the options.
pub(in crate::cli) const EVAL_EXAMPLES: &str = "\
Examples:
  tokenrouter-host eval --policy 'r-stitch:unit=nats;threshold=0.05,0.2,0.6' --plot tradeoff.svg
      The built-in models on their own problems: r-stitch at three thresholds, beside each model alone and random routing.
  tokenrouter-host eval --config qwen.toml --problems gsm8k_test.jsonl --template 'Question: {prompt}\\nAnswer:' \\
      --policy 'r2r:threshold=0.3,0.5,0.7' --policy citer --limit 200 --max-tokens 512
      Published files load as they are: GSM8K by its keys question and answer, AIME by problem and answer.
  tokenrouter-host eval --policy r-stitch --launch eager --launch lookahead
      The same answers under two launch rules, at different speeds.

A problem of your own is a line {\"prompt\": \"23*03-98=\", \"answer\": \"71\"}, right if the text ends with the answer; with
\"regex\": \"A([0-9]+)\", if the last match is the answer.";

/// Options of `eval`.
#[derive(Debug, Args)]
pub(in crate::cli) struct EvalArgs {
    /// Problems, one JSON object a line: ours, GSM8K's or AIME's [default: those of the built-in models]
    #[arg(long, value_name = "FILE")]
    pub(super) problems: Option<PathBuf>,
    /// Only so many problems, the first ones
    #[arg(long, value_name = "NUMBER", value_parser = whole(1..=u32::MAX as usize))]
    pub(super) limit: Option<usize>,
    /// What is made of a problem; {prompt} stands for its text, \n for a new line
    #[arg(long, value_name = "TEXT", default_value = "{prompt}")]
    pub(super) template: String,
    /// Deployment, a TOML file [default: the built-in deployment "tiny"]
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// A policy, and after a colon its options, separated by semicolons. Several values of one option are tried one after
    /// the other: NAME, NAME:OPTION=VALUE or NAME:OPTION=VALUE;OPTION=VALUE,VALUE,... Give it once for each policy
    /// [default: the deployment's policy as it is]
    #[arg(long = "policy", value_name = "POLICY")]
    pub(super) policies: Vec<PolicySpec>,
    /// Launch rule, as `serve` takes it; give it once for each rule [default: the deployment's]
    #[arg(long = "launch", value_name = "RULE")]
    pub(super) launch: Vec<Launch>,
    /// Shares of random routing to compare with, at two models; none leaves it out
    #[arg(long, value_name = "SHARES", default_value = "0.1,0.3,0.6")]
    pub(super) random: String,
    /// Problems answered at a time
    #[arg(long, value_name = "NUMBER", default_value_t = 16, value_parser = whole(1..=4096_u32))]
    pub(super) concurrency: u32,
    /// Most tokens of an answer
    #[arg(long, value_name = "TOKENS", default_value_t = 256, value_parser = whole(1..=u32::MAX))]
    pub(super) max_tokens: u32,
    /// Sampling temperature; 0 is greedy
    #[arg(long, value_name = "NUMBER", default_value_t = 0.0, value_parser = number(TEMPERATURES))]
    pub(super) temperature: f32,
    /// Draw accuracy by share of the last model, as SVG or PNG
    #[arg(long, value_name = "FILE.svg|FILE.png")]
    pub(super) plot: Option<PictureFile>,
    /// Print as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// What goes to the log on standard error
    #[arg(long, value_name = "FILTER", default_value = "warn")]
    pub(super) log: String,
}
