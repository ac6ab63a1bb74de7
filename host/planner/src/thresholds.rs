//! Threshold vectors and which of them are feasible.

use crate::error::PlanError;

/// Most requests that a plan takes.
pub const REQUESTS_MAX: usize = 1024;

/// Checks that `n` requests under the thresholds `b` are within bounds and can never all wait.
///
/// With every model idle, model i queues at most b_i - 1 requests. If these add up to less than n, some model must be
/// running: the feasible set is {1..n}^M with sum of (b_i - 1) below n.
pub(crate) fn check(n: usize, b: &[usize], models: usize) -> Result<(), PlanError> {
    if n == 0 || n > REQUESTS_MAX {
        return Err(PlanError::Requests { n, n_max: REQUESTS_MAX });
    }
    if b.len() != models {
        return Err(PlanError::Size {
            field: "b".into(),
            expected: models,
            got: b.len(),
        });
    }
    // Each is known to be at most n before they are added, so that the sum cannot overflow.
    if b.iter().all(|x| (1..=n).contains(x)) && b.iter().map(|x| x - 1).sum::<usize>() < n {
        Ok(())
    } else {
        Err(PlanError::Infeasible { b: b.to_vec(), n })
    }
}

/// How many feasible vectors there are for `free` models, the others being held at 1: C(n - 1 + free, free).
pub(crate) fn count(n: usize, free: usize) -> f64 {
    (1..=free).map(|i| (n - 1 + i) as f64 / i as f64).product()
}

/// All feasible vectors in lexicographic order, the first `fixed` models held at 1.
pub(crate) fn all(n: usize, models: usize, fixed: usize) -> Vec<Vec<usize>> {
    let mut vectors = vec![vec![1; fixed]];
    for _ in fixed..models {
        vectors = vectors
            .into_iter()
            .flat_map(|head| {
                let spent: usize = head.iter().map(|x| x - 1).sum();
                (1..=n - spent).map(move |x| {
                    let mut longer = head.clone();
                    longer.push(x);
                    longer
                })
            })
            .collect();
    }
    vectors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listed_vectors_are_those_that_pass_the_check() {
        for (n, models) in [(1, 2), (4, 2), (5, 3), (3, 4)] {
            let listed = all(n, models, 0);
            assert!(listed.iter().all(|b| check(n, b, models).is_ok()));
            assert!(listed.is_sorted_by(|a, b| a < b));
            assert_eq!(listed.len() as f64, count(n, models).round());
            let boxed = (n + 1).pow(models as u32);
            let feasible = (0..boxed)
                .map(|code| {
                    (0..models as u32)
                        .map(|i| code / (n + 1).pow(i) % (n + 1))
                        .collect::<Vec<_>>()
                })
                .filter(|b| check(n, b, models).is_ok());
            assert_eq!(listed.len(), feasible.count());
        }
    }

    #[test]
    fn an_infeasible_vector_is_named() {
        assert!(
            check(4, &[1, 5], 2)
                .unwrap_err()
                .to_string()
                .contains("b: [1, 5] is not feasible for n = 4")
        );
        assert!(matches!(check(4, &[3, 3], 2), Err(PlanError::Infeasible { .. })));
        assert!(matches!(
            check(4, &[usize::MAX, usize::MAX], 2),
            Err(PlanError::Infeasible { .. })
        ));
        assert!(matches!(check(4, &[0, 1], 2), Err(PlanError::Infeasible { .. })));
        assert!(matches!(check(0, &[1, 1], 2), Err(PlanError::Requests { .. })));
        assert!(matches!(check(4, &[1], 2), Err(PlanError::Size { .. })));
    }
}
