//! The lines that a plan consists of.

use serde::{Deserialize, Serialize};

/// Throughputs within this relative distance are the same: it is what the stationary laws are accurate to, with room.
pub(crate) const SAME: f64 = 1e-9;

/// One setting of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Requests in the system.
    pub n: usize,
    /// The threshold of each model.
    pub b: Vec<usize>,
    /// Predicted tokens per second, all requests together.
    pub tokens_per_s: f64,
    /// Whether it is the best of all rows with this `n`; exactly one is.
    pub best: bool,
    /// Throughput in per cent of [`System::bound`](crate::System::bound): 100 means that no request ever waits.
    pub bound_percent: f64,
}

/// Rows for settings in lexicographic order.
pub(crate) fn rows(n: usize, settings: Vec<(Vec<usize>, f64)>, bound: f64) -> Vec<Row> {
    let best = best(&settings);
    let row = |(index, (b, tokens_per_s)): (usize, (Vec<usize>, f64))| Row {
        n,
        b,
        tokens_per_s,
        best: Some(index) == best,
        bound_percent: 100.0 * tokens_per_s / bound,
    };
    settings.into_iter().enumerate().map(row).collect()
}

/// The index of the best setting: among equals the one that waits for the fewest requests, and then the first.
pub(crate) fn best(settings: &[(Vec<usize>, f64)]) -> Option<usize> {
    let most = settings.iter().map(|s| s.1).reduce(f64::max)?;
    let good = (0..settings.len()).filter(|&i| settings[i].1 >= most * (1.0 - SAME));
    good.min_by_key(|&i| settings[i].0.iter().sum::<usize>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_reads_as_json() {
        let row = Row {
            n: 4,
            b: vec![1, 3],
            tokens_per_s: 208.0,
            best: true,
            bound_percent: 82.0,
        };
        let json = r#"{"n":4,"b":[1,3],"tokens_per_s":208.0,"best":true,"bound_percent":82.0}"#;
        assert_eq!(serde_json::to_string(&row).unwrap(), json);
        assert_eq!(serde_json::from_str::<Row>(json).unwrap(), row);
    }

    #[test]
    fn equal_settings_give_the_smaller_thresholds() {
        let settings = vec![
            (vec![1, 1], 9.0),
            (vec![1, 3], 10.0),
            (vec![2, 1], 10.0 - 1e-10),
            (vec![1, 4], 10.0),
        ];
        let rows = rows(4, settings, 20.0);
        assert_eq!(
            rows.iter().map(|r| r.best).collect::<Vec<_>>(),
            [false, false, true, false]
        );
        assert_eq!(rows[1].bound_percent, 50.0);
    }
}
