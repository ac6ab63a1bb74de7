//! Distributions that threads record into while others read them: fixed buckets, no lock, no allocation.

use std::sync::atomic::{AtomicU64, Ordering};

/// Upper bounds for times in microseconds, from 10 µs to 100 s.
pub(crate) const TIMES_US: &[u64] = &[
    10,
    25,
    50,
    100,
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    100_000_000,
];

/// Upper bounds for numbers of tokens or of rows.
pub(crate) const COUNTS: &[u64] = &[
    1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768, 131_072,
];

/// Counts of values by bucket. A value belongs to the first bucket whose bound it does not exceed.
#[derive(Debug)]
pub(crate) struct Histogram {
    bounds: &'static [u64],
    /// One a bound, and one for what exceeds them all.
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

/// A distribution at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistogramStats {
    /// Upper bounds of the buckets, ascending, each included.
    pub bounds: &'static [u64],
    /// Values in each bucket alone, and last those above all bounds: one more than bounds.
    pub counts: Vec<u64>,
    /// Sum of all values.
    pub sum: u64,
}

impl Histogram {
    /// Nothing recorded yet. `bounds` ascend.
    pub(crate) fn new(bounds: &'static [u64]) -> Self {
        Self {
            bounds,
            counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0),
        }
    }

    pub(crate) fn record(&self, value: u64) {
        let bucket = self.bounds.partition_point(|&bound| bound < value);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// What has been recorded. While others record, sum and counts may differ by the values that are just coming in.
    pub(crate) fn read(&self) -> HistogramStats {
        HistogramStats {
            bounds: self.bounds,
            counts: self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect(),
            sum: self.sum.load(Ordering::Relaxed),
        }
    }
}

impl HistogramStats {
    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_counted_in_the_first_bucket_that_holds_it() {
        let histogram = Histogram::new(&[1, 10, 100]);
        for value in [0, 1, 2, 10, 11, 100, 101, u64::from(u32::MAX)] {
            histogram.record(value);
        }
        let read = histogram.read();
        assert_eq!(read.counts, [2, 2, 2, 2]);
        assert_eq!((read.count(), read.sum), (8, 225 + u64::from(u32::MAX)));
    }

    #[test]
    fn bounds_ascend() {
        for bounds in [TIMES_US, COUNTS] {
            assert!(bounds.is_sorted_by(|a, b| a < b), "{bounds:?}");
        }
    }
}
