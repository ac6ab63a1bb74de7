//! A plan as text, and which of its settings are worth a curve.

use std::collections::BTreeMap;

use tokenrouter_planner::{Row, System};

use super::args::PlanArgs;
use crate::cli::table::Table;

/// Most thresholds that have a column each.
const COLUMNS_MAX: usize = 8;
/// Settings of one N that are listed when there are more than two models, beside the eager one.
const LISTED_MAX: usize = 4;
/// Most curves of a picture beside the best one.
const CURVES_MAX: usize = 6;

/// The plan for a reader.
pub(super) fn text(args: &PlanArgs, system: &System, rows: &[Row]) -> String {
    let mut by_n: BTreeMap<usize, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        by_n.entry(row.n).or_default().push(row);
    }
    let quantum_ms = round(system.latencies().quantum_ms());
    let (what, table) = if system.models() == 2 {
        (
            "Predicted tokens/s by requests N and threshold B of the large model",
            matrix(&by_n),
        )
    } else {
        (
            "Predicted tokens/s by requests N and threshold B of each model",
            list(&by_n),
        )
    };
    format!(
        "{what}\nsteps of {} ms, {}, quantum {quantum_ms} ms\n\n{table}\n\
         * best B: a model launches once B requests wait there. The bound is {:.1} tokens/s for each request: none ever waits.\n",
        args.latency_ms,
        args.routing,
        system.rate_per_request(),
    )
}

/// Without the noise of division: 0.3, not 0.30000000000000004.
fn round(ms: f64) -> f64 {
    (ms * 1e6).round() / 1e6
}

/// Two models: a row for each N, a column for each B.
fn matrix(by_n: &BTreeMap<usize, Vec<&Row>>) -> Table {
    let columns = columns(by_n.keys().last().copied().unwrap_or(0));
    let headings = columns.iter().map(|b| format!("B={b} "));
    let ends = ["best B", "tokens/s", "of bound", "over B=1"].map(str::to_owned);
    let mut table = Table::new([" N".to_owned()].into_iter().chain(headings).chain(ends).collect());
    for (n, rows) in by_n {
        let mut cells = vec![n.to_string()];
        cells.extend(
            columns
                .iter()
                .map(|&b| rows.iter().find(|row| row.b[1] == b).map_or_else(String::new, cell)),
        );
        if let Some(best) = rows.iter().find(|row| row.best) {
            cells.extend([
                best.b[1].to_string(),
                format!("{:.1}", best.tokens_per_s),
                of_bound(best),
                gain(rows, best),
            ]);
        }
        table.push(cells);
    }
    table
}

/// Thresholds with a column: all of them if they are few, else ever sparser ones.
fn columns(n_max: usize) -> Vec<usize> {
    if n_max <= COLUMNS_MAX {
        return (1..=n_max).collect();
    }
    let doubled = |from: usize| std::iter::successors(Some(from), |b| Some(2 * b)).take_while(|&b| b <= n_max);
    let mut columns: Vec<usize> = doubled(1).chain(doubled(3)).collect();
    columns.sort_unstable();
    if columns.len() > COLUMNS_MAX {
        doubled(1).collect()
    } else {
        columns
    }
}

/// Any number of models: the eager setting and the best ones of each N, from the best down.
fn list(by_n: &BTreeMap<usize, Vec<&Row>>) -> Table {
    let mut table = Table::new(
        [" N", "B", "tokens/s ", "of bound", "over eager"]
            .map(str::to_owned)
            .to_vec(),
    );
    for (n, rows) in by_n {
        let mut ranked = rows.clone();
        ranked.sort_by(|a, b| {
            (b.best, b.tokens_per_s)
                .partial_cmp(&(a.best, a.tokens_per_s))
                .unwrap_or(a.n.cmp(&b.n))
        });
        for (rank, row) in ranked
            .into_iter()
            .enumerate()
            .filter(|(rank, row)| *rank < LISTED_MAX || is_eager(row))
        {
            let number = if rank == 0 { n.to_string() } else { String::new() };
            table.push(vec![number, vector(&row.b), cell(&row), of_bound(row), gain(rows, row)]);
        }
    }
    table
}

fn is_eager(row: &Row) -> bool {
    row.b.iter().all(|&b| b == 1)
}

fn cell(row: &&Row) -> String {
    format!("{:.1}{}", row.tokens_per_s, if row.best { '*' } else { ' ' })
}

fn of_bound(row: &Row) -> String {
    format!("{:.1} %", row.bound_percent)
}

/// What a setting gains over the eager one of its N.
fn gain(rows: &[&Row], row: &Row) -> String {
    let eager = rows.iter().find(|row| is_eager(row));
    eager.map_or_else(String::new, |eager| {
        format!("{:+.1} %", 100.0 * (row.tokens_per_s / eager.tokens_per_s - 1.0))
    })
}

fn vector(b: &[usize]) -> String {
    b.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

/// Settings that get a curve: the eager one, and doubled thresholds of the last model, as far as they have two points.
pub(super) fn curves(rows: &[Row]) -> Vec<Vec<usize>> {
    let Some(models) = rows.first().map(|row| row.b.len()) else {
        return Vec::new();
    };
    let doubled = std::iter::successors(Some(1), |b| Some(2 * b)).take(CURVES_MAX);
    let settings = doubled.map(|b| [vec![1; models - 1], vec![b]].concat());
    settings
        .filter(|b| rows.iter().filter(|row| row.b == *b).count() >= 2)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stay_few() {
        assert_eq!(columns(4), [1, 2, 3, 4]);
        assert_eq!(columns(16), [1, 2, 3, 4, 6, 8, 12, 16]);
        assert_eq!(columns(64), [1, 2, 4, 8, 16, 32, 64]);
        assert!(columns(1_024).len() <= 11);
    }

    #[test]
    fn curves_are_settings_that_were_planned_for_several_n() {
        let row = |n, b: &[usize]| Row {
            n,
            b: b.to_vec(),
            tokens_per_s: 1.0,
            best: false,
            bound_percent: 1.0,
        };
        let rows = [
            row(2, &[1, 1]),
            row(2, &[1, 2]),
            row(3, &[1, 1]),
            row(3, &[1, 2]),
            row(3, &[1, 3]),
            row(4, &[1, 4]),
        ];
        assert_eq!(curves(&rows), [vec![1, 1], vec![1, 2]]);
        assert!(curves(&[]).is_empty());
    }
}
