//! `policy bench`.

use std::time::Instant;

use clap::Args;
use serde::Serialize;

use super::subject::SubjectArgs;
use super::timing::{self, Cost, ROWS};
use crate::cli::numbers::whole;
use crate::cli::table::Table;
use crate::cli::{Failure, output};

/// Options of `policy bench`.
#[derive(Debug, Args)]
pub(super) struct BenchArgs {
    #[command(flatten)]
    subject: SubjectArgs,
    /// Samples of each figure; a sample is as many calls as take 100 microseconds together
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000, value_parser = whole(10..=1_000_000_u32))]
    samples: u32,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Figures {
    policy: String,
    size_bytes: usize,
    /// Reading, checking and compiling, once for each upload.
    load_ms: f64,
    /// A new instance alone.
    instance: Cost,
    /// A new instance, `init` and one call.
    fresh_instance: Cost,
    route: Vec<RouteFigure>,
}

#[derive(Serialize)]
struct RouteFigure {
    rows: usize,
    #[serde(flatten)]
    cost: Cost,
}

pub(super) fn run(args: &BenchArgs) -> Result<(), Failure> {
    let started = Instant::now();
    let subject = args.subject.load()?;
    let load_ms = started.elapsed().as_secs_f64() * 1e3;
    let generation = subject.configure()?;
    let samples = args.samples as usize;
    let route = |rows| {
        timing::route(&generation, rows, samples)
            .map(|cost| RouteFigure { rows, cost })
            .map_err(Failure::other)
    };
    let figures = Figures {
        policy: generation.description().name.clone(),
        size_bytes: subject.bytes.len(),
        load_ms,
        instance: timing::instance(&generation, samples.min(1_000)).map_err(Failure::other)?,
        fresh_instance: timing::fresh(&generation, samples.min(1_000)).map_err(Failure::other)?,
        route: ROWS.into_iter().map(route).collect::<Result<_, _>>()?,
    };
    if args.json {
        let text = serde_json::to_string_pretty(&figures).map_err(Failure::other)?;
        return output::print(&format!("{text}\n"));
    }
    output::print(&text(&figures))
}

fn text(figures: &Figures) -> String {
    let mut table = Table::new(["", "median us", "p95 us", "us a row"].map(str::to_owned).to_vec());
    let mut push = |name: String, cost: Cost, rows: usize| {
        table.push(vec![
            name,
            format!("{:.2}", cost.median_us),
            format!("{:.2}", cost.p95_us),
            format!("{:.3}", cost.median_us / rows as f64),
        ]);
    };
    for figure in &figures.route {
        push(format!("route, {} rows", figure.rows), figure.cost, figure.rows);
    }
    push("new instance".to_owned(), figures.instance, 1);
    push("new instance, init, route".to_owned(), figures.fresh_instance, 1);
    format!(
        "{}: {} bytes, read and compiled in {:.0} ms\n\n{table}\n\
         through WebAssembly, with the deadline of serving; {} samples each\n",
        figures.policy,
        figures.size_bytes,
        figures.load_ms,
        figures.route.first().map_or(0, |figure| figure.cost.samples)
    )
}
