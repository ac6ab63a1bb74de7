//! Fuzzes the parser of requests, and the detokeniser with its stop matcher.
//!
//!     cargo run --release --example fuzz [SECONDS] [SEED]
//!
//! An input for which something does not hold ends the program; it is written to `fuzz-TARGET-failed` in the system's
//! folder for temporary files. Put it into `tests/corpus/TARGET` and it is tried by `cargo test` from then on.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

#[path = "../tests/fuzz/mod.rs"]
mod targets;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use targets::{TARGETS, Target};

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let seconds: u64 = arguments
        .next()
        .map_or(Ok(60), |text| text.parse())
        .context("SECONDS")?;
    let seed: u64 = arguments.next().map_or(Ok(1), |text| text.parse()).context("SEED")?;
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
    for target in &TARGETS {
        fuzz(target, &tests, Duration::from_secs(seconds), seed)?;
    }
    Ok(())
}

fn fuzz(target: &Target, tests: &Path, limit: Duration, seed: u64) -> anyhow::Result<()> {
    let corpus = target.corpus(tests);
    let until = Instant::now() + limit;
    println!("{}: seed {seed}, corpus of {}", target.name, corpus.len());
    let failed = std::env::temp_dir().join(format!("fuzz-{}-failed", target.name));
    let (tried, further) = target.fuzz(&corpus, seed, Some(&failed), |_| Instant::now() < until);
    if tried == 0 {
        bail!("no input was tried; give more seconds than {}", limit.as_secs());
    }
    println!(
        "{}: {tried} inputs, {further} got further than being refused at once, all held",
        target.name
    );
    Ok(())
}
