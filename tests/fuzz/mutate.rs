//! Random changes of bytes.

use tokenrouter_core::draw::{Purpose, bits};

/// Numbers that are a function of a seed.
pub struct Random {
    seed: u64,
    drawn: u64,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Self { seed, drawn: 0 }
    }

    /// A number below `bound`, which is above 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.drawn += 1;
        (bits(self.seed, self.drawn, Purpose::Policy(0)) % bound as u64) as usize
    }
}

/// Changes `input` once: bits, bytes, words, numbers, pieces of itself or of another input.
pub fn mutate(input: &mut Vec<u8>, others: &[Vec<u8>], words: &[&str], random: &mut Random) {
    let place = random.below(input.len() + 1);
    let end = (place + 1 + random.below(12)).min(input.len());
    let range = place.min(end)..end;
    match random.below(8) {
        0 => drop(input.drain(range)),
        1 => input.insert(place, random.below(256) as u8),
        2 if place < input.len() => input[place] ^= 1 << random.below(8),
        3 => {
            let copy = input[range].to_vec();
            let at = random.below(input.len() + 1);
            drop(input.splice(at..at, copy));
        }
        4 => {
            let other = &others[random.below(others.len())];
            let from = random.below(other.len() + 1);
            let to = (from + random.below(64)).min(other.len());
            drop(input.splice(range, other[from..to].iter().copied()));
        }
        5 => {
            let number = [
                "0",
                "-1",
                "1e308",
                "18446744073709551615",
                "4294967296",
                "0.1",
                "21",
                "-0",
                "1e-320",
            ];
            replace_run(input, place, u8::is_ascii_digit, number[random.below(number.len())]);
        }
        _ => {
            let word = words[random.below(words.len())];
            if random.below(2) == 0 {
                replace_run(input, place, u8::is_ascii_alphanumeric, word);
            } else {
                drop(input.splice(range, word.bytes()));
            }
        }
    }
}

/// Replaces the run of bytes of a kind that begins at or after `place`.
fn replace_run(input: &mut Vec<u8>, place: usize, kind: fn(&u8) -> bool, with: &str) {
    let Some(start) = input[place..].iter().position(kind).map(|offset| place + offset) else {
        return;
    };
    let len = input[start..].iter().take_while(|byte| kind(byte)).count();
    drop(input.splice(start..start + len, with.bytes()));
}
