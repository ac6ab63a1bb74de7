//! Arguments of `tokenrouter-host chat`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tokenrouter_host::deployment::parse_setting;
use tokenrouter_policy::Setting;

use crate::cli::args::DeploymentArgs;
use crate::cli::numbers::{SEEDS, number, whole};

pub(in crate::cli) const CHAT_EXAMPLES: &str = "\
Examples:
  tokenrouter-host chat
      Talk to the built-in deployment, in this process; tokens have the colour of the model that wrote them.
  tokenrouter-host chat --raw '23*03-98-37*05='
      One text to be continued, and out.
  tokenrouter-host chat --url http://127.0.0.1:30000 --model tiny@r-stitch --option threshold=0.1
      Talk to a host that runs.
  tokenrouter-host chat --raw < prompts.txt > answers.txt
      An answer for every line. Without a terminal there are neither colours nor prompts.

The host's key, if it asks for one, comes from --api-key-file or from the environment variable TOKENROUTER_API_KEY.";

/// Options of `chat`.
#[derive(Debug, Args)]
pub(in crate::cli) struct ChatArgs {
    /// What to ask; without it, lines of the terminal or of standard input are asked one after the other
    pub(super) prompt: Option<String>,
    /// A host that runs, instead of one in this process
    #[arg(long, value_name = "URL", conflicts_with_all = ["config", "plugin", "plugin_config", "launch"])]
    pub(super) url: Option<String>,
    /// File with the host's key in its first line, as KEY or as NAME KEY
    #[arg(long, value_name = "FILE", requires = "url")]
    pub(super) api_key_file: Option<PathBuf>,
    #[command(flatten)]
    pub(super) deployment: DeploymentArgs,
    /// Who answers: a name of /v1/models [default: the deployment]
    #[arg(long, value_name = "NAME")]
    pub(super) model: Option<String>,
    /// Let the text be continued as it is, instead of answering it in a conversation
    #[arg(long)]
    pub(super) raw: bool,
    /// Most tokens of an answer
    #[arg(long, value_name = "TOKENS", default_value_t = 256, value_parser = whole(1..=u32::MAX))]
    pub(super) max_tokens: u32,
    /// Sampling temperature; 0 takes the most probable token
    #[arg(long, value_name = "NUMBER", default_value_t = 0.0, value_parser = number(0.0..=2.0))]
    pub(super) temperature: f64,
    /// Seed of the draws [default: another one each time]
    #[arg(long, value_parser = whole(SEEDS))]
    pub(super) seed: Option<u64>,
    /// An option of the policy for these requests; give it once for each
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_setting)]
    pub(super) option: Vec<Setting>,
    /// Whether tokens are coloured
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Colour::Auto)]
    pub(super) color: Colour,
    /// File in which the lines that were asked are kept from one call to the next
    #[arg(long, value_name = "FILE")]
    pub(super) history: Option<PathBuf>,
}

/// Whether tokens are coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Colour {
    /// At a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}
