//! Arguments of `heads`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use tokenrouter_host::deployment::ModelSource;
use tokenrouter_model::heads::{Activation, HeadKind};

use super::train::TrainArgs;
use crate::cli::numbers::{SEEDS, whole};

pub(in crate::cli) const HEADS_EXAMPLES: &str = "\
Examples:
  tokenrouter-host heads convert default_router.pt --kind r2r --model models/Qwen3-0.6B --out r2r.safetensors
      R2R's published checkpoint. It is read as data: nothing in it is executed.
  tokenrouter-host heads convert mlp_iter_4000.pth --kind citer --out citer.safetensors
  tokenrouter-host heads convert merged/model.safetensors --kind co-llm --out co-llm.safetensors
  tokenrouter-host heads inspect r2r.safetensors
  tokenrouter-host heads random --kind r2r --model small --out r2r.safetensors
      A head with random weights, to try a policy before its head is trained.
  tokenrouter-host heads train --kind r2r --prompts prompts.jsonl --out r2r.safetensors
      A head for your models: the large one answers the prompts, and the head learns where the small one differs.

Then, in the deployment file:
  [[heads]]
  name = \"r2r\"
  model = \"small\"
  file = \"r2r.safetensors\"";

/// Make, convert and look at heads.
#[derive(Debug, Args)]
pub(in crate::cli) struct HeadsArgs {
    #[command(subcommand)]
    pub(super) command: HeadsCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum HeadsCommand {
    /// Convert a checkpoint (PyTorch or safetensors) to a head's file
    Convert(ConvertArgs),
    /// Show what a head's file holds
    Inspect(InspectArgs),
    /// Make a head with random weights, to try a policy before its head is trained
    Random(RandomArgs),
    /// Train a head for a deployment's models: prompts in, head and thresholds out
    Train(TrainArgs),
}

#[derive(Debug, Args)]
pub(super) struct ConvertArgs {
    /// The checkpoint: a .pt or .pth file as `torch.save` writes it, or a safetensors file
    pub(super) file: PathBuf,
    /// What the checkpoint is
    #[arg(long)]
    pub(super) kind: Kind,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    pub(super) out: PathBuf,
    /// The model the head belongs to: its folder, or embedded:tiny/NAME. Its sizes are checked and written into the file
    #[arg(long, value_name = "DIR", value_parser = source)]
    pub(super) model: Option<ModelSource>,
    /// Co-LLM: the row of lm_head.weight that is the deferral vector, from 0 [default: the last]
    #[arg(long, value_parser = whole(0..=u32::MAX as usize))]
    pub(super) row: Option<usize>,
    /// Mlp: the function between its layers
    #[arg(long)]
    pub(super) activation: Option<Function>,
}

#[derive(Debug, Args)]
pub(super) struct InspectArgs {
    /// The head's file
    pub(super) file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct RandomArgs {
    /// What to make
    #[arg(long)]
    pub(super) kind: Kind,
    /// The name of the deployment's model that the head is for
    #[arg(long, value_name = "NAME")]
    pub(super) model: String,
    /// Deployment file [default: the built-in deployment "tiny"]
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Decides the weights
    #[arg(long, default_value_t = 0, value_parser = whole(SEEDS))]
    pub(super) seed: u64,
    /// Widths of the blocks (r2r) or of the layers before the last (mlp), as in 64,64,64 [default: r2r six blocks, mlp one
    /// layer, as wide as the model's hidden state]
    #[arg(long, value_delimiter = ',', value_name = "N,...", value_parser = whole(1..=65_536_usize))]
    pub(super) dims: Vec<usize>,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    pub(super) out: PathBuf,
}

/// Kinds of heads, as the command line names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// R2R's classifier
    R2r,
    /// CITER's network
    Citer,
    /// Co-LLM's deferral vector
    CoLlm,
    /// One linear layer
    Linear,
    /// Several linear layers
    Mlp,
}

impl From<Kind> for HeadKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::R2r => HeadKind::R2r,
            Kind::Citer => HeadKind::Citer,
            Kind::CoLlm => HeadKind::CoLlm,
            Kind::Linear => HeadKind::Linear,
            Kind::Mlp => HeadKind::Mlp,
        }
    }
}

/// Functions between layers, as the command line names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Function {
    Relu,
    /// With the error function itself
    Gelu,
    Silu,
}

impl From<Function> for Activation {
    fn from(function: Function) -> Self {
        match function {
            Function::Relu => Activation::Relu,
            Function::Gelu => Activation::Gelu,
            Function::Silu => Activation::Silu,
        }
    }
}

fn source(text: &str) -> Result<ModelSource, String> {
    ModelSource::try_from(text.to_owned()).map_err(|error| error.to_string())
}
