//! Invariant 7, core purity: nothing is allocated per token in steady state, and no clock, thread, file or socket is used.

mod driver;

use driver::Driver;

#[test]
fn core_purity_no_allocation_per_token_in_steady_state() {
    for requests in [1, 8, 64] {
        let mut driver = Driver::new(requests, 100_000);
        (0..1_000).for_each(|_| driver.round());
        let before = driver.routed;
        let counted = allocation_counter::measure(|| (0..2_000).for_each(|_| driver.round()));
        let routed = driver.routed - before;
        assert!(routed >= 2_000, "{routed} tokens routed");
        assert_eq!(
            counted.count_total, 0,
            "{} allocations for {routed} tokens of {requests} requests",
            counted.count_total
        );
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
