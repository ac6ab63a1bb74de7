//! `tokenrouter-host simulate`: the production scheduler in virtual time, under each launch rule.

mod agreement;
mod args;
pub(super) mod component;
mod latency_file;
pub(super) mod recorded;
mod report;
mod routing;
mod rules;

use serde::Serialize;
use tokenrouter_core::ahead::Optimistic;
use tokenrouter_core::launch::LaunchRule;
use tokenrouter_host::deployment::Launch;
use tokenrouter_planner::sim::{ClosedLoop, Report, SimRouting};
use tokenrouter_planner::{Planner, Search};

pub(super) use args::{SIMULATE_EXAMPLES, SimulateArgs};

use self::args::{Route, Workload};
use super::{Failure, output, parallel, workload};

/// One simulation, as JSON has it.
#[derive(Debug, Serialize)]
struct Record {
    /// Concurrent requests.
    n: usize,
    /// The rule as it was asked for.
    launch: String,
    /// Whether the small model writes ahead.
    optimistic: String,
    /// The threshold of each model under the rule `threshold`.
    #[serde(skip_serializing_if = "Option::is_none")]
    thresholds: Option<Vec<u32>>,
    #[serde(flatten)]
    report: Report,
}

/// Simulates every number of requests under every rule, and prints the result.
pub(super) fn run(args: &SimulateArgs) -> Result<(), Failure> {
    let workload = args.workload().map_err(Failure::Asked)?;
    let rules = args.rules();
    let requests = &args.concurrency.0;
    let settings = rules
        .iter()
        .flat_map(|rule| args.optimistic.iter().map(move |&optimistic| (rule, optimistic)));
    let jobs: Vec<(usize, (&Launch, Optimistic))> = requests
        .iter()
        .flat_map(|&n| settings.clone().map(move |setting| (n, setting)))
        .collect();
    let records = parallel::map(&jobs, || (), |(), &(n, setting)| simulate(args, &workload, n, setting));
    let records: Vec<Record> = records
        .into_iter()
        .collect::<anyhow::Result<_>>()
        .map_err(Failure::Asked)?;
    if args.json {
        return output::print_json(&records);
    }
    output::print(&report::text(args, &records))
}

fn simulate(
    args: &SimulateArgs,
    workload: &Workload,
    n: usize,
    (launch, optimistic): (&Launch, Optimistic),
) -> anyhow::Result<Record> {
    let rule = match &launch.0 {
        LaunchRule::Planned(_) => LaunchRule::Threshold(planned(workload, n)?),
        given => given.clone(),
    };
    let thresholds = match &rule {
        LaunchRule::Threshold(thresholds) => Some(thresholds.clone()),
        _ => None,
    };
    let routing = match &workload.route {
        Route::Simulated(routing) => routing.clone(),
        // Not used: the component decides.
        Route::Component { .. } => SimRouting::Matrix {
            p: Vec::new(),
            keep: Vec::new(),
        },
    };
    let closed_loop = ClosedLoop {
        latencies: workload.latencies.clone(),
        routing,
        rule,
        requests: n,
        seed: args.seed,
        optimistic,
        agreement: workload.agreement.clone(),
    };
    let report = match &workload.route {
        Route::Simulated(_) => closed_loop.measure(args.tokens),
        Route::Component { generation, recorded } => {
            component::measure(&closed_loop, args.tokens, generation, recorded.as_ref())?
        }
    };
    Ok(Record {
        n,
        launch: launch.to_string(),
        optimistic: optimistic.to_string(),
        thresholds,
        report,
    })
}

/// The best thresholds for `n` requests, by a plan with constant latencies and independent moves of the workload's means.
fn planned(workload: &Workload, n: usize) -> anyhow::Result<Vec<u32>> {
    let Route::Simulated(routing) = &workload.route else {
        anyhow::bail!("--launch threshold cannot be planned for a component; write thresholds, as in threshold:1,3");
    };
    let plan = || {
        let rows_each = n.div_ceil(workload.latencies.len());
        let latency_ms: Vec<f64> = workload
            .latencies
            .iter()
            .map(|latency| latency.step_us(rows_each, rows_each, false) / 1e3)
            .collect();
        let system = workload::system(&latency_ms, &routing.mean()?, None)?;
        Planner::new(system).plan(n, Search::default())
    };
    let rows = plan().map_err(|error| {
        anyhow::anyhow!("--launch threshold cannot be planned: {error}; or write thresholds, as in threshold:1,3")
    })?;
    let best = rows.into_iter().find(|row| row.best).map_or_else(Vec::new, |row| row.b);
    Ok(best.into_iter().map(|b| b as u32).collect())
}
