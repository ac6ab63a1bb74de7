//! Invariant 7, core purity: nothing is allocated per token in steady state, and no clock, thread, file or socket is used.

mod driver;

use driver::Driver;
use tokenrouter_core::ahead::Optimistic;

#[test]
fn core_purity_no_allocation_per_token_in_steady_state() {
    let settings = [Optimistic::Off, Optimistic::Window(4), Optimistic::Auto];
    for (requests, optimistic) in [1, 8, 64]
        .into_iter()
        .flat_map(|n| settings.map(|setting| (n, setting)))
    {
        let mut driver = Driver::new(requests, 200_000, optimistic);
        // So long that every buffer has met the largest batch: with few requests and drafts, that is a rare coincidence.
        (0..5_000).for_each(|_| driver.uneven_round());
        let before = driver.routed;
        let counted = allocation_counter::measure(|| (0..500).for_each(|_| driver.uneven_round()));
        let routed = driver.routed - before;
        assert!(routed >= 1_000, "{routed} tokens routed");
        // Ahead, a buffer may still meet a larger batch than ever before; off, there is none that could grow.
        let allowed = if optimistic == Optimistic::Off {
            0
        } else {
            routed / 10_000
        };
        assert!(
            counted.count_total <= allowed,
            "{} allocations for {routed} tokens of {requests} requests, optimistic {optimistic}",
            counted.count_total
        );
        let [small, large] = driver.ahead_counts();
        match optimistic {
            Optimistic::Off => assert_eq!((small.written, large.settled), (0, 0)),
            Optimistic::Window(_) => {
                assert!(small.written > 1_000 && large.confirmed > 100, "{small:?} {large:?}");
            }
            // Whether it is worth while depends on times, and here all steps take none.
            Optimistic::Auto => {}
        }
    }
}

#[test]
fn core_purity_no_clock_thread_or_io() {
    let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let entries = std::fs::read_dir(sources).unwrap().map(|entry| entry.unwrap().path());
    for path in entries.filter(|path| path.is_file()) {
        let text = std::fs::read_to_string(&path).unwrap();
        for word in [
            "std::time",
            "std::thread",
            "std::fs",
            "std::net",
            "std::io",
            "std::env",
            "Instant",
            "SystemTime",
        ] {
            assert!(!text.contains(word), "{} uses {word}", path.display());
        }
    }
    let manifest = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap();
    let dependencies = manifest
        .split("[dependencies]")
        .nth(1)
        .unwrap()
        .split('[')
        .next()
        .unwrap();
    assert_eq!(dependencies.trim(), "", "the core depends on nothing");
}
