//! A simulation's result as text.

use tokenrouter_planner::sim::ModelReport;

use super::Record;
use super::args::SimulateArgs;
use crate::cli::table::Table;

/// The records for a reader, numbers by model with a slash between them.
pub(super) fn text(args: &SimulateArgs, records: &[Record]) -> String {
    let headings = [
        "N",
        "launch",
        "tokens/s",
        "per user",
        "rows a step",
        "busy %",
        "wait p50 ms",
        "p95",
        "p99",
    ];
    let mut table = Table::new(headings.map(str::to_owned).to_vec());
    let mut n_before = None;
    for record in records {
        let number = if n_before.replace(record.n) == Some(record.n) {
            String::new()
        } else {
            record.n.to_string()
        };
        let models = &record.report.models;
        table.push(vec![
            number,
            name(record),
            format!("{:.1}", record.report.tokens_per_s),
            format!("{:.1}", record.report.per_user_tokens_per_s),
            by_model(models, |model| format!("{:.2}", model.batch_mean)),
            by_model(models, |model| format!("{:.0}", 100.0 * model.utilisation)),
            by_model(models, |model| format!("{:.1}", model.waits.p50_ms)),
            by_model(models, |model| format!("{:.1}", model.waits.p95_ms)),
            by_model(models, |model| format!("{:.1}", model.waits.p99_ms)),
        ]);
    }
    format!(
        "The scheduler in virtual time, by requests N and launch rule\n{}\n\n{table}\n\
         rows a step, busy and wait by model, the small one first; wait: from arrival at a model to the launch of its step\n",
        args.describe()
    )
}

/// The rule; with the thresholds that were planned, if they were.
fn name(record: &Record) -> String {
    let rule = match &record.thresholds {
        Some(thresholds) if !record.launch.contains(':') => {
            let list: Vec<String> = thresholds.iter().map(u32::to_string).collect();
            format!("{} ({})", record.launch, list.join(","))
        }
        _ => record.launch.clone(),
    };
    match record.optimistic.as_str() {
        "off" => rule,
        setting => format!("{rule}, {setting}"),
    }
}

fn by_model(models: &[ModelReport], cell: impl Fn(&ModelReport) -> String) -> String {
    models.iter().map(cell).collect::<Vec<_>>().join(" / ")
}
