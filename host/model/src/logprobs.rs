//! Log-probabilities of a row: ln softmax of the raw logits, before temperature, penalties, biases and bans. So they say what
//! the model thought, whatever was asked of the sampler.

use tokenrouter_core::TokenId;

use crate::descending::Descending;

/// A token and its log-probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenLogprob {
    /// The token.
    pub token: TokenId,
    /// Nats; 0 or less. Negative infinity for a token that the model rules out.
    pub logprob: f32,
}

/// Appends the candidate's log-probability, and then those of the `top` most probable tokens, descending; of equal ones the
/// smaller token id first. `logits` is a distribution and has the candidate.
pub(crate) fn append(
    logits: &[f32],
    candidate: TokenId,
    top: u32,
    tokens: &mut Descending,
    out: &mut Vec<TokenLogprob>,
) {
    let max = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let sum: f64 = logits.iter().map(|logit| (f64::from(*logit) - max).exp()).sum();
    let normaliser = max + sum.ln();
    let logprob = |token: TokenId, logit: f32| TokenLogprob {
        token,
        logprob: (f64::from(logit) - normaliser) as f32,
    };
    out.push(logprob(candidate, logits[candidate as usize]));
    if top > 0 {
        tokens.fill(logits, |_| true);
        let first = tokens.first(top as usize).iter();
        out.extend(first.map(|(logit, token)| logprob(*token, *logit)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_those_of_the_softmax_and_come_in_order() {
        let probabilities = [0.25f32, 0.125, 0.5, 0.125, 0.0];
        // An offset, which softmax does not see.
        let logits = probabilities.map(|p| p.ln() + 100.0);
        let mut out = Vec::new();
        append(&logits, 1, 9, &mut Descending::default(), &mut out);
        let order: Vec<TokenId> = out.iter().map(|entry| entry.token).collect();
        assert_eq!(order, [1, 2, 0, 1, 3, 4]);
        for entry in out {
            let p = probabilities[entry.token as usize];
            assert!((entry.logprob.exp() - p).abs() < 1e-5, "{entry:?}, expected {p}");
        }
    }
}
