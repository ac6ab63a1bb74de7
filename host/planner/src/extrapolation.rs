//! Reduced rank extrapolation: the limit of a linear iteration from a few of its iterates (Eddy 1979, Mesina 1977).
//!
//! An iteration whose error is made of a few slow modes, x_k = x + sum over l of c_l lambda_l^k, has its limit in the
//! affine span of that many iterates plus one. The weights, summing to 1, are those with which the differences of
//! successive iterates cancel best in the least squares sense.

/// Most differences that are combined, so most slow modes that are removed at once.
pub(crate) const WINDOW: usize = 10;

/// A difference that is dependent on the earlier ones to this relative size says nothing new.
const DEPENDENT: f64 = 1e-10;

/// The combination of `iterates`, two at least, that is closest to the limit.
pub(crate) fn limit(iterates: &[Vec<f64>]) -> Vec<f64> {
    let last = &iterates[iterates.len() - 1];
    // With d_0 the newest difference, d_1 the one before it and so on, minimise |d_0 + sum of xi_i (d_i - d_(i-1))|.
    let newest_first: Vec<Vec<f64>> = iterates
        .windows(2)
        .rev()
        .map(|pair| difference(&pair[1], &pair[0]))
        .collect();
    let second: Vec<Vec<f64>> = newest_first
        .windows(2)
        .map(|pair| difference(&pair[1], &pair[0]))
        .collect();
    let mut basis: Vec<Vec<f64>> = Vec::new();
    let mut combined: Vec<Vec<f64>> = Vec::new();
    // Gram and Schmidt on the second differences, twice for orthogonality, with the same done to the first ones.
    for (index, column) in second.iter().enumerate() {
        let mut q = column.clone();
        // Weight that moves on to the next older difference moves on to the next older iterate as well.
        let mut moved: Vec<f64> = newest_first[index].iter().map(|x| -x).collect();
        let size = norm(&q);
        for _ in 0..2 {
            for (b, c) in basis.iter().zip(&combined) {
                let along = dot(&q, b);
                subtract(&mut q, b, along);
                subtract(&mut moved, c, along);
            }
        }
        let left = norm(&q);
        if left <= DEPENDENT * size {
            break;
        }
        q.iter_mut().chain(&mut moved).for_each(|x| *x /= left);
        basis.push(q);
        combined.push(moved);
    }
    let mut limit = last.clone();
    let mut rest = newest_first[0].clone();
    for (b, c) in basis.iter().zip(&combined) {
        let along = dot(&rest, b);
        subtract(&mut rest, b, along);
        subtract(&mut limit, c, along);
    }
    limit
}

fn difference(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(x, y)| x - y).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

fn subtract(a: &mut [f64], b: &[f64], scale: f64) {
    a.iter_mut().zip(b).for_each(|(x, y)| *x -= scale * y);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_modes_are_removed() {
        // Three modes that take an iteration hundreds of steps, one of which alternates.
        let (modes, target) = ([0.98, 0.9, -0.97], [0.3, -0.2, 0.5]);
        let iterates: Vec<Vec<f64>> = (0..6)
            .map(|k| {
                (0..3)
                    .map(|l| target[l] + (l as f64 + 1.0) * f64::powi(modes[l], k))
                    .collect()
            })
            .collect();
        for (got, want) in limit(&iterates).iter().zip(target) {
            assert!((got - want).abs() < 1e-6, "{got}, {want}");
        }
    }

    #[test]
    fn an_iteration_that_stands_still_is_its_limit() {
        assert_eq!(limit(&vec![vec![0.25, 0.75]; 5]), [0.25, 0.75]);
    }
}
