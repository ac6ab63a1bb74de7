//! What a shadow would have decided, counted beside what was decided.

use std::sync::atomic::{AtomicU64, Ordering};

use tokenrouter_core::ModelIndex;

/// Rounds of the iteration towards the stationary distribution. Its error falls at least as fast as (1 - p/2)^n, p the smallest
/// probability of leaving a model.
const ROUNDS: usize = 10_000;

/// Counters of a shadow, shared by all subservers.
#[derive(Debug)]
pub struct Comparison {
    models: usize,
    /// Steps by (model, where the request went, where the shadow would have sent it).
    moves: Box<[AtomicU64]>,
    /// Steps by (model, where the shadow would have sent the request) whose candidate it would have committed.
    committed: Box<[AtomicU64]>,
}

/// A [`Comparison`] at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparisonReport {
    /// Steps that the shadow was asked about, by model.
    pub steps: Vec<u64>,
    /// Those of them at which it would have sent the request elsewhere.
    pub disagreements: Vec<u64>,
    /// Where requests went: from each model to each, in steps.
    pub active: Vec<Vec<u64>>,
    /// Where the shadow would have sent them.
    pub shadow: Vec<Vec<u64>>,
    /// The share of the answers' tokens that each model would write under the shadow, if it decided elsewhere as it does
    /// here. `None` while it has not been asked at a model to which it sends requests.
    pub predicted_share: Option<Vec<f64>>,
}

impl Comparison {
    /// Nothing counted, for a deployment of so many models.
    pub fn new(models: usize) -> Self {
        let zeros = |count| (0..count).map(|_| AtomicU64::new(0)).collect();
        Self {
            models,
            moves: zeros(models * models * models),
            committed: zeros(models * models),
        }
    }

    /// Counts one step of model `at`.
    pub(crate) fn record(&self, at: ModelIndex, active: ModelIndex, shadow: ModelIndex, committed: bool) {
        let (at, active, shadow) = (at.index(), active.index(), shadow.index());
        self.moves[(at * self.models + active) * self.models + shadow].fetch_add(1, Ordering::Relaxed);
        self.committed[at * self.models + shadow].fetch_add(u64::from(committed), Ordering::Relaxed);
    }

    /// The counters now.
    pub fn report(&self) -> ComparisonReport {
        let models = self.models;
        let mut report = ComparisonReport {
            steps: vec![0; models],
            disagreements: vec![0; models],
            active: vec![vec![0; models]; models],
            shadow: vec![vec![0; models]; models],
            predicted_share: None,
        };
        for (index, moves) in self.moves.iter().enumerate() {
            let (at, active, shadow) = (index / (models * models), index / models % models, index % models);
            let count = moves.load(Ordering::Relaxed);
            report.steps[at] += count;
            report.disagreements[at] += if active == shadow { 0 } else { count };
            report.active[at][active] += count;
            report.shadow[at][shadow] += count;
        }
        let commits: Vec<u64> = (0..models)
            .map(|at| {
                let of_model = &self.committed[at * models..][..models];
                of_model.iter().map(|count| count.load(Ordering::Relaxed)).sum()
            })
            .collect();
        report.predicted_share = share(&report.steps, &report.shadow, &commits);
        report
    }
}

/// Shares of committed tokens in the Markov chain of the shadow's moves: visits in the long run, weighed by how often a visit
/// commits its candidate.
fn share(steps: &[u64], moves: &[Vec<u64>], commits: &[u64]) -> Option<Vec<f64>> {
    let models = steps.len();
    let start = (0..models)
        .max_by_key(|&model| steps[model])
        .filter(|&model| steps[model] > 0)?;
    let mut visits = vec![0.0; models];
    visits[start] = 1.0;
    for _ in 0..ROUNDS {
        // Half of it stays where it is, which changes nothing in the end and keeps chains from oscillating.
        let mut next: Vec<f64> = visits.iter().map(|share| share / 2.0).collect();
        for (at, &here) in visits.iter().enumerate().filter(|(_, here)| **here > 0.0) {
            if steps[at] == 0 {
                return None;
            }
            for (to, &count) in moves[at].iter().enumerate() {
                next[to] += here / 2.0 * count as f64 / steps[at] as f64;
            }
        }
        visits = next;
    }
    let tokens: Vec<f64> = (0..models)
        .map(|model| {
            if steps[model] == 0 {
                0.0
            } else {
                visits[model] * commits[model] as f64 / steps[model] as f64
            }
        })
        .collect();
    let all: f64 = tokens.iter().sum();
    (all > 0.0).then(|| tokens.iter().map(|tokens| tokens / all).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: ModelIndex = ModelIndex(0);
    const LARGE: ModelIndex = ModelIndex(1);

    /// Discards and hands over with p, hands back after every token: the large model writes p of the tokens, since each
    /// handover is a visit of the small model that commits nothing, followed by one of the large that does.
    #[test]
    fn one_token_hand_back_gives_the_large_model_the_share_of_handovers() {
        let comparison = Comparison::new(2);
        for step in 0..100 {
            let hands_over = step < 30;
            comparison.record(SMALL, SMALL, if hands_over { LARGE } else { SMALL }, !hands_over);
        }
        for _ in 0..7 {
            comparison.record(LARGE, LARGE, SMALL, true);
        }
        let report = comparison.report();
        assert_eq!(
            (&report.steps[..], &report.disagreements[..]),
            (&[100, 7][..], &[30, 7][..])
        );
        let share = report.predicted_share.expect("both models were seen");
        assert!((share[1] - 0.3).abs() < 1e-9, "{share:?}");
        assert!((share[0] + share[1] - 1.0).abs() < 1e-9);
    }

    #[test]
    fn without_a_step_at_a_model_that_requests_would_go_to_nothing_is_predicted() {
        let comparison = Comparison::new(2);
        assert_eq!(comparison.report().predicted_share, None);
        comparison.record(SMALL, SMALL, LARGE, false);
        assert_eq!(comparison.report().predicted_share, None);
    }
}
