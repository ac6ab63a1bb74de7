//! `tokenrouter-host plan`: which thresholds to wait for, from latencies and routing probabilities.

mod args;
mod report;

use anyhow::ensure;
use tokenrouter_planner::{PlanError, Planner, Row, Search, System, plot};

pub(super) use args::{PLAN_EXAMPLES, PlanArgs};

use super::picture::PictureFile;
use super::{Failure, output, parallel, workload};

/// Plans for every number of requests, and prints or draws the result.
pub(super) fn run(args: &PlanArgs) -> Result<(), Failure> {
    let system = args.system().map_err(Failure::Asked)?;
    let rows = sweep(&system, &args.concurrency.0).map_err(|error| Failure::Asked(workload::explain(&error)))?;
    if let Some(file) = &args.plot {
        draw(args, file, &rows).map_err(Failure::Asked)?;
    }
    if args.json {
        return output::print_json(&rows);
    }
    output::print(&report::text(args, &system, &rows))
}

fn draw(args: &PlanArgs, file: &PictureFile, rows: &[Row]) -> anyhow::Result<()> {
    ensure!(
        args.concurrency.0.len() >= 2,
        "--plot draws curves over N; give --concurrency more than one number, as in --concurrency 1..16"
    );
    let title = format!(
        "Predicted throughput: steps of {} ms, {}",
        args.latency_ms, args.routing
    );
    file.write(&plot::chart(&title, rows, &report::curves(rows)))
}

/// The settings of all numbers of requests, in order.
fn sweep(system: &System, requests: &[usize]) -> Result<Vec<Row>, PlanError> {
    let plans = parallel::map(
        requests,
        || Planner::new(system.clone()),
        |planner, &n| planner.plan(n, Search::default()),
    );
    let plans: Vec<Vec<Row>> = plans.into_iter().collect::<Result<_, _>>()?;
    Ok(plans.into_iter().flatten().collect())
}
