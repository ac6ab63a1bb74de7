//! A set of tokens as a bit each.

use llguidance::toktrie::SimpleVob;
use tokenrouter_core::TokenId;

/// The tokens that may be drawn. Ids beyond the vocabulary that it was made for may not.
#[derive(Clone)]
pub struct TokenMask(pub(super) SimpleVob);

impl TokenMask {
    /// Whether a token may be drawn.
    pub fn allows(&self, token: TokenId) -> bool {
        (token as usize) < self.0.len() && self.0.is_allowed(token)
    }

    /// How many may be drawn.
    pub fn count(&self) -> usize {
        self.0.num_set()
    }

    /// They, ascending.
    pub fn tokens(&self) -> impl Iterator<Item = TokenId> + '_ {
        self.0.iter()
    }

    /// The set as words of 32 bits, the lowest bit of the first for token 0; for devices that apply it themselves. Bits
    /// beyond [`TokenMask::len`] mean nothing.
    pub fn words(&self) -> &[u32] {
        self.0.as_slice()
    }

    /// Size of the vocabulary that it was made for.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no token may be drawn, which a grammar never says.
    pub fn is_empty(&self) -> bool {
        self.0.is_zero()
    }

    /// Sets the logits of all other tokens to negative infinity.
    pub fn apply(&self, logits: &mut [f32]) {
        let words = self.words();
        for (index, chunk) in logits.chunks_mut(32).enumerate() {
            let word = words.get(index).copied().unwrap_or(0);
            for (bit, logit) in chunk.iter_mut().enumerate() {
                if word >> bit & 1 == 0 || index * 32 + bit >= self.len() {
                    *logit = f32::NEG_INFINITY;
                }
            }
        }
    }
}

impl std::fmt::Debug for TokenMask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TokenMask({} of {})", self.count(), self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logits_of_other_tokens_and_of_those_beyond_the_vocabulary_become_impossible() {
        let allowed: Vec<bool> = (0..70).map(|token| token % 3 == 0).collect();
        let mask = TokenMask(SimpleVob::from_slice(&allowed));
        let mut logits = vec![1.0; 130];
        mask.apply(&mut logits);
        for (token, logit) in (0..).zip(&logits) {
            assert_eq!(mask.allows(token), token < 70 && token % 3 == 0, "{token}");
            assert_eq!(*logit == 1.0, mask.allows(token), "{token}");
        }
        assert_eq!(
            mask.tokens().collect::<Vec<_>>(),
            (0..70).step_by(3).collect::<Vec<_>>()
        );
        assert_eq!(mask.count(), 24);
    }
}
