//! Arguments of `models`.

use clap::{Args, Subcommand};
use tokenrouter_host::hub::Repo;

/// Shown below the options.
pub(in crate::cli) const MODELS_EXAMPLES: &str = "\
Examples:
  tokenrouter-host models pull Qwen/Qwen3-0.6B
      What a deployment with source = \"hf://Qwen/Qwen3-0.6B\" needs: configuration, tokenizer, template and weights in safetensors.
  tokenrouter-host models pull Qwen/Qwen3-0.6B-GGUF/Qwen3-0.6B-Q8_0.gguf
      One GGUF file.
  tokenrouter-host models pull ORG/NAME@REVISION
      A branch, tag or commit instead of main.
  tokenrouter-host models list
      What is here.

What was cut off goes on where it ended. The cache is the one of Hugging Face's own programs, and so are the environment variables: HF_HOME,
HF_HUB_CACHE, HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE; HTTPS_PROXY is honoured.";

/// Options of `models`.
#[derive(Debug, Args)]
pub(in crate::cli) struct ModelsArgs {
    #[command(subcommand)]
    pub(super) command: ModelsCommand,
}

/// What to do with models.
#[derive(Debug, Subcommand)]
pub(super) enum ModelsCommand {
    /// Fetch a model into the cache, or what is missing of it
    Pull {
        /// ORG/NAME, with @REVISION behind the name and /FILE.gguf behind that if wanted
        #[arg(value_name = "MODEL")]
        model: Repo,
    },
    /// List the models in the cache
    List {
        /// Print JSON instead of a table
        #[arg(long)]
        json: bool,
    },
}
