//! Values that an independent implementation computed and, where it prints them, the paper (arXiv 2610.12242).

use tokenrouter_planner::{Chain, ChainLimits, Latencies, Planner, Routing, Search, System};

fn handback(quantum_ms: f64, latency_ms: [f64; 2]) -> System {
    let latencies = Latencies::with_quantum(&latency_ms, quantum_ms).unwrap();
    System::new(latencies, Routing::one_token_handback(0.35).unwrap()).unwrap()
}

fn paper() -> System {
    handback(0.1, [6.0, 27.9])
}

const EXPECTED: [(usize, &[f64]); 5] = [
    (1, &[63.43]),
    (2, &[99.0, 110.3]),
    (3, &[142.3, 158.1, 151.9]),
    (4, &[187.2, 195.4, 208.0, 190.7]),
    (8, &[369.2, 370.6, 374.4, 386.8, 399.0, 397.7, 381.1, 332.4]),
];

#[test]
fn the_planner_gives_the_papers_predictions() {
    let mut planner = Planner::new(paper());
    for (n, expected) in EXPECTED {
        let rows = planner.plan(n, Search::default()).unwrap();
        assert_eq!(rows.len(), expected.len());
        for (row, expected) in rows.iter().zip(expected) {
            assert!(
                (row.tokens_per_s - expected).abs() < 0.1,
                "{row:?}, expected {expected}"
            );
        }
    }
}

#[test]
fn the_general_chain_gives_the_papers_predictions() {
    for (n, expected) in EXPECTED {
        for (b, expected) in (1..).zip(expected) {
            let chain = Chain::new(&paper(), n, &[1, b], ChainLimits::default()).unwrap();
            let got = chain.tokens_per_s().unwrap();
            assert!((got - expected).abs() < 0.1, "n={n} b={b}: {got}, expected {expected}");
        }
    }
}

#[test]
fn the_best_threshold_at_twelve_requests() {
    let rows = Planner::new(paper()).plan(12, Search::default()).unwrap();
    let best = rows.iter().find(|row| row.best).unwrap();
    assert_eq!(best.b, [1, 8]);
    assert!((best.tokens_per_s - 589.9).abs() < 0.1, "{best:?}");
}

#[test]
fn one_request_runs_at_the_closed_form_for_any_p() {
    for p in [1e-6, 0.05, 0.35, 0.9, 1.0] {
        let latencies = Latencies::with_quantum(&[6.0, 27.9], 0.1).unwrap();
        let system = System::new(latencies, Routing::one_token_handback(p).unwrap()).unwrap();
        let exact = 1e3 / (6.0 + p * 27.9);
        let chain = Chain::new(&system, 1, &[1, 1], ChainLimits::default())
            .unwrap()
            .tokens_per_s()
            .unwrap();
        let fast = Planner::new(system).tokens_per_s(1, &[1, 1]).unwrap();
        assert!(
            (chain / exact - 1.0).abs() < 1e-9 && (fast / exact - 1.0).abs() < 1e-9,
            "p={p}: {chain}, {fast}"
        );
    }
}

#[test]
fn the_numbers_of_reachable_states() {
    let states = |system: &System, n, b: &[usize]| Chain::new(system, n, b, ChainLimits::default()).unwrap().states();
    let system = paper();
    assert_eq!(states(&system, 2, &[1, 2]), 3);
    for (n, b, expected) in [
        (4, 1, 715),
        (4, 3, 14),
        (8, 1, 3_453),
        (8, 5, 51),
        (16, 1, 14_257),
        (16, 10, 146),
    ] {
        assert_eq!(states(&system, n, &[1, b]), expected, "n={n} b={b}");
    }
    let mixture = Routing::mixture(&[0.5, 0.3, 0.2]).unwrap();
    let system = System::new(Latencies::with_quantum(&[1.0, 2.0, 7.0], 1.0).unwrap(), mixture).unwrap();
    for (n, expected) in [(4, 220), (6, 803), (8, 2_096)] {
        assert_eq!(states(&system, n, &[1, 1, 1]), expected, "n={n}");
    }
}

#[test]
fn a_waiting_small_model_is_never_better() {
    // d = (2, 9), the quantum midway between those that fit the latency of either model.
    let mut planner = Planner::new(handback(3.05, [2.0 * 3.05, 9.0 * 3.05]));
    let search = Search {
        eager_entry: false,
        ..Search::default()
    };
    let rows = planner.plan(8, search).unwrap();
    assert_eq!(rows.len(), 36);
    let best = |b0| {
        let with = rows.iter().filter(|row| row.b[0] == b0);
        with.max_by(|a, b| a.tokens_per_s.total_cmp(&b.tokens_per_s)).unwrap()
    };
    assert_eq!((best(1).b[1], best(2).b[1]), (5, 5));
    assert!(best(1).best);
    for (best, expected) in [(best(1), 398.1), (best(2), 395.7)] {
        assert!(
            (best.tokens_per_s - expected).abs() < 0.1,
            "{best:?}, expected {expected}"
        );
    }
}
