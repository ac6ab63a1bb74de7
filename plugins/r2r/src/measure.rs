//! What the small model's token is judged by.

use tokenrouter_sdk::prelude::*;

use super::digamma::digamma;

/// Option `threshold`.
pub const THRESHOLD: Number = Number {
    name: "threshold",
    summary: "measure from which a token is handed over; by default 0.5 with signal neural (0 to 1; the authors used \
              0.406 on AIME, 0.42 on GPQA, 0.139 on LiveCodeBench), 0.45 nats with entropy, 2.275 with aleatoric",
    default: 0.5,
    min: 0.0,
    max: ENTROPY_MAX,
    per_request: true,
};

/// Option `signal`.
pub const SIGNAL: Choice = Choice {
    name: "signal",
    summary: "what a token is judged by: a trained head (neural), the entropy of the distribution (entropy) or the \
              aleatoric uncertainty of the 10 largest logits (aleatoric)",
    default: "neural",
    choices: &["neural", "entropy", "aleatoric"],
    per_request: false,
};

/// Option `head`.
pub const HEAD: Text = Text {
    name: "head",
    summary: "with signal neural: name of the head that gives the probability that the token diverges",
    default: "r2r",
    per_request: false,
};

/// ln V of any vocabulary there will be, in nats. Aleatoric uncertainty stays below as well: it is about the ln of the
/// number of logits at the most.
const ENTROPY_MAX: f64 = 20.0;

/// Logits that aleatoric uncertainty is computed from.
const LOGITS: u32 = 10;

/// What is compared with the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// A head's probability that the token diverges, 0 to 1.
    Neural,
    /// Entropy of the distribution, nats.
    Entropy,
    /// [`aleatoric`] uncertainty of the largest logits.
    Aleatoric,
}

impl Measure {
    /// From the option `signal`.
    ///
    /// # Errors
    /// If a head is named for a signal that has none.
    pub fn read(options: &Options) -> Result<Self, String> {
        options.only_for(&HEAD, &SIGNAL, &["neural"])?;
        Ok(match options.get(&SIGNAL) {
            "entropy" => Self::Entropy,
            "aleatoric" => Self::Aleatoric,
            _ => Self::Neural,
        })
    }

    /// The signal to ask the host for, at model `small`.
    ///
    /// # Errors
    /// If the deployment lacks the head.
    pub fn signal(self, deployment: &Deployment, small: ModelIndex, options: &Options) -> Result<Signal, String> {
        Ok(match self {
            Self::Neural => head(deployment, &HEAD, options)?,
            Self::Entropy => Signal::Entropy,
            Self::Aleatoric => Signal::TopKLogits(LOGITS.min(deployment.models[small as usize].vocabulary)),
        })
    }

    /// The threshold, by default the published one.
    ///
    /// # Errors
    /// If the one given is above what the measure can reach.
    pub fn threshold(self, options: &Options) -> Result<Threshold, String> {
        let (default, max) = match self {
            Self::Neural => (THRESHOLD.default, 1.0),
            Self::Entropy => (0.45, ENTROPY_MAX),
            Self::Aleatoric => (2.275, ENTROPY_MAX),
        };
        Threshold::read_up_to(&THRESHOLD, default, max, options)
    }

    /// The measure of a row with these signals.
    pub fn value(self, signals: &[f32]) -> f32 {
        match self {
            Self::Neural | Self::Entropy => signals[0],
            Self::Aleatoric => aleatoric(signals) as f32,
        }
    }
}

/// Aleatoric uncertainty of logits x, taken as the evidence of a Dirichlet distribution: with S their sum and ψ the
/// digamma function, the sum of (x / S) (ψ(S + 1) - ψ(x + 1)). As published, of raw logits; where they make no evidence
/// (S = 0) it is not a number.
fn aleatoric(logits: &[f32]) -> f64 {
    let sum: f64 = logits.iter().map(|&x| f64::from(x)).sum();
    let total = digamma(sum + 1.0);
    let term = |&x: &f32| f64::from(x) / sum * (total - digamma(f64::from(x) + 1.0));
    logits.iter().map(term).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ψ(n + 1) = H(n) - γ, so k equal integer logits x have uncertainty H(k x) - H(x).
    #[test]
    fn equal_logits_have_a_difference_of_harmonic_numbers() {
        let harmonic = |n: u32| (1..=n).map(|i| 1.0 / f64::from(i)).sum::<f64>();
        for x in [1, 2, 10, 20, 50] {
            let expected = harmonic(10 * x) - harmonic(x);
            let found = aleatoric(&[x as f32; 10]);
            assert!((found - expected).abs() < 1e-12, "{x}: {found}, expected {expected}");
        }
    }

    /// S = 6: H(6) - (3 H(3) + 2 H(2) + H(1)) / 6 = 2.45 - (5.5 + 3 + 1) / 6.
    #[test]
    fn unequal_logits_are_weighted_by_their_share() {
        let expected = 2.45 - 9.5 / 6.0;
        assert!((aleatoric(&[3.0, 2.0, 1.0]) - expected).abs() < 1e-12);
    }

    #[test]
    fn logits_without_evidence_are_not_a_number() {
        assert!(aleatoric(&[1.0, -1.0]).is_nan());
        assert!(aleatoric(&[1.0, f32::NEG_INFINITY]).is_nan());
        assert!(aleatoric(&[f32::NAN, 1.0]).is_nan());
    }
}
