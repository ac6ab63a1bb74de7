//! What must hold for every system: methods agree, bounds bound, searches find the best.

use tokenrouter_planner::{Chain, ChainLimits, Latencies, PlanError, Planner, Routing, Search, System, approximation};

/// A small counter-based generator (SplitMix64), so that a failure is told by its seed.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn law(&mut self, models: usize) -> Vec<f64> {
        let weights: Vec<f64> = (0..models).map(|_| 0.05 + self.uniform()).collect();
        let sum: f64 = weights.iter().sum();
        weights.into_iter().map(|w| w / sum).collect()
    }
}

fn system(quanta: &[u64], routing: Routing) -> System {
    let ms: Vec<f64> = quanta.iter().map(|&d| d as f64).collect();
    System::new(Latencies::with_quantum(&ms, 1.0).unwrap(), routing).unwrap()
}

fn by_chain(system: &System, n: usize, b: &[usize]) -> f64 {
    Chain::new(system, n, b, ChainLimits::default())
        .unwrap()
        .tokens_per_s()
        .unwrap()
}

#[test]
fn the_fast_solution_is_the_general_chains() {
    for seed in 0..150 {
        let mut draws = Draws(seed);
        let small = draws.within(1, 7);
        let large = draws.within(small, 30);
        let p = [1e-3, 1.0, draws.uniform(), draws.uniform()][draws.within(0, 3) as usize];
        let system = system(&[small, large], Routing::one_token_handback(p).unwrap());
        let n = draws.within(1, 14) as usize;
        let b = draws.within(1, n as u64) as usize;
        let (fast, general) = (
            Planner::new(system.clone()).tokens_per_s(n, &[1, b]),
            by_chain(&system, n, &[1, b]),
        );
        let fast = fast.unwrap();
        let what = format!("seed {seed}: d=({small}, {large}) p={p} n={n} b={b}: {fast}, {general}");
        assert!((fast / general - 1.0).abs() < 1e-8, "{what}");
    }
}

#[test]
fn orbits_that_are_hardly_ever_left_have_their_law() {
    // Nearly all requests leave the small model within a step of the large one, so that its batches alternate between
    // two sizes for thousands of steps before the sizes change.
    for (small, large, p, n, b) in [(1, 23, 0.344, 6, 1), (2, 21, 0.889, 13, 2), (1, 40, 0.5, 8, 1)] {
        let system = system(&[small, large], Routing::one_token_handback(p).unwrap());
        let (fast, general) = (
            Planner::new(system.clone()).tokens_per_s(n, &[1, b]),
            by_chain(&system, n, &[1, b]),
        );
        let fast = fast.unwrap();
        assert!(
            (fast / general - 1.0).abs() < 1e-7,
            "d=({small}, {large}) p={p}: {fast}, {general}"
        );
    }
}

#[test]
fn systems_without_the_fast_structure_are_planned_too() {
    // A large model that is faster than the small one, and one that never gets a request.
    for (quanta, p) in [([5, 3], 0.4), ([2, 9], 0.0)] {
        let system = system(&quanta, Routing::one_token_handback(p).unwrap());
        let planned = Planner::new(system.clone()).tokens_per_s(6, &[1, 2]).unwrap();
        assert_eq!(planned, by_chain(&system, 6, &[1, 2]));
        assert!(planned <= system.bound(6) * (1.0 + 1e-9));
    }
}

#[test]
fn no_thresholds_pass_the_bound_and_one_request_reaches_it() {
    for seed in 0..40 {
        let mut draws = Draws(seed);
        let models = draws.within(1, 3) as usize;
        let quanta: Vec<u64> = (0..models).map(|_| draws.within(1, 6)).collect();
        let p: Vec<Vec<f64>> = (0..models).map(|_| draws.law(models)).collect();
        let c: Vec<Vec<f64>> = (0..models)
            .map(|_| (0..models).map(|_| draws.uniform()).collect())
            .collect();
        let system = system(&quanta, Routing::new(p, c).unwrap());
        let alone = by_chain(&system, 1, &vec![1; models]);
        assert!(
            (alone / system.bound(1) - 1.0).abs() < 1e-9,
            "seed {seed}: {alone} of {}",
            system.bound(1)
        );
        let n = draws.within(2, 5) as usize;
        let search = Search {
            eager_entry: false,
            ..Search::default()
        };
        for row in Planner::new(system).plan(n, search).unwrap() {
            assert!(
                row.tokens_per_s > 0.0 && row.bound_percent <= 100.0 + 1e-6,
                "seed {seed}: {row:?}"
            );
        }
    }
}

