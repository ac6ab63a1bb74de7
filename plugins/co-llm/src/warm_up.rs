//! A threshold that starts at 1, where nothing is handed over, and comes down over the first tokens.

use core::f64::consts::PI;

use tokenrouter_sdk::prelude::*;

/// Option `warm-up`.
pub const WARM_UP: Choice = Choice {
    name: "warm-up",
    summary: "how the threshold comes down from 1 at the first token: not at all (constant), linear, cosine or \
              exponential",
    default: "constant",
    choices: &["constant", "linear", "cosine", "exponential"],
    per_request: false,
};

/// Option `warm-up-tokens`.
pub const WARM_UP_TOKENS: Number = Number {
    name: "warm-up-tokens",
    summary: "tokens of the answer after which the threshold is down, 1 to 100000",
    default: 15.0,
    min: 1.0,
    max: 100_000.0,
    per_request: false,
};

#[derive(Clone, Copy)]
enum Shape {
    Constant,
    Linear,
    Cosine,
    Exponential,
}

/// The course of a threshold over an answer.
pub struct WarmUp {
    shape: Shape,
    tokens: f64,
}

impl WarmUp {
    /// From the options.
    ///
    /// # Errors
    /// If a length is given for a threshold that is constant.
    pub fn read(options: &Options) -> Result<Self, String> {
        options.only_for(&WARM_UP_TOKENS, &WARM_UP, &["linear", "cosine", "exponential"])?;
        let shape = match options.get(&WARM_UP) {
            "linear" => Shape::Linear,
            "cosine" => Shape::Cosine,
            "exponential" => Shape::Exponential,
            _ => Shape::Constant,
        };
        Ok(Self {
            shape,
            tokens: options.get(&WARM_UP_TOKENS),
        })
    }

    /// The threshold for the token after `written` tokens of the answer, on its way from 1 to `end`.
    pub fn threshold(&self, end: f32, written: u64) -> f32 {
        let done = written as f64 / self.tokens;
        if done >= 1.0 {
            return end;
        }
        let to = f64::from(end);
        let now = match self.shape {
            Shape::Constant => return end,
            Shape::Linear => 1.0 + (to - 1.0) * done,
            Shape::Cosine => to + (1.0 - to) * 0.5 * ((PI * done).cos() + 1.0),
            Shape::Exponential => to.powf(done),
        };
        now as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokenrouter_sdk::testing::{number, text};

    fn thresholds(shape: &str, tokens: f64, end: f32) -> Vec<f32> {
        let settings = vec![text("warm-up", shape), number("warm-up-tokens", tokens)];
        let warm_up = WarmUp::read(&Options::read(&[&WARM_UP, &WARM_UP_TOKENS], settings).unwrap()).unwrap();
        (0..=5).map(|written| warm_up.threshold(end, written)).collect()
    }

    fn close(found: &[f32], expected: [f32; 6]) {
        let near = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6);
        assert!(near, "{found:?}, expected {expected:?}");
    }

    /// From 1 to 0.0625 in 4 tokens. Cosine: 0.0625 + 0.46875 (1 + cos(k π / 4)). Exponential: 0.0625^(k / 4) = 2^-k.
    #[test]
    fn each_shape_starts_at_1_and_ends_at_the_threshold() {
        let half = 0.468_75 * core::f32::consts::FRAC_1_SQRT_2;
        let middle = 0.531_25;
        close(
            &thresholds("linear", 4.0, 0.0625),
            [1.0, 0.765_625, 0.531_25, 0.296_875, 0.0625, 0.0625],
        );
        close(
            &thresholds("cosine", 4.0, 0.0625),
            [1.0, middle + half, middle, middle - half, 0.0625, 0.0625],
        );
        close(
            &thresholds("exponential", 4.0, 0.0625),
            [1.0, 0.5, 0.25, 0.125, 0.0625, 0.0625],
        );
    }

    #[test]
    fn it_takes_15_tokens_by_default_and_none_when_constant() {
        let read = |settings| WarmUp::read(&Options::read(&[&WARM_UP, &WARM_UP_TOKENS], settings).unwrap());
        let linear = read(vec![text("warm-up", "linear")]).unwrap();
        assert!(linear.threshold(0.15, 14) > 0.15);
        assert_eq!(linear.threshold(0.15, 15), 0.15);
        assert_eq!(read(vec![]).unwrap().threshold(0.15, 0), 0.15);
        let refusal = read(vec![number("warm-up-tokens", 4.0)]).err().unwrap();
        assert!(
            refusal.contains("\"warm-up-tokens\"") && refusal.contains("linear"),
            "{refusal}"
        );
    }

    #[test]
    fn a_threshold_of_0_is_reached_by_every_shape() {
        for shape in ["linear", "cosine", "exponential"] {
            let found = thresholds(shape, 3.0, 0.0);
            assert!(
                found[0] == 1.0 && found[3..].iter().all(|t| *t == 0.0),
                "{shape}: {found:?}"
            );
        }
    }
}
