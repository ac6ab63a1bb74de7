//! Which thresholds to try.
//!
//! Up to [`Search::exhaustive_max`] feasible vectors are all tried. Beyond that, coordinate ascent: from the eager
//! vector, each free model in turn is given its best feasible threshold with the others held, until none improves.
//! Whole lines are tried rather than neighbours, because throughput is not unimodal along a line in general. What
//! ascent ends in is the best along every line through it, which need not be the best of all.

use std::collections::BTreeMap;

use crate::error::PlanError;
use crate::table::{self, SAME};
use crate::thresholds;

/// How to search the feasible thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// Keep the threshold of model 0, the entry model, at 1. A small model that waits saves little, since its steps
    /// are short, and delays everything.
    pub eager_entry: bool,
    /// Most vectors to try one by one; coordinate ascent beyond.
    pub exhaustive_max: usize,
}

impl Default for Search {
    fn default() -> Self {
        Self {
            eager_entry: true,
            exhaustive_max: 1024,
        }
    }
}

/// Settings tried with their throughputs, in lexicographic order of the thresholds.
pub(crate) fn run(
    n: usize,
    models: usize,
    search: Search,
    mut tokens_per_s: impl FnMut(&[usize]) -> Result<f64, PlanError>,
) -> Result<Vec<(Vec<usize>, f64)>, PlanError> {
    let fixed = usize::from(search.eager_entry && models > 1);
    if thresholds::count(n, models - fixed) <= search.exhaustive_max as f64 {
        let vectors = thresholds::all(n, models, fixed).into_iter();
        return vectors.map(|b| tokens_per_s(&b).map(|t| (b, t))).collect();
    }
    let mut tried: BTreeMap<Vec<usize>, f64> = BTreeMap::new();
    let mut at = vec![1; models];
    let mut best = tokens_per_s(&at)?;
    tried.insert(at.clone(), best);
    loop {
        let before = best;
        for i in fixed..models {
            let spent: usize = at.iter().enumerate().filter(|&(j, _)| j != i).map(|(_, b)| b - 1).sum();
            let mut line = Vec::new();
            for threshold in 1..=n - spent {
                let mut b = at.clone();
                b[i] = threshold;
                let t = match tried.get(&b) {
                    Some(&t) => t,
                    None => tokens_per_s(&b)?,
                };
                tried.insert(b.clone(), t);
                line.push((b, t));
            }
            let top = table::best(&line).expect("a line holds at least the threshold 1");
            // Moves only for a gain, so that the ascent ends.
            if line[top].1 > best * (1.0 + SAME) {
                (at, best) = line.swap_remove(top);
            }
        }
        if best == before {
            return Ok(tried.into_iter().collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascent_finds_the_top_of_a_hill_with_far_fewer_settings() {
        let top = [1usize, 7, 3, 5];
        let hill = |b: &[usize]| {
            Ok(100.0
                - b.iter()
                    .zip(top)
                    .map(|(&b, t)| (b.abs_diff(t) as f64).powi(2))
                    .sum::<f64>())
        };
        let best = |search| {
            let tried = run(20, 4, search, hill).unwrap();
            (tried[table::best(&tried).unwrap()].0.clone(), tried.len())
        };
        let (climbed, few) = best(Search {
            eager_entry: false,
            exhaustive_max: 10,
        });
        let (all, many) = best(Search {
            eager_entry: false,
            exhaustive_max: usize::MAX,
        });
        assert_eq!((climbed.as_slice(), all.as_slice()), (&top[..], &top[..]));
        assert!(few * 20 < many, "{few} of {many}");
    }

    #[test]
    fn the_entry_model_is_held_at_one_when_asked() {
        for exhaustive_max in [0, 1000] {
            let tried = run(
                5,
                3,
                Search {
                    eager_entry: true,
                    exhaustive_max,
                },
                |_| Ok(1.0),
            )
            .unwrap();
            assert!(tried.iter().all(|(b, _)| b[0] == 1));
        }
        let alone = run(3, 1, Search::default(), |b| Ok(b[0] as f64)).unwrap();
        assert_eq!(alone.len(), 3);
    }
}