#[test]
fn throughput_scales_with_time_and_not_with_the_quantum() {
    let routing = || Routing::r_stitch(0.3, 0.6).unwrap();
    let one = |ms: [f64; 2], quantum_ms| {
        let latencies = Latencies::with_quantum(&ms, quantum_ms).unwrap();
        by_chain(&System::new(latencies, routing()).unwrap(), 5, &[1, 3])
    };
    let whole = one([6.0, 28.0], 2.0);
    assert!((one([6.0, 28.0], 1.0) / whole - 1.0).abs() < 1e-9);
    assert!((one([12.0, 56.0], 4.0) * 2.0 / whole - 1.0).abs() < 1e-9);
}

#[test]
fn models_that_run_in_step_reach_the_bound() {
    // With equal latencies and eager thresholds all steps end together, and nobody waits.
    let system = system(&[4, 4, 4], Routing::mixture(&[0.5, 0.3, 0.2]).unwrap());
    assert!((by_chain(&system, 6, &[1, 1, 1]) / system.bound(6) - 1.0).abs() < 1e-9);
}

#[test]
fn ascent_finds_what_trying_all_finds() {
    for (quanta, weights) in [
        ([1, 2, 7], [0.5, 0.3, 0.2]),
        ([2, 5, 9], [0.6, 0.2, 0.2]),
        ([1, 3, 4], [0.4, 0.3, 0.3]),
    ] {
        let mut planner = Planner::new(system(&quanta, Routing::mixture(&weights).unwrap()));
        for n in [3, 5, 6] {
            let mut best = |exhaustive_max| {
                let rows = planner
                    .plan(
                        n,
                        Search {
                            eager_entry: true,
                            exhaustive_max,
                        },
                    )
                    .unwrap();
                rows.into_iter().find(|row| row.best).unwrap()
            };
            let (climbed, all) = (best(0), best(usize::MAX));
            assert!(
                climbed.tokens_per_s >= all.tokens_per_s * (1.0 - 1e-9),
                "{quanta:?} n={n}: {climbed:?}, {all:?}"
            );
        }
    }
}

#[test]
fn the_rule_of_thumb_costs_little() {
    let mut planner = Planner::new(system(&[3, 14], Routing::one_token_handback(0.35).unwrap()));
    for n in [2, 3, 4, 8, 12, 16, 32, 64] {
        let rows = planner.plan(n, Search::default()).unwrap();
        let best = rows.iter().find(|row| row.best).unwrap();
        let rule = &rows[approximation::threshold_rule_of_thumb(n, 0.35, 3.0, 14.0) - 1];
        assert!(rule.tokens_per_s > 0.97 * best.tokens_per_s, "{rule:?}, {best:?}");
    }
}

#[test]
fn the_fluid_is_near_the_chain_where_requests_are_many() {
    let mut planner = Planner::new(system(&[3, 14], Routing::one_token_handback(0.35).unwrap()));
    for n in [16, 32, 64] {
        for b in [n / 4, n / 2, 3 * n / 5] {
            let exact = planner.tokens_per_s(n, &[1, b]).unwrap();
            let fluid = approximation::fluid_tokens_per_s(n, b, 0.35, 3.0, 14.0).unwrap();
            assert!((fluid / exact - 1.0).abs() < 0.05, "n={n} b={b}: {fluid}, {exact}");
        }
    }
}

#[test]
fn a_chain_beyond_the_limits_is_refused_before_it_is_built() {
    let limits = ChainLimits {
        states_max: 1000,
        transitions_max: 10_000_000,
    };
    let me = system(&[3, 14, 40], Routing::mixture(&[0.5, 0.3, 0.2]).unwrap());
    let refused = Planner::with_limits(me, limits)
        .tokens_per_s(12, &[1, 1, 1])
        .unwrap_err();
    assert!(matches!(
        refused,
        PlanError::TooLarge {
            what: "states",
            max: 1000,
            ..
        }
    ));
    assert!(
        refused
            .to_string()
            .contains("use a longer quantum (now 1 ms) or fewer requests"),
        "{refused}"
    );
}
