//! The simulator against the Markov model where that is exact, and the launch rules against each other where it is not.
//! The settings are the paper's: p = 0.35, steps of 6.0 and 27.9 ms.
#![expect(
    clippy::print_stdout,
    reason = "figures that are worth reading when a test is run by hand"
)]

mod common;

use common::handback;
use tokenrouter_core::ahead::Optimistic;
use tokenrouter_core::launch::LaunchRule;
use tokenrouter_planner::sim::{Agreement, ClosedLoop, Latency, LatencyCurve, Report, SimRouting};
use tokenrouter_planner::{Latencies, Planner, Routing, System};

const SMALL_MS: f64 = 6.0;
const LARGE_MS: f64 = 27.9;
const P: f64 = 0.35;

fn paper_latencies() -> Vec<Latency> {
    vec![Latency::Constant(SMALL_MS * 1e3), Latency::Constant(LARGE_MS * 1e3)]
}

/// A closed loop of `n` requests, measured over 60,000 tokens.
fn run(latencies: Vec<Latency>, routing: SimRouting, rule: LaunchRule, n: usize) -> Report {
    ClosedLoop {
        latencies,
        routing,
        rule,
        requests: n,
        seed: 0,
        optimistic: Optimistic::Off,
        agreement: Agreement::Constant(0.0),
    }
    .measure(60_000)
}

fn threshold(b: usize) -> LaunchRule {
    LaunchRule::Threshold(vec![1, b as u32])
}

/// Where the model's assumptions hold, the same scheduler code gives the chain's throughput within 1 %.
#[test]
fn the_simulator_agrees_with_the_markov_model() {
    let latencies = Latencies::with_quantum(&[SMALL_MS, LARGE_MS], 0.1).unwrap();
    let mut planner = Planner::new(System::new(latencies, Routing::one_token_handback(P).unwrap()).unwrap());
    for (n, b) in [
        (1, 1),
        (2, 1),
        (2, 2),
        (3, 2),
        (4, 1),
        (4, 3),
        (4, 4),
        (8, 1),
        (8, 5),
        (8, 8),
        (12, 8),
    ] {
        let predicted = planner.tokens_per_s(n, &[1, b]).unwrap();
        let simulated = run(paper_latencies(), handback(P), threshold(b), n).tokens_per_s;
        let ratio = simulated / predicted;
        assert!(
            (ratio - 1.0).abs() < 0.01,
            "N = {n}, B1 = {b}: simulated {simulated:.1}, predicted {predicted:.1}"
        );
    }
}

fn best_fixed(latencies: &[Latency], routing: &SimRouting, n: usize) -> f64 {
    (1..=n)
        .map(|b| run(latencies.to_vec(), routing.clone(), threshold(b), n).tokens_per_s)
        .fold(0.0, f64::max)
}

/// Look-ahead needs no tuning and still reaches 0.98 of the best threshold at every N.
#[test]
fn lookahead_is_close_to_the_best_fixed_threshold() {
    for n in [2, 3, 4, 6, 8, 12, 16] {
        let best = best_fixed(&paper_latencies(), &handback(P), n);
        let lookahead = run(paper_latencies(), handback(P), LaunchRule::Lookahead, n).tokens_per_s;
        println!("N = {n}: look-ahead / best threshold = {:.3}", lookahead / best);
        assert!(lookahead >= 0.98 * best, "N = {n}: {lookahead:.1} against {best:.1}");
    }
}

/// Bursty routing of the same mean: no threshold fits calm and storm alike, look-ahead adapts.
#[test]
fn lookahead_beats_every_fixed_threshold_on_bursty_routing() {
    let bursty = SimRouting::Bursty {
        calm_p: 0.05,
        storm_p: 0.65,
        flip: 0.05,
    };
    for n in [4, 8, 16] {
        let best = best_fixed(&paper_latencies(), &bursty, n);
        let lookahead = run(paper_latencies(), bursty.clone(), LaunchRule::Lookahead, n).tokens_per_s;
        println!("N = {n}, bursty: look-ahead / best threshold = {:.3}", lookahead / best);
        assert!(lookahead > best, "N = {n}: {lookahead:.1} against {best:.1}");
    }
}

