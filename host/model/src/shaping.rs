//! What a request does to the logits before its candidate is drawn: biases, penalties for tokens that are there already,
//! and bans. It is a part of the request and travels with it, so it counts the whole answer, whoever wrote the tokens.
//!
//! The law, for every token t, in this order (that of vLLM):
//!
//! 1. `z += bias[t]` (`logit_bias`); a banned token gets negative infinity.
//! 2. If t is in the prompt or the answer: `z /= repetition_penalty` where z > 0, else `z *= repetition_penalty`.
//! 3. `z -= frequency_penalty * count[t]`, and `z -= presence_penalty` if count[t] > 0, where count[t] is how often t is in
//!    the answer.

use std::sync::Arc;

use tokenrouter_core::TokenId;

/// Penalties for repeating tokens. [`Penalties::NONE`] changes nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Penalties {
    /// Subtracted once from the logit of every token that is in the answer.
    pub presence: f32,
    /// Subtracted from the logit of every token for each time that it is in the answer.
    pub frequency: f32,
    /// Divides positive logits of tokens of prompt and answer, and multiplies the others. Above 0.
    pub repetition: f32,
}

impl Penalties {
    /// No penalties.
    pub const NONE: Self = Self {
        presence: 0.0,
        frequency: 0.0,
        repetition: 1.0,
    };
}

impl Default for Penalties {
    fn default() -> Self {
        Self::NONE
    }
}

/// What changes one token's logit.
#[derive(Clone, Copy, Debug, PartialEq)]
struct TokenShape {
    token: TokenId,
    bias: f32,
    /// Times in the answer.
    count: u32,
    /// Whether it is in the prompt.
    in_prompt: bool,
}

/// One request's share in the logits. A plain value: what is not committed leaves no trace in it.
#[derive(Clone, Debug)]
pub struct Shaping {
    penalties: Penalties,
    /// Ascending by token; only tokens that have a bias or may be penalised.
    tokens: Vec<TokenShape>,
    banned: Arc<[TokenId]>,
    /// Tokens of the answer that are still to come before the bans are lifted.
    banned_for: u32,
}

impl Shaping {
    /// At the beginning of an answer. Of several biases for a token the last counts. `banned` cannot be drawn until
    /// `tokens_min` tokens have been committed.
    pub fn new(
        penalties: Penalties,
        bias: &[(TokenId, f32)],
        prompt: &[TokenId],
        banned: Arc<[TokenId]>,
        tokens_min: u32,
    ) -> Self {
        let mut shaping = Self {
            penalties,
            tokens: Vec::new(),
            banned,
            banned_for: tokens_min,
        };
        for &(token, bias) in bias {
            shaping.entry(token).bias = bias;
        }
        if penalties.repetition != 1.0 {
            let mut prompt = prompt.to_vec();
            prompt.sort_unstable();
            prompt.dedup();
            for token in prompt {
                shaping.entry(token).in_prompt = true;
            }
        }
        shaping
    }

    /// A token has become part of the answer.
    pub fn commit(&mut self, token: TokenId) {
        self.banned_for = self.banned_for.saturating_sub(1);
        if self.penalties != Penalties::NONE {
            self.entry(token).count += 1;
        }
    }

    /// What it asks of the sampler now; `None` if nothing.
    pub fn logits(&self) -> Option<&Self> {
        let bans = self.banned_for > 0 && !self.banned.is_empty();
        (bans || !self.tokens.is_empty()).then_some(self)
    }

    /// Whether it asks nothing of the sampler, whatever is committed from now on.
    pub fn is_idle(&self) -> bool {
        self.penalties == Penalties::NONE && self.logits().is_none()
    }

    /// Applies the law to a row of raw logits. Tokens beyond the row are passed over.
    pub fn apply(&self, logits: &mut [f32]) {
        if self.banned_for > 0 {
            for &token in &*self.banned {
                if let Some(logit) = logits.get_mut(token as usize) {
                    *logit = f32::NEG_INFINITY;
                }
            }
        }
        let Penalties {
            presence,
            frequency,
            repetition,
        } = self.penalties;
        for shape in &self.tokens {
            let Some(logit) = logits.get_mut(shape.token as usize) else {
                continue;
            };
            let mut z = *logit + shape.bias;
            if shape.in_prompt || shape.count > 0 {
                z = if z > 0.0 { z / repetition } else { z * repetition };
            }
            if shape.count > 0 {
                z -= frequency * shape.count as f32;
                z -= presence;
            }
            *logit = z;
        }
    }

