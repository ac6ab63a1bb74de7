//! Arguments of `heads train`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::cli::numbers::{SEEDS, number, whole};

/// Options of `heads train`.
#[derive(Debug, Args)]
pub(in crate::cli::heads) struct TrainArgs {
    /// What to train
    #[arg(long)]
    pub(super) kind: TrainKind,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    pub(super) out: PathBuf,
    /// Prompts, one JSON object a line, as `eval` reads them. Keep them apart from those that the result is measured on
    #[arg(long, value_name = "FILE")]
    pub(super) prompts: PathBuf,
    /// Only so many prompts, the first ones
    #[arg(long, value_name = "NUMBER", value_parser = whole(1..=u32::MAX as usize))]
    pub(super) limit: Option<usize>,
    /// Deployment, a TOML file; its policy and heads are not used [default: the built-in deployment "tiny"]
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// The model that the head belongs to [default: the deployment's first]
    #[arg(long, value_name = "NAME")]
    pub(super) model: Option<String>,
    /// The model whose answers are to be followed [default: the deployment's last]
    #[arg(long, value_name = "NAME")]
    pub(super) large: Option<String>,
    /// Which positions ask for the large model
    #[arg(long, value_enum, default_value_t = Label::Token)]
    pub(super) label: Label,
    /// Folder that keeps answers, labels and the training's state; a run that was stopped goes on from there
    /// [default: FILE of --out with .work added]
    #[arg(long, value_name = "DIR")]
    pub(super) work: Option<PathBuf>,
    /// Most tokens of an answer
    #[arg(long, value_name = "TOKENS", default_value_t = 256, value_parser = whole(2..=u32::MAX))]
    pub(super) max_tokens: u32,
    /// Answers that the large model writes at a time
    #[arg(long, value_name = "NUMBER", default_value_t = 16, value_parser = whole(1..=4096_u32))]
    pub(super) concurrency: u32,
    /// r2r: widths of the blocks [default: two of half the model's hidden size]
    #[arg(long, value_delimiter = ',', value_name = "N,...", value_parser = whole(1..=65_536_usize))]
    pub(super) dims: Vec<usize>,
    /// Times that all positions are seen
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = whole(1..=10_000_u32))]
    pub(super) epochs: u32,
    /// Learning rate [default: 0.002; for the vector of co-llm 0.02]
    #[arg(long, value_name = "NUMBER", value_parser = number(0.0..=1.0))]
    pub(super) rate: Option<f64>,
    /// Part of the prompts that is held out
    #[arg(long, value_name = "SHARE", default_value_t = 0.2, value_parser = number(0.0..=1.0))]
    pub(super) held_out: f64,
    /// The threshold that is noted in the file finds this part of the positions that ask for the large model
    #[arg(long, value_name = "SHARE", default_value_t = 0.9, conflicts_with = "share", value_parser = number(0.0..=1.0))]
    pub(super) recall: f64,
    /// Or: it asks for the large model at this part of all positions
    #[arg(long, value_name = "SHARE", value_parser = number(0.0..=1.0))]
    pub(super) share: Option<f64>,
    /// Decides first weights, order and which prompts are held out
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = whole(SEEDS))]
    pub(super) seed: u64,
    /// What goes to the log on standard error
    #[arg(long, value_name = "FILTER", default_value = "warn")]
    pub(super) log: String,
}

/// Kinds of heads that can be trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum TrainKind {
    /// R2R's classifier, with normalised inputs
    R2r,
    /// CITER's network
    Citer,
    /// Co-LLM's deferral vector
    CoLlm,
}

/// What makes a position one for the large model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Label {
    /// The small model's token is another than the large one's
    Token,
    /// It is another, and an answer that goes on from it by the large model is no longer right. Prompts need answers
    Rollout,
}
