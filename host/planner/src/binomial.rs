//! Binomial laws of every size up to a bound, built once and shared by all chains.

/// `row(m)[k]` = P(k of m requests do what each does with probability `p`).
///
/// Built by Pascal's recurrence, which only adds positive numbers: relative errors stay near the machine's precision
/// and nothing overflows, unlike factorials times powers.
#[derive(Clone, Debug)]
pub(crate) struct BinomialTable {
    p: f64,
    rows: Vec<Box<[f64]>>,
}

impl BinomialTable {
    /// The laws of `p` in 0..=1 for 0 to `m_max` requests.
    pub(crate) fn new(p: f64, m_max: usize) -> Self {
        let mut table = Self {
            p,
            rows: vec![Box::from([1.0])],
        };
        table.grow(m_max);
        table
    }

    /// Adds the rows up to `m_max`.
    pub(crate) fn grow(&mut self, m_max: usize) {
        let (p, stay) = (self.p, 1.0 - self.p);
        for m in self.rows.len()..=m_max {
            let last = &self.rows[m - 1];
            let mut row = Vec::with_capacity(m + 1);
            row.push(last[0] * stay);
            row.extend((1..m).map(|k| last[k] * stay + last[k - 1] * p));
            row.push(last[m - 1] * p);
            self.rows.push(row.into());
        }
    }

    /// The law over 0..=m.
    pub(crate) fn row(&self, m: usize) -> &[f64] {
        &self.rows[m]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_laws_with_the_binomial_mean_and_variance() {
        for p in [0.0, 1e-9, 0.05, 0.35, 0.5, 0.97, 1.0] {
            let table = BinomialTable::new(p, 400);
            for m in [0usize, 1, 2, 17, 400] {
                let row = table.row(m);
                let moment = |f: &dyn Fn(f64) -> f64| row.iter().enumerate().map(|(k, x)| f(k as f64) * x).sum::<f64>();
                let mean = m as f64 * p;
                assert_eq!(row.len(), m + 1);
                assert!((moment(&|_| 1.0) - 1.0).abs() < 1e-12, "p={p} m={m}");
                assert!((moment(&|k| k) - mean).abs() < 1e-10 * mean.max(1.0), "p={p} m={m}");
                let variance = mean * (1.0 - p);
                assert!(
                    (moment(&|k| (k - mean).powi(2)) - variance).abs() < 1e-9 * variance.max(1.0),
                    "p={p} m={m}"
                );
            }
        }
    }
}