/// Whole stretches by one model, as GlimpRouter routes: waiting for company is harmful, and look-ahead knows.
#[test]
fn lookahead_is_as_good_as_eager_on_step_level_routing() {
    let stretches = SimRouting::Stretches {
        large_p: 0.2,
        small_tokens: 40,
        large_tokens: 60,
    };
    for n in [4, 8, 16] {
        let eager = run(paper_latencies(), stretches.clone(), LaunchRule::Eager, n).tokens_per_s;
        let lookahead = run(paper_latencies(), stretches.clone(), LaunchRule::Lookahead, n).tokens_per_s;
        assert!(
            lookahead >= 0.99 * eager,
            "N = {n}: look-ahead {lookahead:.1}, eager {eager:.1}"
        );
    }
}

/// Asynchrony: models at their own pace are faster than in lock step, and delayed batching is faster than running one
/// model at a time, which batches as well but lets the other model stand still.
#[test]
fn asynchronous_launching_beats_the_synchronous_rules() {
    for n in [4, 8, 16] {
        let rate = |rule| run(paper_latencies(), handback(P), rule, n).tokens_per_s;
        let (step, model) = (rate(LaunchRule::StepSync), rate(LaunchRule::ModelSync));
        let (eager, lookahead) = (rate(LaunchRule::Eager), rate(LaunchRule::Lookahead));
        println!("N = {n}: step-sync {step:.1}, model-sync {model:.1}, eager {eager:.1}, look-ahead {lookahead:.1}");
        assert!(eager > step && lookahead > step && lookahead > model, "N = {n}");
    }
}

/// With models that slow each other down, larger batches pay more, and look-ahead still gains over eager.
#[test]
fn lookahead_gains_over_eager_under_interference() {
    let curve = |us: f64, busy_factor| {
        Latency::Curve(LatencyCurve {
            points: vec![(1, us)],
            token_us: 0.0,
            busy_factor,
        })
    };
    let latencies = vec![curve(4_800.0, 2.0), curve(25_100.0, 32.1 / 25.1)];
    let eager = run(latencies.clone(), handback(P), LaunchRule::Eager, 8).tokens_per_s;
    let lookahead = run(latencies, handback(P), LaunchRule::Lookahead, 8).tokens_per_s;
    assert!(lookahead > eager, "look-ahead {lookahead:.1}, eager {eager:.1}");
}

/// What a planner is told of bursts, stretches and traces is how often a step of the small model hands over in the long run:
/// one step for every token that it commits, and one for every candidate that it hands over.
#[test]
fn the_mean_of_a_routing_is_what_a_simulation_shows() {
    let trace = (0..100).map(|step| step % 10 < 3).collect();
    for routing in [
        SimRouting::Bursty {
            calm_p: 0.10,
            storm_p: 0.85,
            flip: 0.05,
        },
        SimRouting::Stretches {
            large_p: 0.3,
            small_tokens: 5,
            large_tokens: 7,
        },
        SimRouting::Trace { hands_over: trace },
        SimRouting::of(&Routing::r_stitch(0.2, 0.4).unwrap()),
    ] {
        let mean = routing.mean().unwrap();
        let report = run(paper_latencies(), routing.clone(), LaunchRule::Eager, 1);
        let steps = report.models[0].steps as f64;
        let handed_over = 1.0 - report.models[0].tokens as f64 / steps;
        let handed_back = steps * handed_over / report.models[1].steps as f64;
        let (p, q) = (mean.p()[0][1], mean.p()[1][0]);
        assert!(
            (handed_over / p - 1.0).abs() < 0.05,
            "{routing:?}: {handed_over}, expected {p}"
        );
        assert!(
            (handed_back / q - 1.0).abs() < 0.05,
            "{routing:?}: {handed_back}, expected {q}"
        );
    }
}
