//! Arguments of `tokenrouter-host admin`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tokenrouter_host::deployment::parse_setting;
use tokenrouter_policy::Setting;

use crate::cli::numbers::{number, whole};

pub(in crate::cli) const ADMIN_EXAMPLES: &str = "\
Examples:
  tokenrouter-host admin policy put my-policy.wasm
      Bring a policy in; it is checked, and serves nothing yet.
  tokenrouter-host admin policy shadow my-policy --share 1
      Let it watch all requests of the default, and compare: `admin policy status`.
  tokenrouter-host admin policy canary my-policy --share 0.1
      Route a tenth of the new requests by it.
  tokenrouter-host admin policy activate my-policy
      Route all new requests by it.
  tokenrouter-host admin policy activate my-policy --option threshold=0.1
      The same component with another option.
  tokenrouter-host admin policy rollback my-policy
      Go back to what served before it.

The key comes from --key-file or from the environment variable TOKENROUTER_ADMIN_KEY, never from the command line, which
other users of the machine can read.";

/// Options of `admin`.
#[derive(Debug, Args)]
pub(in crate::cli) struct AdminArgs {
    #[command(subcommand)]
    pub(super) command: AdminCommand,
    /// Where the admin API is
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:30001", global = true)]
    pub(super) url: String,
    /// File with the key in its first line, as KEY or as NAME KEY
    #[arg(long, value_name = "FILE", global = true)]
    pub(super) key_file: Option<PathBuf>,
    /// Print the API's JSON as it is
    #[arg(long, global = true)]
    pub(super) json: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(super) enum AdminCommand {
    /// Upload, activate, try, roll back policies
    Policy {
        #[command(subcommand)]
        command: PolicyCommand,
    },
    /// Show the generations that are loaded, with their requests and faults
    Generations,
    /// Show the models' threads, with their counters
    Subservers,
    /// Take no more requests; those that run go on
    Drain,
}

/// What to do with policies.
#[derive(Debug, Subcommand)]
pub(super) enum PolicyCommand {
    /// Upload a component
    Put(PutArgs),
    /// List the policies with their generations
    List,
    /// Show what serves, what is on trial, and how a shadow compares
    Status,
    /// Route new requests by a policy
    Activate {
        /// The policy
        name: String,
        /// Which of its generations [default: the newest]
        #[arg(long, value_parser = whole(0..=u32::MAX))]
        generation: Option<u32>,
        /// An option to change, which makes a new generation; give all that are to have other values than the policy's defaults
        #[arg(long, value_name = "NAME=VALUE", value_parser = parse_setting)]
        option: Vec<Setting>,
        /// Only for requests that ask for it as DEPLOYMENT@NAME
        #[arg(long)]
        by_name_only: bool,
        /// The default's generation as you last saw it, 0 for none; refused if it is another
        #[arg(long, value_name = "GENERATION", value_parser = whole(0..=u32::MAX))]
        expect: Option<u32>,
    },
    /// Route a share of the default's new requests by a policy
    Canary {
        /// The policy
        name: String,
        /// From 0 to 1; 0 ends the trial
        #[arg(long, value_parser = number(0.0..=1.0))]
        share: f64,
        /// Which of its generations [default: the newest]
        #[arg(long, value_parser = whole(0..=u32::MAX))]
        generation: Option<u32>,
        /// The default's generation as you last saw it, 0 for none; refused if it is another
        #[arg(long, value_name = "GENERATION", value_parser = whole(0..=u32::MAX))]
        expect: Option<u32>,
    },
    /// Ask a policy about a share of the default's requests, and compare without using what it says
    Shadow {
        /// The policy
        name: String,
        /// From 0 to 1; 0 ends the trial
        #[arg(long, value_parser = number(0.0..=1.0))]
        share: f64,
        /// Which of its generations [default: the newest]
        #[arg(long, value_parser = whole(0..=u32::MAX))]
        generation: Option<u32>,
        /// The default's generation as you last saw it, 0 for none; refused if it is another
        #[arg(long, value_name = "GENERATION", value_parser = whole(0..=u32::MAX))]
        expect: Option<u32>,
    },
    /// Go back to what served before a policy
    Rollback {
        /// The policy that is to be left
        name: String,
        /// Where to [default: the generation before]
        #[arg(long, value_parser = whole(0..=u32::MAX))]
        generation: Option<u32>,
        /// The default's generation as you last saw it, 0 for none; refused if it is another
        #[arg(long, value_name = "GENERATION", value_parser = whole(0..=u32::MAX))]
        expect: Option<u32>,
    },
    /// Take a policy out
    Delete {
        /// The policy
        name: String,
    },
}

/// Options of `put`.
#[derive(Debug, Args)]
pub(super) struct PutArgs {
    /// The component
    pub(super) file: PathBuf,
    /// The name it is to be served by, as in DEPLOYMENT@NAME [default: the file's name without its ending]
    #[arg(long)]
    pub(super) name: Option<String>,
    /// Let it serve at once
    #[arg(long)]
    pub(super) activate: bool,
    /// With --activate: only for requests that ask for it as DEPLOYMENT@NAME
    #[arg(long)]
    pub(super) by_name_only: bool,
    /// An option of the policy; give it once for each option
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_setting)]
    pub(super) option: Vec<Setting>,
    /// The component's SHA-256, if you know it from elsewhere [default: that of the file]
    #[arg(long, value_name = "HEX")]
    pub(super) sha256: Option<String>,
    /// File with a detached ed25519 signature of the component, 128 hexadecimal digits
    #[arg(long, value_name = "FILE")]
    pub(super) signature: Option<PathBuf>,
    /// The newest generation of this name as you last saw it, 0 for none; refused if it is another
    #[arg(long, value_name = "GENERATION", value_parser = whole(0..=u32::MAX))]
    pub(super) expect: Option<u32>,
}
