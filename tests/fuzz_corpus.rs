//! The corpus of the fuzzing targets, tried as it is and with a few thousand mutations. `cargo run --release --example fuzz`
//! goes on for as long as it is told.

#[path = "fuzz/mod.rs"]
mod targets;

use std::path::Path;

use targets::TARGETS;

const MUTATIONS: u64 = 20_000;

#[test]
fn what_is_fuzzed_holds_for_the_corpus_and_near_it() {
    let seed = 20_261_130;
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
    for target in &TARGETS {
        let corpus = target.corpus(&tests);
        assert!(corpus.len() >= 8, "{}: a corpus of {}", target.name, corpus.len());
        for input in &corpus {
            (target.try_input)(input);
        }
        let (tried, further) = target.fuzz(&corpus, seed, None, |tried| tried < MUTATIONS);
        assert!(
            further * 20 > tried,
            "{}, seed {seed}: {further} of {tried} inputs got further than being refused at once",
            target.name
        );
    }
}
