//! Percentiles of measured values.

use serde::Serialize;

/// Mean and percentiles, in the unit of the values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(in crate::cli) struct Percentiles {
    pub(in crate::cli) mean: f64,
    pub(in crate::cli) p50: f64,
    pub(in crate::cli) p90: f64,
    pub(in crate::cli) p99: f64,
}

/// By nearest rank: the smallest value that at least so many per cent do not exceed. All 0 if there are no values.
pub(in crate::cli) fn percentiles(mut values: Vec<f64>) -> Percentiles {
    if values.is_empty() {
        return Percentiles::default();
    }
    values.sort_unstable_by(f64::total_cmp);
    let at = |percent: usize| values[(values.len() * percent).div_ceil(100) - 1];
    Percentiles {
        mean: values.iter().sum::<f64>() / values.len() as f64,
        p50: at(50),
        p90: at(90),
        p99: at(99),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let hundred = percentiles((1..=100).rev().map(f64::from).collect());
        assert_eq!(
            (hundred.p50, hundred.p90, hundred.p99, hundred.mean),
            (50.0, 90.0, 99.0, 50.5)
        );
        let two = percentiles(vec![3.0, 1.0]);
        assert_eq!((two.p50, two.p90, two.p99), (1.0, 3.0, 3.0));
        assert_eq!(percentiles(Vec::new()), Percentiles::default());
    }
}
