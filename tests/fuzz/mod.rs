//! Fuzzing without a fuzzing compiler: inputs of a corpus are mutated at random, and every result is held against what must
//! be true of it. A target panics when it is not. Everything is a function of the seed.

pub mod mutate;
pub mod request;
pub mod text;

use std::path::Path;

use mutate::Random;

/// What is fuzzed.
pub struct Target {
    pub name: &'static str,
    /// Tries one input; panics if something does not hold. Returns whether the input was worth keeping: it got further
    /// than being refused at once.
    pub try_input: fn(&[u8]) -> bool,
    /// Strings that mutations put in.
    pub words: &'static [&'static str],
}

/// All targets.
pub const TARGETS: [Target; 2] = [
    Target {
        name: "request",
        try_input: request::try_input,
        words: &request::WORDS,
    },
    Target {
        name: "text",
        try_input: text::try_input,
        words: &text::WORDS,
    },
];

/// Inputs that are kept at once; new ones replace old ones at random.
const KEPT_MAX: usize = 4_096;

/// An input that is being tried; it is written down if that panics.
struct Trial<'a> {
    input: &'a [u8],
    failed: Option<&'a Path>,
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        if let Some(path) = self.failed.filter(|_| std::thread::panicking()) {
            drop(std::fs::write(path, self.input));
        }
    }
}

impl Target {
    /// The inputs in `tests/corpus/NAME`, by name of file.
    pub fn corpus(&self, tests: &Path) -> Vec<Vec<u8>> {
        let folder = tests.join("corpus").join(self.name);
        let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
        paths.sort();
        paths.iter().map(|path| std::fs::read(path).expect("a file")).collect()
    }

    /// Tries mutations of `corpus` while `goes_on` of their number, and writes one that panics to `failed`. Returns how many
    /// were tried, and how many of them got further than being refused.
    pub fn fuzz(
        &self,
        corpus: &[Vec<u8>],
        seed: u64,
        failed: Option<&Path>,
        mut goes_on: impl FnMut(u64) -> bool,
    ) -> (u64, u64) {
        let mut random = Random::new(seed);
        let mut kept = corpus.to_vec();
        let (mut tried, mut further) = (0, 0);
        while goes_on(tried) {
            let mut input = kept[random.below(kept.len())].clone();
            for _ in 0..1 + random.below(4) {
                mutate::mutate(&mut input, &kept, self.words, &mut random);
            }
            input.truncate(8_192);
            tried += 1;
            let trial = Trial { input: &input, failed };
            let went_further = (self.try_input)(trial.input);
            drop(trial);
            if went_further {
                further += 1;
                if kept.len() < KEPT_MAX {
                    kept.push(input);
                } else {
                    let place = corpus.len() + random.below(KEPT_MAX - corpus.len());
                    kept[place] = input;
                }
            }
        }
        (tried, further)
    }
}
