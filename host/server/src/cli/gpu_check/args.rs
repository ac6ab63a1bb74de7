//! Arguments of `gpu-check`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tokenrouter_host::deployment::DeviceName;

/// Shown below the options.
pub(in crate::cli) const GPU_CHECK_EXAMPLES: &str = "\
Examples:
  tokenrouter-host gpu-check
      Everything, in under eight minutes on a device with 80 GB or more.
  tokenrouter-host gpu-check --only products,models,heads
      Whether the results are right; needs some hundred megabytes.
  tokenrouter-host gpu-check --only steps --json steps.json
      How long steps take, with all numbers in a file.";

/// Options of `gpu-check`.
#[derive(Debug, Args)]
pub(in crate::cli) struct GpuCheckArgs {
    /// The device to check, as the driver counts it
    #[arg(long, value_name = "cuda:N", default_value = "cuda:0")]
    pub(super) device: DeviceName,
    /// Parts to run, separated by commas [default: all]
    #[arg(long, value_name = "PART,...", value_delimiter = ',')]
    only: Vec<Part>,
    /// Write every result to this file as JSON: an array of one object each
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
}

/// A part of the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Part {
    /// Every variant of the matrix product against sums in f64
    Products,
    /// Whole models against the CPU's, and against themselves in other batches, with graphs and without
    Models,
    /// Scores of heads against the CPU's, and against themselves in other batches, with graphs and without
    Heads,
    /// How long steps of Qwen3-0.6B and Qwen3-32B take, with random weights
    Steps,
    /// Both models on the device behind the engine, under several launch rules
    Serving,
}

impl Part {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Products => "products",
            Self::Models => "models",
            Self::Heads => "heads",
            Self::Steps => "steps",
            Self::Serving => "serving",
        }
    }
}

impl GpuCheckArgs {
    /// The parts to run, what is right before what is fast.
    pub(super) fn parts(&self) -> Vec<Part> {
        let all = [Part::Products, Part::Models, Part::Heads, Part::Steps, Part::Serving];
        all.into_iter()
            .filter(|part| self.only.is_empty() || self.only.contains(part))
            .collect()
    }
}
