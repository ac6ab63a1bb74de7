//! Tokens in order of descending logit, sorted only as far as they are read.

use std::cmp::Ordering;

use tokenrouter_core::TokenId;

/// The order of candidates: by descending logit, of equal ones the smaller token id first.
pub(crate) fn order(a: &(f32, TokenId), b: &(f32, TokenId)) -> Ordering {
    // Not total_cmp, which tells -0 from +0 and would put their ids out of order. There are no NaNs here.
    b.0.partial_cmp(&a.0).unwrap_or(Ordering::Equal).then(a.1.cmp(&b.1))
}

/// How many tokens the first sort brings into order; each further one, four times as many. Most draws end within the first.
const FIRST: usize = 64;

/// A vocabulary of tokens of which a prefix is in order. The buffer is kept and refilled.
#[derive(Debug, Default)]
pub(crate) struct Descending {
    tokens: Vec<(f32, TokenId)>,
    sorted: usize,
}

impl Descending {
    /// Takes in all tokens for which `keep` holds of their logit.
    pub(crate) fn fill(&mut self, logits: &[f32], keep: impl Fn(f32) -> bool) {
        self.tokens.clear();
        self.sorted = 0;
        self.tokens
            .extend(logits.iter().copied().zip(0..).filter(|(logit, _)| keep(*logit)));
    }

    /// Drops all but the first `n` tokens in order.
    pub(crate) fn truncate(&mut self, n: usize) {
        if n < self.tokens.len() {
            self.sort(n);
            self.tokens.truncate(n);
        }
    }

    /// All tokens, in no particular order.
    pub(crate) fn all(&self) -> &[(f32, TokenId)] {
        &self.tokens
    }

    /// The first `n` tokens in order, or as many as there are.
    pub(crate) fn first(&mut self, n: usize) -> &[(f32, TokenId)] {
        let n = n.min(self.tokens.len());
        self.sort(n);
        &self.tokens[..n]
    }

    /// The token at a place in the order, if there are so many.
    pub(crate) fn get(&mut self, place: usize) -> Option<(f32, TokenId)> {
        if place >= self.sorted {
            self.sort((self.sorted * 4).max(place + 1).max(FIRST));
        }
        self.tokens.get(place).copied()
    }

    fn sort(&mut self, n: usize) {
        let n = n.min(self.tokens.len());
        if n <= self.sorted {
            return;
        }
        let rest = &mut self.tokens[self.sorted..];
        let more = n - self.sorted;
        if more < rest.len() {
            rest.select_nth_unstable_by(more, order);
        }
        rest[..more].sort_unstable_by(order);
        self.sorted = n;
    }
}

#[cfg(test)]
mod tests {
    use tokenrouter_core::draw::{Purpose, bits};

    use super::*;

    /// However it is read, the order is that of a full sort; many ties on purpose.
    #[test]
    fn every_prefix_is_that_of_a_full_sort() {
        let logits: Vec<f32> = (0..2000)
            .map(|i| (bits(11, i, Purpose::Policy(0)) % 50) as f32 - 25.0)
            .collect();
        let mut full: Vec<(f32, TokenId)> = logits.iter().copied().zip(0..).collect();
        full.sort_by(order);
        let mut lazy = Descending::default();
        for n in [0, 1, 63, 64, 65, 1000, 2000, 3000] {
            lazy.fill(&logits, |_| true);
            assert_eq!(lazy.first(n), &full[..n.min(2000)], "{n}");
        }
        lazy.fill(&logits, |_| true);
        for (place, token) in full.iter().enumerate() {
            assert_eq!(lazy.get(place), Some(*token));
        }
        assert_eq!(lazy.get(2000), None);
        lazy.fill(&logits, |_| true);
        lazy.truncate(7);
        assert_eq!(lazy.all(), &full[..7]);
    }

    #[test]
    fn zeros_of_either_sign_are_a_tie() {
        let mut lazy = Descending::default();
        lazy.fill(&[-0.0, 0.0, -0.0], |_| true);
        assert_eq!(
            lazy.first(3).iter().map(|(_, token)| *token).collect::<Vec<_>>(),
            [0, 1, 2]
        );
    }
}
