//! From a row of logits to a candidate, with one draw keyed by (seed, position, model).
//!
//! The law: divide the logits by the temperature and take their softmax; keep the tokens that `min_p` allows, then of
//! these the `top_k` most probable, then of these, scaled to sum to 1, the fewest most probable that reach `top_p` (at
//! least one). Scale what is left to sum to 1.
//!
//! Before that come the request's biases, penalties and bans ([`crate::shaping`]), and then the format of its answer, if it
//! has one: tokens that may not come next are impossible ([`crate::grammar`]).
//!
//! The draw: with u uniform in [0, 1), the candidate is the first token whose cumulative probability exceeds u, in the
//! order of descending probability and, of equal ones, ascending token id. So the candidate is a function of the
//! logits, the sampling and the key alone.

use tokenrouter_core::draw::{Purpose, uniform};
use tokenrouter_core::{ModelIndex, TokenId};

use crate::descending::Descending;
use crate::runner::{RowAsk, Sampling};

/// Samples for one model. Buffers are kept.
#[derive(Debug)]
pub struct Sampler {
    model: ModelIndex,
    tokens: Descending,
    shaped: Vec<f32>,
}

impl Sampler {
    /// A sampler whose draws are those of `model`.
    pub fn new(model: ModelIndex) -> Self {
        Self {
            model,
            tokens: Descending::default(),
            shaped: Vec::new(),
        }
    }

    /// The candidate for `position` of the sequence. `None` when the logits are no distribution: a NaN, a positive
    /// infinity, or nothing but negative infinities among them; or when bans leave none of them. A single negative
    /// infinity is a probability of 0.
    pub fn sample(&mut self, logits: &[f32], ask: &RowAsk<'_>, position: u64) -> Option<TokenId> {
        let raw = largest(logits)?;
        if ask.shaping.is_none() && ask.allowed.is_none() {
            return Some(self.choose(logits, raw, ask, position));
        }
        let mut shaped = std::mem::take(&mut self.shaped);
        shaped.clear();
        shaped.extend_from_slice(logits);
        if let Some(shaping) = ask.shaping {
            shaping.apply(&mut shaped);
        }
        if let Some(allowed) = ask.allowed {
            allowed.apply(&mut shaped);
        }
        let token = largest(&shaped).map(|largest| self.choose(&shaped, largest, ask, position));
        self.shaped = shaped;
        token
    }

    fn choose(&mut self, logits: &[f32], (max, largest): (f32, TokenId), ask: &RowAsk<'_>, position: u64) -> TokenId {
        if ask.sampling.is_greedy() {
            return largest;
        }
        let u = uniform(ask.seed, position, Purpose::Sample(self.model));
        self.draw(logits, max, &ask.sampling, u)
    }

    fn draw(&mut self, logits: &[f32], max: f32, sampling: &Sampling, u: f64) -> TokenId {
        let temperature = f64::from(sampling.temperature);
        // Relative to the most probable token, which weighs 1.
        let weight = move |logit: f32| (f64::from(logit - max) / temperature).exp();
        let weight_min = f64::from(sampling.min_p);
        self.tokens.fill(logits, |logit| {
            logit == max || (logit > f32::NEG_INFINITY && weight(logit) >= weight_min)
        });
        if sampling.top_k > 0 {
            self.tokens.truncate(sampling.top_k as usize);
        }
        let mut total: f64 = self.tokens.all().iter().map(|(logit, _)| weight(*logit)).sum();
        if sampling.top_p < 1.0 {
            total = self.nucleus(f64::from(sampling.top_p) * total, weight);
        }
        self.invert(u * total, weight)
    }

    /// Keeps the fewest first tokens whose weights reach `mass`; returns the sum of their weights.
    fn nucleus(&mut self, mass: f64, weight: impl Fn(f32) -> f64) -> f64 {
        let (mut sum, mut kept) = (0.0, 0);
        while let Some((logit, _)) = self.tokens.get(kept) {
            sum += weight(logit);
            kept += 1;
            if sum >= mass {
                break;
            }
        }
        self.tokens.truncate(kept);
        sum
    }

