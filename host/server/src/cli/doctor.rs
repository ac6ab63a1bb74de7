//! `tokenrouter-host doctor`: what would keep a deployment from being served, without loading weights.

use anyhow::anyhow;
use clap::Args;
use tokenrouter_host::deployment::doctor::{Finding, Level, examine};

use super::Failure;
use super::args::DeploymentArgs;
use super::output::{print, print_json};

/// Shown below the options.
pub(super) const DOCTOR_EXAMPLES: &str = "\
Examples:
  tokenrouter-host doctor --config my-deployment.toml
      Files whole, vocabularies equal, template, heads, policy, memory, KV, devices, threads: a line each.
  tokenrouter-host doctor --config my-deployment.toml --json
      The same for programs: an array of {\"level\": \"ok\", \"warn\" or \"error\", \"about\", \"what\"}.

Exit code: 0 if the deployment can be served, warnings or not; 1 if it cannot.";

/// Options of `doctor`.
#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    #[command(flatten)]
    deployment: DeploymentArgs,
    /// Print JSON instead of lines
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: DoctorArgs) -> Result<(), Failure> {
    let findings = match args.deployment.file() {
        Ok(file) => examine(&file),
        Err(error) => vec![Finding {
            level: Level::Error,
            about: "file".to_owned(),
            what: error.to_string(),
        }],
    };
    if args.json {
        print_json(&findings)?;
    } else {
        print(&lines(&findings))?;
    }
    match findings.iter().filter(|finding| finding.level == Level::Error).count() {
        0 => Ok(()),
        errors => Err(Failure::Other(anyhow!(
            "the deployment cannot be served; findings that say why: {errors}"
        ))),
    }
}

fn lines(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.about.len()).max().unwrap_or(0);
    let line = |finding: &Finding| {
        let level = match finding.level {
            Level::Ok => "ok   ",
            Level::Warn => "warn ",
            Level::Error => "error",
        };
        format!("{level}  {:width$}  {}\n", finding.about, finding.what)
    };
    findings.iter().map(line).collect()
}
