//! The counter-based generator: every random number of a request is a function of its seed, the position and what
//! the number is for. So a request gets the same numbers whatever else is in its batch, in whatever order steps run,
//! and on whichever thread or machine.

use crate::ids::{ModelIndex, TokenId};

/// What a number is drawn for. Draws for different purposes are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Sampling the candidate at a position, by a model: two models draw independently at the same position.
    Sample(ModelIndex),
    /// The policy's signal `uniform(n)` at a position.
    Policy(u32),
    /// The policy's draw at admission.
    Admission,
    /// The seed of a further answer to the same prompt; its number stands in place of the position.
    Choice,
    /// Which part of the traffic a request belongs to: position 0 for the canary, 1 for the shadow.
    Traffic,
}

impl Purpose {
    fn word(self) -> u64 {
        match self {
            Purpose::Sample(model) => u64::from(model.0),
            Purpose::Policy(number) => 1 << 32 | u64::from(number),
            Purpose::Admission => 2 << 32,
            Purpose::Choice => 3 << 32,
            Purpose::Traffic => 4 << 32,
        }
    }
}

/// 64 random bits for (seed, position, purpose).
///
/// Three rounds of the SplitMix64 finaliser (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
/// 2014), one for each word of the key.
pub fn bits(seed: u64, position: u64, purpose: Purpose) -> u64 {
    let mut x = mix(seed ^ 0x746f_6b65_6e72_7472);
    x = mix(x ^ position.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mix(x ^ purpose.word().wrapping_mul(0xd1b5_4a32_d192_ed03))
}

/// A number in [0, 1) for (seed, position, purpose), with 53 random bits.
pub fn uniform(seed: u64, position: u64, purpose: Purpose) -> f64 {
    (bits(seed, position, purpose) >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// The same with 24 random bits, exact in f32 and still below 1.
pub fn uniform_f32(seed: u64, position: u64, purpose: Purpose) -> f32 {
    (bits(seed, position, purpose) >> 40) as f32 * (1.0 / (1u32 << 24) as f32)
}

/// A token drawn evenly below `vocabulary`, for runners without a model.
pub fn token(seed: u64, position: u64, model: ModelIndex, vocabulary: u32) -> TokenId {
    ((u128::from(bits(seed, position, Purpose::Sample(model))) * u128::from(vocabulary)) >> 64) as TokenId
}

fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_depend_on_every_word_of_the_key() {
        let base = bits(1, 2, Purpose::Sample(ModelIndex(0)));
        assert_eq!(base, bits(1, 2, Purpose::Sample(ModelIndex(0))));
        for other in [
            bits(2, 2, Purpose::Sample(ModelIndex(0))),
            bits(1, 3, Purpose::Sample(ModelIndex(0))),
            bits(1, 2, Purpose::Sample(ModelIndex(1))),
            bits(1, 2, Purpose::Policy(0)),
            bits(1, 2, Purpose::Admission),
            bits(1, 2, Purpose::Choice),
        ] {
            assert_ne!(base, other);
        }
    }

    /// 64,000 draws in 64 bins: chi-square with 63 degrees of freedom stays below its 99.99 % point (113.5), for
    /// neighbouring positions and for neighbouring seeds.
    #[test]
    fn draws_are_uniform_over_positions_and_seeds() {
        for by_seed in [false, true] {
            let mut bins = [0u32; 64];
            for i in 0..64_000u64 {
                let (seed, position) = if by_seed { (i, 7) } else { (7, i) };
                bins[(uniform(seed, position, Purpose::Policy(0)) * 64.0) as usize] += 1;
            }
            let chi_square: f64 = bins.iter().map(|&n| (f64::from(n) - 1000.0).powi(2) / 1000.0).sum();
            assert!(chi_square < 113.5, "by_seed {by_seed}: {chi_square}");
        }
    }
}
