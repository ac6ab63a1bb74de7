//! `policy check`.

use clap::Args;
use serde::Serialize;
use tokenrouter_core::ahead::Optimistic;
use tokenrouter_core::launch::LaunchRule;
use tokenrouter_planner::sim::{Agreement, ClosedLoop, Latency, SimRouting};
use tokenrouter_policy::conformance::{self, Effort, Outcome};
use tokenrouter_policy::{Generation, PolicyLimits};

use super::subject::SubjectArgs;
use super::timing::{self, ROWS};
use crate::cli::numbers::{SEEDS, whole};
use crate::cli::simulate::component;
use crate::cli::{Failure, output};

/// Tokens that the simulated scheduler writes under the policy.
const SIMULATED_TOKENS: u64 = 2_000;

/// Samples of the time that a call takes.
const SAMPLES: usize = 200;

/// Options of `policy check`.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    subject: SubjectArgs,
    /// Key of all inputs that are drawn: the same seed makes the same calls
    #[arg(long, value_name = "SEED", default_value_t = 0, value_parser = whole(SEEDS))]
    seed: u64,
    /// How often all inputs are drawn anew
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = whole(1..=10_000_u32))]
    rounds: u32,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Checked {
    policy: String,
    sha256: String,
    seed: u64,
    passed: bool,
    checks: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    check: &'static str,
    outcome: &'static str,
    detail: String,
}

impl Row {
    fn new(check: &'static str, outcome: Outcome) -> Self {
        let (outcome, detail) = match outcome {
            Outcome::Passed(detail) => ("pass", detail),
            Outcome::Noted(detail) => ("note", detail),
            Outcome::Failed(detail) => ("FAIL", detail),
        };
        Self { check, outcome, detail }
    }
}

pub(super) fn run(args: &CheckArgs) -> Result<(), Failure> {
    let subject = args.subject.load()?;
    let generation = subject.configure()?;
    let effort = Effort {
        seed: args.seed,
        rounds: args.rounds,
    };
    let report = conformance::examine(&generation, effort);
    let mut checks: Vec<Row> = report
        .checks
        .into_iter()
        .map(|check| Row::new(check.name, check.outcome))
        .collect();
    checks.push(Row::new("scheduler", scheduler(&generation, args.seed)));
    checks.push(Row::new("time", time(&generation, &subject.limits)));
    let failed = checks.iter().filter(|row| row.outcome == "FAIL").count();
    let checked = Checked {
        policy: generation.description().name.clone(),
        sha256: generation.digest().to_string(),
        seed: args.seed,
        passed: failed == 0,
        checks,
    };
    if args.json {
        let text = serde_json::to_string_pretty(&checked).map_err(Failure::other)?;
        output::print(&format!("{text}\n"))?;
    } else {
        output::print(&text(&checked))?;
    }
    if failed == 0 {
        return Ok(());
    }
    Err(Failure::Other(anyhow::anyhow!(
        "policy \"{}\" fails {failed} of {} checks (--seed {})",
        checked.policy,
        checked.checks.len(),
        args.seed
    )))
}

/// The production scheduler in virtual time, with four requests that the policy routes.
fn scheduler(generation: &Generation, seed: u64) -> Outcome {
    let models = generation.deployment().models.len();
    let closed_loop = ClosedLoop {
        // The later model in the list is the slower one; nothing hangs on the numbers.
        latencies: (0..models)
            .map(|model| Latency::Constant(1_000.0 * (1 + model) as f64))
            .collect(),
        routing: SimRouting::Matrix {
            p: Vec::new(),
            keep: Vec::new(),
        },
        rule: LaunchRule::Eager,
        optimistic: Optimistic::Off,
        agreement: Agreement::Constant(0.0),
        requests: 4,
        seed,
    };
    match component::measure(&closed_loop, SIMULATED_TOKENS, generation, None) {
        Ok(report) => {
            let tokens: Vec<String> = report.models.iter().map(|model| model.tokens.to_string()).collect();
            Outcome::Passed(format!("4 requests get on; tokens by model {}", tokens.join(", ")))
        }
        Err(error) => Outcome::Failed(format!("{error:#}")),
    }
}

/// Not held to a time of its own, which depends on the machine; a call beyond the deadline is a fault.
fn time(generation: &Generation, limits: &PolicyLimits) -> Outcome {
    let mut figures = Vec::new();
    for rows in ROWS {
        match timing::route(generation, rows, SAMPLES) {
            Ok(cost) => figures.push(format!("{:.1}", cost.median_us)),
            Err(error) => return Outcome::Failed(error.to_string()),
        }
    }
    Outcome::Passed(format!(
        "{} us a call with 1, 8, 64 rows; a call may take {} ms",
        figures.join(", "),
        limits.call_ms_max
    ))
}

fn text(checked: &Checked) -> String {
    let mut lines = vec![format!(
        "{} ({}), seed {}",
        checked.policy, checked.sha256, checked.seed
    )];
    for row in &checked.checks {
        lines.push(format!("  {:4}  {:12} {}", row.outcome, row.check, row.detail));
    }
    let failed = checked.checks.iter().filter(|row| row.outcome == "FAIL").count();
    lines.push(match failed {
        0 => format!("all {} checks passed\n", checked.checks.len()),
        _ => format!("{failed} of {} checks failed\n", checked.checks.len()),
    });
    lines.join("\n")
}
