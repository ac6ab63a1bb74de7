//! What decoding ahead gives in the simulator, over a grid of settings:
//!
//! ```sh
//! cargo run --release -p tokenrouter-planner --example optimistic -- gains   # against the best threshold
//! cargo run --release -p tokenrouter-planner --example optimistic -- losses  # against look-ahead without it
//! ```
//!
//! A second number gives the tokens of each measurement, a third the seeds of each cell; a text keeps only the settings whose line contains it.
#![expect(clippy::print_stdout, reason = "it is there to print")]

#[allow(dead_code, reason = "the tests use other parts of it")]
#[path = "../tests/common/scenarios.rs"]
mod scenarios;

use scenarios::{Setting, agreements, constant, latencies, one_device, routings};
use tokenrouter_core::ahead::Optimistic;
use tokenrouter_core::launch::LaunchRule;
use tokenrouter_planner::sim::Agreement;

/// Mean, and standard deviation of single measurements.
fn spread(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (mean, (squares / (values.len().max(2) - 1) as f64).sqrt())
}

/// Throughput of every setting with look-ahead over the best of all thresholds without decoding ahead.
fn gains(tokens: u64, seeds: u64) {
    let settings = [Optimistic::Window(4), Optimistic::Window(16), Optimistic::Auto];
    println!(
        "latencies   agreement    N   {}",
        settings.map(|setting| format!("{setting:<14}")).join("")
    );
    for (name, latencies) in [("constant", constant()), ("one device", one_device())] {
        for agreement in [0.1, 0.5, 0.7, 0.85] {
            for requests in [1, 4, 8, 16] {
                let setting = |seed| Setting {
                    latencies: latencies.clone(),
                    routing: routings()[2].1.clone(),
                    agreement: Agreement::Constant(agreement),
                    requests,
                    seed,
                    tokens,
                };
                let best: Vec<f64> = (0..seeds).map(|seed| setting(seed).best_fixed(1..=requests)).collect();
                let cells = settings.map(|optimistic| {
                    let gain =
                        |seed| setting(seed).tokens_per_s(LaunchRule::Lookahead, optimistic) / best[seed as usize];
                    let (mean, deviation) = spread(&(0..seeds).map(gain).collect::<Vec<_>>());
                    format!("{mean:.3} ± {deviation:.3} ")
                });
                println!("{name:<11} {agreement:<9} {requests:>4}   {}", cells.join(""));
            }
        }
    }
}

/// Throughput of `auto` over off, both with look-ahead, in every setting.
fn losses(tokens: u64, seeds: u64, wanted: &str) {
    println!(
        "{:<26} {:<10} {:<13} {:>3}  auto/off",
        "latencies", "routing", "agreement", "N"
    );
    let mut all = Vec::new();
    for (latency, latencies) in latencies() {
        for (route, routing) in routings() {
            for (agreed, agreement) in agreements() {
                for requests in [1, 4, 8, 16, 64] {
                    let name = format!("{latency:<26} {route:<10} {agreed:<13} {requests:>3}");
                    if !name.contains(wanted) {
                        continue;
                    }
                    let ratio = |seed| {
                        let setting = Setting {
                            latencies: latencies.clone(),
                            routing: routing.clone(),
                            agreement: agreement.clone(),
                            requests,
                            seed,
                            tokens: tokens.max(500 * requests as u64),
                        };
                        setting.ratio_to_off(Optimistic::Auto)
                    };
                    let (mean, deviation) = spread(&(0..seeds).map(ratio).collect::<Vec<_>>());
                    println!("{name}  {mean:.3} ± {deviation:.3}");
                    all.push(mean);
                }
            }
        }
    }
    all.sort_by(f64::total_cmp);
    let Some(least) = all.first() else {
        println!("no setting's line contains \"{wanted}\"");
        return;
    };
    let below = all.iter().filter(|&&ratio| ratio < 0.97).count();
    let mean = (all.iter().map(|ratio| ratio.ln()).sum::<f64>() / all.len() as f64).exp();
    println!(
        "{} settings: least {least:.3}, {below} below 0.97, geometric mean {mean:.3}",
        all.len(),
    );
}

fn main() -> Result<(), String> {
    let mut arguments = std::env::args().skip(1);
    let which = arguments.next();
    let mut number = |default| arguments.next().map_or(Ok(default), |text| text.parse());
    let number_expected = |error| format!("tokens and seeds are numbers: {error}");
    let tokens: u64 = number(20_000).map_err(number_expected)?;
    let seeds: u64 = number(3).map_err(number_expected)?;
    let wanted = arguments.next().unwrap_or_default();
    match which.as_deref() {
        Some("gains") => gains(tokens, seeds),
        Some("losses") => losses(tokens, seeds, &wanted),
        _ => {
            return Err(
                "write gains or losses, and if you like the tokens of a measurement and the number of seeds".to_owned(),
            );
        }
    }
    Ok(())
}
