//! `tokenrouter-host calibrate`: finds the threshold at which a policy gives the large model a wanted share of the tokens, on
//! prompts of one's own.

mod args;
mod point;
mod search;

use std::time::Instant;

use serde::Serialize;

pub(super) use self::args::{CALIBRATE_EXAMPLES, CalibrateArgs};

use self::point::{Asker, Point, Prompt};
use self::search::{Found, Search};
use super::table::Table;
use super::{Failure, logging, output};

/// The result, as JSON has it.
#[derive(Serialize)]
struct Calibration {
    policy: String,
    parameter: String,
    model: String,
    target_share: f64,
    prompts: usize,
    /// The value found.
    value: f64,
    /// The share that it gives.
    share: f64,
    /// Whether that is as near as was asked for.
    reached: bool,
    /// All values tried, in order.
    curve: Vec<Point>,
}

/// Measures, searches and prints.
pub(super) fn run(args: &CalibrateArgs) -> Result<(), Failure> {
    logging::start(&args.log, logging::Format::Text).map_err(Failure::Asked)?;
    let prompts = Prompt::read(&args.prompts).map_err(Failure::Asked)?;
    let mut asker = Asker::new(args, prompts).map_err(Failure::Asked)?;
    let search = Search {
        from: args.range.0,
        to: args.range.1,
        target: args.target_share,
        tolerance: args.tolerance,
        runs_max: args.runs as usize,
    };
    let parameter = asker.parameter().to_owned();
    let mut curve: Vec<Point> = Vec::new();
    let found = search.run(|value| {
        let started = Instant::now();
        let point = asker.measure(value)?;
        tell(&format!(
            "run {} of at most {}: {parameter} = {value}: {:.2} % by {}, {:.1} s",
            curve.len() + 1,
            search.runs_max,
            100.0 * point.share,
            asker.model(),
            started.elapsed().as_secs_f64()
        ));
        let share = point.share;
        curve.push(point);
        Ok(share)
    });
    let Found { value, share, reached } = found.map_err(Failure::Other)?;
    curve.sort_by(|a, b| a.value.total_cmp(&b.value));
    let calibration = Calibration {
        policy: asker.policy().to_owned(),
        model: asker.model().to_owned(),
        prompts: asker.prompts(),
        parameter,
        target_share: args.target_share,
        value,
        share,
        reached,
        curve,
    };
    if args.json {
        let text = serde_json::to_string_pretty(&calibration).map_err(Failure::other)?;
        output::print(&format!("{text}\n"))?;
    } else {
        output::print(&text(&calibration))?;
    }
    if reached {
        return Ok(());
    }
    Err(Failure::Other(anyhow::anyhow!(
        "{} = {value} is nearest, with {:.2} % instead of {:.2} %; try another --range, more --runs, a larger --tolerance or more prompts",
        calibration.parameter,
        100.0 * share,
        100.0 * args.target_share
    )))
}

fn text(calibration: &Calibration) -> String {
    let by = format!("by {} %", calibration.model);
    let headings = [
        calibration.parameter.as_str(),
        &by,
        "handoffs/answer",
        "tokens/answer",
        "right %",
    ];
    let mut table = Table::new(headings.map(str::to_owned).to_vec());
    for point in &calibration.curve {
        table.push(vec![
            format!("{}", point.value),
            format!("{:.2}", 100.0 * point.share),
            format!("{:.2}", point.handoffs_per_answer),
            format!("{:.1}", point.tokens_per_answer),
            point
                .right
                .map_or_else(String::new, |right| format!("{:.1}", 100.0 * right)),
        ]);
    }
    let (parameter, value) = (&calibration.parameter, calibration.value);
    let found = if calibration.reached {
        format!(
            "{parameter} = {value} gives {} {:.2} % of the tokens\n",
            calibration.model,
            100.0 * calibration.share
        )
    } else {
        String::new()
    };
    format!(
        "{} on {} prompts\n\n{table}\n{found}",
        calibration.policy, calibration.prompts
    )
}

#[expect(clippy::print_stderr, reason = "progress of a command that takes long")]
fn tell(line: &str) {
    eprintln!("{line}");
}