    fn entry(&mut self, token: TokenId) -> &mut TokenShape {
        let place = match self.tokens.binary_search_by_key(&token, |shape| shape.token) {
            Ok(place) => place,
            Err(place) => {
                let shape = TokenShape {
                    token,
                    bias: 0.0,
                    count: 0,
                    in_prompt: false,
                };
                self.tokens.insert(place, shape);
                place
            }
        };
        &mut self.tokens[place]
    }
}

#[cfg(test)]
mod tests {
    use tokenrouter_core::draw::{Purpose, bits};

    use super::*;

    /// The law written down once more, from the whole history instead of a running state.
    fn naive(
        logits: &[f32],
        penalties: Penalties,
        bias: &[(TokenId, f32)],
        prompt: &[TokenId],
        answer: &[TokenId],
        banned: &[TokenId],
    ) -> Vec<f32> {
        (0..)
            .zip(logits)
            .map(|(token, logit)| {
                if banned.contains(&token) {
                    return f32::NEG_INFINITY;
                }
                let count = answer.iter().filter(|&&other| other == token).count() as f32;
                let mut z = logit + bias.iter().rfind(|(of, _)| *of == token).map_or(0.0, |(_, bias)| *bias);
                if count > 0.0 || prompt.contains(&token) {
                    z = if z > 0.0 {
                        z / penalties.repetition
                    } else {
                        z * penalties.repetition
                    };
                }
                z -= penalties.frequency * count;
                if count > 0.0 {
                    z -= penalties.presence;
                }
                z
            })
            .collect()
    }

    fn shaped(shaping: &Shaping, logits: &[f32]) -> Vec<f32> {
        let mut row = logits.to_vec();
        if let Some(shaping) = shaping.logits() {
            shaping.apply(&mut row);
        }
        row
    }

    #[test]
    fn the_running_state_is_the_law_over_the_whole_history() {
        for seed in 0..300u64 {
            let draw = |number: u64, below: u64| bits(seed, number, Purpose::Policy(9)) % below;
            let number = |place: u64| draw(place, 400) as f32 / 100.0 - 2.0;
            let penalties = Penalties {
                presence: if draw(1, 2) == 0 { 0.0 } else { number(2) },
                frequency: if draw(3, 2) == 0 { 0.0 } else { number(4) },
                repetition: if draw(5, 2) == 0 {
                    1.0
                } else {
                    0.5 + draw(6, 20) as f32 / 10.0
                },
            };
            let logits: Vec<f32> = (0..12).map(|i| number(100 + i) * 3.0).collect();
            let tokens =
                |from: u64, count: u64| -> Vec<TokenId> { (0..count).map(|i| draw(from + i, 14) as TokenId).collect() };
            let bias: Vec<(TokenId, f32)> = (0..draw(7, 4))
                .map(|i| (draw(200 + i, 14) as TokenId, number(300 + i)))
                .collect();
            let (prompt, answer, banned) = (
                tokens(400, draw(8, 6)),
                tokens(500, draw(9, 9)),
                tokens(600, draw(10, 3)),
            );
            let tokens_min = draw(11, 8) as u32;
            let mut shaping = Shaping::new(penalties, &bias, &prompt, banned.clone().into(), tokens_min);
            for written in 0..=answer.len() {
                let bans = if written < tokens_min as usize {
                    &banned[..]
                } else {
                    &[]
                };
                let expected = naive(&logits, penalties, &bias, &prompt, &answer[..written], bans);
                assert_eq!(shaped(&shaping, &logits), expected, "seed {seed}, {written} tokens");
                if let Some(&token) = answer.get(written) {
                    shaping.commit(token);
                }
            }
        }
    }

    #[test]
    fn a_request_that_asks_for_nothing_costs_nothing() {
        let mut shaping = Shaping::new(Penalties::NONE, &[], &[1, 2, 3], Arc::new([]), 5);
        for token in 0..100 {
            shaping.commit(token);
            assert!(shaping.logits().is_none());
        }
        assert_eq!(shaping.tokens.capacity(), 0, "nothing is kept of the answer");
    }
}