    /// The first token whose cumulative weight exceeds `target`; the last one when rounding leaves the sum below it.
    fn invert(&mut self, target: f64, weight: impl Fn(f32) -> f64) -> TokenId {
        let (mut sum, mut place, mut last) = (0.0, 0, 0);
        while let Some((logit, token)) = self.tokens.get(place) {
            let weight = weight(logit);
            if weight == 0.0 {
                break;
            }
            sum += weight;
            last = token;
            if sum > target {
                break;
            }
            place += 1;
        }
        last
    }
}

/// The largest logit and the smallest token id that has it; `None` when the logits are no distribution.
fn largest(logits: &[f32]) -> Option<(f32, TokenId)> {
    let (mut max, mut token) = (f32::NEG_INFINITY, 0);
    for (logit, id) in logits.iter().zip(0..) {
        if logit.is_nan() {
            return None;
        }
        if *logit > max {
            (max, token) = (*logit, id);
        }
    }
    max.is_finite().then_some((max, token))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Sampling = Sampling {
        temperature: 1.0,
        top_p: 1.0,
        top_k: 0,
        min_p: 0.0,
    };

    fn ask(sampling: Sampling) -> RowAsk<'static> {
        RowAsk {
            sampling,
            seed: 99,
            ..RowAsk::GREEDY
        }
    }

    /// Every token that `draws` draws give, with how often.
    fn counts(logits: &[f32], sampling: Sampling, draws: u64) -> Vec<u64> {
        let mut sampler = Sampler::new(ModelIndex(3));
        let mut counts = vec![0; logits.len()];
        for position in 0..draws {
            counts[sampler.sample(logits, &ask(sampling), position).unwrap() as usize] += 1;
        }
        counts
    }

    fn support(logits: &[f32], sampling: Sampling) -> Vec<usize> {
        let counts = counts(logits, sampling, 2000);
        (0..logits.len()).filter(|i| counts[*i] > 0).collect()
    }

    #[test]
    fn greedy_takes_the_largest_and_of_equal_ones_the_smallest_id() {
        let mut sampler = Sampler::new(ModelIndex(0));
        for temperature in [0.0, 1e-6, f32::NAN] {
            let sampling = Sampling { temperature, ..PLAIN };
            assert_eq!(
                sampler.sample(&[1.0, 5.0, 5.0, f32::NEG_INFINITY], &ask(sampling), 1),
                Some(1)
            );
        }
    }

    #[test]
    fn logits_that_are_no_distribution_give_no_candidate() {
        let mut sampler = Sampler::new(ModelIndex(0));
        for logits in [[0.0, f32::NAN], [0.0, f32::INFINITY], [f32::NEG_INFINITY; 2]] {
            for sampling in [PLAIN, Sampling::GREEDY] {
                assert_eq!(sampler.sample(&logits, &ask(sampling), 1), None, "{logits:?}");
            }
        }
    }

    /// p = 1/2, 1/4, 1/8, 1/8 (tokens 2, 0, 1, 3): u falls into [0, 1/2), [1/2, 3/4), [3/4, 7/8), [7/8, 1).
    #[test]
    fn the_draw_inverts_the_cumulative_probability_in_descending_order() {
        let logits = [0.25f32.ln(), 0.125f32.ln(), 0.5f32.ln(), 0.125f32.ln()];
        let mut sampler = Sampler::new(ModelIndex(0));
        let max = logits[2];
        for (u, token) in [
            (0.0, 2),
            (0.499, 2),
            (0.501, 0),
            (0.749, 0),
            (0.751, 1),
            (0.874, 1),
            (0.876, 3),
            (0.999, 3),
        ] {
            assert_eq!(sampler.draw(&logits, max, &PLAIN, u), token, "u = {u}");
        }
    }

    #[test]
    fn the_filters_keep_what_they_say() {
        // Probabilities 0.5, 0.25, 0.125, 0.125.
        let logits = [0.5f32.ln(), 0.25f32.ln(), 0.125f32.ln(), 0.125f32.ln()];
        for (sampling, kept) in [
            (Sampling { top_k: 1, ..PLAIN }, vec![0]),
            (Sampling { top_k: 3, ..PLAIN }, vec![0, 1, 2]), // Of the equal ones the smaller id.
            (Sampling { top_k: 9, ..PLAIN }, vec![0, 1, 2, 3]),
            (Sampling { top_p: 0.0, ..PLAIN }, vec![0]), // Never nothing.
            (Sampling { top_p: 0.49, ..PLAIN }, vec![0]),
            (Sampling { top_p: 0.51, ..PLAIN }, vec![0, 1]),
            (Sampling { top_p: 0.8, ..PLAIN }, vec![0, 1, 2]),
            (Sampling { min_p: 0.4, ..PLAIN }, vec![0, 1]), // At least 0.4 * 0.5.
            (Sampling { min_p: 1.0, ..PLAIN }, vec![0]),
            (Sampling { min_p: 2.0, ..PLAIN }, vec![0]),
            // top_p counts what top_k left: 2/3 and 1/3.
            (
                Sampling {
                    top_k: 2,
                    top_p: 0.6,
                    ..PLAIN
                },
                vec![0],
            ),
        ] {
            assert_eq!(support(&logits, sampling), kept, "{sampling:?}");
        }
        assert_eq!(support(&[0.0, f32::NEG_INFINITY, 0.0], PLAIN), [0, 2]);
    }

    /// The law itself, by chi-square with 9 degrees of freedom: its 99.99 % point is 33.7. Seed 99, positions from 0.
    #[test]
    fn draws_follow_the_softmax_at_the_temperature() {
        let logits: Vec<f32> = (0..10).map(|i| (i as f32 * 1.7).sin() * 2.0).collect();
        for temperature in [0.5f32, 1.0, 2.0] {
            let draws = 40_000;
            let counts = counts(&logits, Sampling { temperature, ..PLAIN }, draws);
            let weights: Vec<f64> = logits
                .iter()
                .map(|z| (f64::from(*z) / f64::from(temperature)).exp())
                .collect();
            let total: f64 = weights.iter().sum();
            let chi_square: f64 = counts
                .iter()
                .zip(&weights)
                .map(|(n, w)| (w / total * draws as f64, *n as f64))
                .map(|(expected, n)| (n - expected).powi(2) / expected)
                .sum();
            assert!(
                chi_square < 33.7,
                "seed 99, temperature {temperature}: chi-square {chi_square}"
            );
        }
    }

    #[test]
    fn a_large_vocabulary_is_sampled_from_its_tail_too() {
        let logits = vec![0.0f32; 5000];
        let mut sampler = Sampler::new(ModelIndex(0));
        for (u, token) in [(0.0, 0), (0.5, 2500), (0.9999, 4999)] {
            assert_eq!(sampler.draw(&logits, 0.0, &PLAIN, u), token);
        }
    }

    /// Bans and biases change what is drawn, greedily or not; where nothing is left there is no candidate.
    #[test]
    fn the_draw_is_from_the_shaped_logits() {
        use std::sync::Arc;

        use crate::shaping::{Penalties, Shaping};

        let logits = [1.0, 5.0, 4.0];
        let mut sampler = Sampler::new(ModelIndex(0));
        for (bias, banned, expected) in [
            (vec![], vec![1], Some(2)),
            (vec![(0, 90.0)], vec![], Some(0)),
            (vec![(1, -90.0)], vec![2], Some(0)),
            (vec![], vec![0, 1, 2], None),
        ] {
            let shaping = Shaping::new(Penalties::NONE, &bias, &[], Arc::from(banned), 1);
            for sampling in [Sampling::GREEDY, PLAIN] {
                let ask = RowAsk {
                    shaping: shaping.logits(),
                    ..ask(sampling)
                };
                let drawn = sampler.sample(&logits, &ask, 3);
                if sampling.is_greedy() || expected.is_none() || !bias.is_empty() {
                    assert_eq!(drawn, expected, "{bias:?}");
                } else {
                    assert_ne!(drawn, Some(1), "a banned token is never drawn");
                }
            }
        }
    }
}
