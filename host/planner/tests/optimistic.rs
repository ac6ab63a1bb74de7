//! What decoding ahead gains, in virtual time, and that it never loses: the paper's setting (p = 0.35, steps of 6.0 and 27.9 ms) with
//! and without models that slow each other down, at several rates of agreement.
#![expect(
    clippy::print_stdout,
    reason = "figures that are worth reading when a test is run by hand"
)]

mod common;

use common::handback;
use tokenrouter_core::ahead::Optimistic;
use tokenrouter_core::launch::LaunchRule;
use tokenrouter_planner::Routing;
use tokenrouter_planner::sim::{ClosedLoop, Latency, LatencyCurve, SimRouting};

const P: f64 = 0.35;

fn constant() -> Vec<Latency> {
    vec![Latency::Constant(6.0e3), Latency::Constant(27.9e3)]
}

fn curve(us: f64, row_us: f64, token_us: f64, busy_factor: f64) -> Latency {
    Latency::Curve(LatencyCurve {
        points: vec![(1, us), (2, us + row_us)],
        token_us,
        busy_factor,
    })
}

/// Two models on one device: the small one's step takes 4.8 ms alone and 9.6 beside the large one, which takes 25.1 and 32.1.
fn interference() -> Vec<Latency> {
    vec![curve(4.8e3, 0.0, 0.0, 2.0), curve(25.1e3, 0.0, 0.0, 32.1 / 25.1)]
}

struct Setting {
    latencies: Vec<Latency>,
    routing: SimRouting,
    agreement: f64,
    n: usize,
}

impl Setting {
    fn tokens_per_s(&self, rule: LaunchRule, optimistic: Optimistic) -> f64 {
        let closed_loop = ClosedLoop {
            latencies: self.latencies.clone(),
            routing: self.routing.clone(),
            rule,
            requests: self.n,
            seed: 0,
            optimistic,
            agreement: self.agreement,
        };
        closed_loop.measure(12_000).tokens_per_s
    }

    /// The best threshold without decoding ahead, of those around where it is.
    fn best_fixed(&self) -> f64 {
        let thresholds = [1, self.n.div_ceil(2), (self.n * 5).div_ceil(8), self.n];
        let rates = thresholds.map(|b| self.tokens_per_s(LaunchRule::Threshold(vec![1, b as u32]), Optimistic::Off));
        rates.into_iter().fold(0.0, f64::max)
    }
}

/// The gains over the best threshold, at agreement 0.5, 0.7 and 0.85, that an independent simulation found for large steps of
/// constant cost, and at 0.7 and 0.85 for two models on one device.
#[test]
fn auto_reaches_the_gains_of_an_independent_simulation() {
    let gains = [
        (constant(), 0.5, [1.27, 1.41, 1.46, 1.49]),
        (constant(), 0.7, [1.55, 1.80, 1.88, 1.92]),
        (constant(), 0.85, [1.92, 2.30, 2.40, 2.46]),
        (interference(), 0.7, [1.12, 1.49, 1.62, 1.73]),
        (interference(), 0.85, [1.28, 1.84, 2.08, 2.25]),
    ];
    for (latencies, agreement, expected) in gains {
        for (n, expected) in [1, 4, 8, 16].into_iter().zip(expected) {
            let setting = Setting {
                latencies: latencies.clone(),
                routing: handback(P),
                agreement,
                n,
            };
            let gain = setting.tokens_per_s(LaunchRule::Lookahead, Optimistic::Auto) / setting.best_fixed();
            println!("agreement {agreement}, N = {n}: x {gain:.2}, expected {expected}");
            // The figures are of one run of finite length each.
            assert!(
                gain >= 0.98 * expected,
                "agreement {agreement}, N = {n}: x {gain:.3}, expected {expected}"
            );
        }
    }
}

/// Where decoding ahead does not pay, it is left alone: seldom agreeing models, models on one device, large steps that cost more
/// with more tokens, bursts, and policies that stay with the large model for a while or never hand back at once.
#[test]
fn auto_never_loses() {
    let more_tokens_cost_more = vec![curve(6.0e3, 200.0, 0.0, 1.0), curve(27.9e3, 500.0, 1_000.0, 1.0)];
    let bursty = SimRouting::Bursty {
        calm_p: 0.10,
        storm_p: 0.85,
        flip: 0.05,
    };
    let stretches = SimRouting::Stretches {
        large_p: 0.2,
        small_tokens: 40,
        large_tokens: 60,
    };
    let r_stitch = SimRouting::of(&Routing::r_stitch(0.2, 0.4).unwrap());
    let mixture = SimRouting::of(&Routing::mixture(&[0.6, 0.4]).unwrap());
    let scenarios = [
        ("constant", constant(), handback(P)),
        ("interference", interference(), handback(P)),
        ("tokens cost more", more_tokens_cost_more, handback(P)),
        ("bursty", constant(), bursty.clone()),
        ("bursty, interference", interference(), bursty),
        ("stretches", constant(), stretches),
        ("r-stitch, interference", interference(), r_stitch),
        ("mixture", interference(), mixture),
    ];
    for (name, latencies, routing) in scenarios {
        for (n, agreement) in [(1, 0.1), (8, 0.1), (8, 0.5)] {
            let setting = Setting {
                latencies: latencies.clone(),
                routing: routing.clone(),
                agreement,
                n,
            };
            let rate = |optimistic| setting.tokens_per_s(LaunchRule::Lookahead, optimistic);
            let ratio = rate(Optimistic::Auto) / rate(Optimistic::Off);
            println!("{name}, N = {n}, agreement {agreement}: x {ratio:.3}");
            assert!(ratio >= 0.97, "{name}, N = {n}, agreement {agreement}: x {ratio:.3}");
        }
    }
}
