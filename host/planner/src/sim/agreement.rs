//! Where all models would write the same token: given as a probability, or as it was recorded.

use std::sync::Arc;

use tokenrouter_core::draw::{self, Purpose};

/// Where models agree. It says nothing of who is asked: a simulated model writes the token of model 0 where they agree, and one of its own
/// elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub enum Agreement {
    /// With this probability at every position, each by a draw of its own.
    Constant(f64),
    /// With `first` at the first `tokens` positions of a sequence, with `second` at as many more, then with `first` again: requests
    /// that change while they run.
    Alternating {
        /// Probability in the stretches 0, 2, 4, …
        first: f64,
        /// Probability in the stretches 1, 3, 5, …
        second: f64,
        /// Positions of a stretch, at least 1.
        tokens: u32,
    },
    /// As recorded, position after position, beginning at a place that depends on the request and once more from the start when it
    /// ends. Runs of agreement and disagreement are as long as they were.
    Recorded(Arc<[bool]>),
}

impl Agreement {
    /// Whether models agree at `position` of the request with this seed. `key` is that of the position's other draws.
    ///
    /// # Panics
    /// If what was recorded is empty.
    pub(super) fn holds(&self, seed: u64, key: u64, position: u64) -> bool {
        let by_chance = |probability| draw::uniform(key, position, Purpose::Choice) < probability;
        match self {
            Self::Constant(probability) => by_chance(*probability),
            Self::Alternating { first, second, tokens } => {
                let is_first = (position / u64::from(*tokens)).is_multiple_of(2);
                by_chance(if is_first { *first } else { *second })
            }
            Self::Recorded(agrees) => {
                let start = draw::bits(seed, 0, Purpose::Choice) % agrees.len() as u64;
                agrees[((start + position) % agrees.len() as u64) as usize]
            }
        }
    }

    /// The share of positions at which models agree.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Constant(probability) => *probability,
            Self::Alternating { first, second, .. } => (first + second) / 2.0,
            Self::Recorded(agrees) => agrees.iter().filter(|&&agrees| agrees).count() as f64 / agrees.len() as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often models agree, and how often they do behind a position where they agree.
    fn shares(agreement: &Agreement) -> (f64, f64) {
        let (mut agreed, mut twice) = (0, 0);
        for seed in 0..20 {
            let holds = |position| agreement.holds(seed, draw::bits(seed, position, Purpose::Admission), position);
            for position in 0..1_000 {
                agreed += u32::from(holds(position));
                twice += u32::from(holds(position) && holds(position + 1));
            }
        }
        (f64::from(agreed) / 20_000.0, f64::from(twice) / f64::from(agreed))
    }

    #[test]
    fn each_kind_keeps_its_mean_and_its_runs() {
        let runs: Vec<bool> = (0..400).map(|position| position % 20 < 14).collect();
        let alternating = Agreement::Alternating {
            first: 0.9,
            second: 0.1,
            tokens: 50,
        };
        for (agreement, mean, behind) in [
            (Agreement::Constant(0.7), 0.7, 0.7),
            (alternating, 0.5, 0.82),
            (Agreement::Recorded(runs.into()), 0.7, 13.0 / 14.0),
        ] {
            let (measured, measured_behind) = shares(&agreement);
            assert!((agreement.mean() - mean).abs() < 1e-9, "{agreement:?}");
            assert!((measured - mean).abs() < 0.02, "{agreement:?}: {measured}");
            assert!(
                (measured_behind - behind).abs() < 0.02,
                "{agreement:?}: {measured_behind}"
            );
        }
    }

    #[test]
    fn recorded_requests_begin_at_places_of_their_own() {
        let recorded = Agreement::Recorded((0..1_000).map(|position| position < 500).collect());
        let first = |seed| recorded.holds(seed, 0, 0);
        let agreeing = (0..200).filter(|&seed| first(seed)).count();
        assert!((60..140).contains(&agreeing), "{agreeing} of 200");
    }
}
