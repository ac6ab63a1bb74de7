//! Arguments of `calibrate`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use tokenrouter_host::deployment::parse_setting;
use tokenrouter_policy::Setting;

use crate::cli::numbers::{TEMPERATURES, number, whole};

/// Shown below the options.
pub(in crate::cli) const CALIBRATE_EXAMPLES: &str = "\
Example: at which threshold does r-stitch give the large model a tenth of the tokens?
  tokenrouter-host calibrate --policy r-stitch --option unit=nats --target-share 0.1 --prompts prompts.jsonl

prompts.jsonl has one object a line: {\"prompt\": \"23*03-98-37*05=\", \"answer\": \"70\"}. With answers, the curve says how many
were right, too: those whose text ends with the answer. Other keys are ignored.";

/// Options of `calibrate`.
#[derive(Debug, Args)]
pub(in crate::cli) struct CalibrateArgs {
    /// Policy: the name of one in this binary, or a .wasm file
    #[arg(long, value_name = "POLICY")]
    pub(super) policy: String,
    /// Share of the tokens that the large model is to write, 0 to 1
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(super) target_share: f64,
    /// Prompts, one JSON object a line
    #[arg(long, value_name = "FILE")]
    pub(super) prompts: PathBuf,
    /// The option to vary [default: the policy's threshold, as far as it is plain which option that is]
    #[arg(long, value_name = "NAME")]
    pub(super) parameter: Option<String>,
    /// Values to look between
    #[arg(long, value_name = "FROM,TO", default_value = "0,1", allow_hyphen_values = true)]
    pub(super) range: Range,
    /// Another option of the policy; give it once for each option
    #[arg(long = "option", value_name = "NAME=VALUE", value_parser = parse_setting)]
    pub(super) options: Vec<Setting>,
    /// Deployment, a TOML file; its policy and launch options are not used [default: the built-in deployment "tiny"]
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// The model whose share is meant [default: the deployment's last]
    #[arg(long, value_name = "NAME")]
    pub(super) model: Option<String>,
    /// How near the share must come
    #[arg(long, value_name = "SHARE", default_value = "0.01", value_parser = share)]
    pub(super) tolerance: f64,
    /// Most values to try, the two ends of the range included; each runs all prompts
    #[arg(long, value_name = "NUMBER", default_value_t = 12, value_parser = whole(3..=100_u32))]
    pub(super) runs: u32,
    /// Most tokens of an answer
    #[arg(long, value_name = "TOKENS", default_value_t = 256, value_parser = whole(1..=u32::MAX))]
    pub(super) max_tokens: u32,
    /// Sampling temperature; 0 is greedy
    #[arg(long, value_name = "NUMBER", default_value_t = 0.0, value_parser = number(TEMPERATURES))]
    pub(super) temperature: f32,
    /// Print as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// What goes to the log on standard error
    #[arg(long, value_name = "FILTER", default_value = "warn")]
    pub(super) log: String,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("\"{text}\" is not a share; write a number from 0 to 1"))
}

/// Two numbers, the smaller first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Range(pub(super) f64, pub(super) f64);

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Vec<f64> = text.split(',').filter_map(|item| item.trim().parse().ok()).collect();
        match numbers.as_slice() {
            &[from, to] if from < to && from.is_finite() && to.is_finite() && text.matches(',').count() == 1 => {
                Ok(Self(from, to))
            }
            _ => Err(format!(
                "\"{text}\" is not a range; write two numbers, the smaller first, as in 0,1"
            )),
        }
    }
}
