//! Bisection on a share that rises or falls with a threshold.

/// What is looked for, and where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    /// One end.
    pub(super) from: f64,
    /// The other.
    pub(super) to: f64,
    /// The share that is wanted.
    pub(super) target: f64,
    /// How near it must come.
    pub(super) tolerance: f64,
    /// Most values to try.
    pub(super) runs_max: usize,
}

/// The nearest that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Found {
    /// The value.
    pub(super) value: f64,
    /// Its share.
    pub(super) share: f64,
    /// Whether that is near enough.
    pub(super) reached: bool,
}

impl Search {
    /// Measures at both ends, and then in the middle of what is left. Ends early when it is near enough, and when both ends lie
    /// on the same side of the target.
    ///
    /// # Errors
    /// Those of `measure`.
    pub(super) fn run<E>(&self, mut measure: impl FnMut(f64) -> Result<f64, E>) -> Result<Found, E> {
        let mut best: Option<Found> = None;
        let mut note = |value: f64, share: f64| {
            let off = |share: f64| (share - self.target).abs();
            if best.is_none_or(|best| off(share) < off(best.share)) {
                let reached = off(share) <= self.tolerance;
                best = Some(Found { value, share, reached });
            }
            best
        };
        let (mut low, mut high) = (self.from, self.to);
        let low_share = measure(low)?;
        let first = note(low, low_share);
        let high_share = measure(high)?;
        let mut found = note(high, high_share).or(first).unwrap_or(Found {
            value: low,
            share: low_share,
            reached: false,
        });
        let rises = high_share > low_share;
        if (low_share - self.target) * (high_share - self.target) > 0.0 {
            return Ok(found);
        }
        for _ in 2..self.runs_max {
            if found.reached {
                break;
            }
            let middle = low + (high - low) / 2.0;
            let share = measure(middle)?;
            found = note(middle, share).unwrap_or(found);
            if (share < self.target) == rises {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn search(target: f64, share: impl Fn(f64) -> f64) -> (Found, usize) {
        let search = Search {
            from: 0.0,
            to: 1.0,
            target,
            tolerance: 0.01,
            runs_max: 12,
        };
        let mut runs = 0;
        let found = search.run(|value| {
            runs += 1;
            Ok::<_, Infallible>(share(value))
        });
        let Ok(found) = found;
        (found, runs)
    }

    #[test]
    fn a_share_that_rises_or_falls_is_found() {
        for target in [0.05, 0.2, 0.5, 0.9] {
            for share in [
                (|value| value) as fn(f64) -> f64,
                |value| 1.0 - value,
                |value| (1.0 - value).powi(4),
            ] {
                let (found, runs) = search(target, share);
                assert!(
                    found.reached && (found.share - target).abs() <= 0.01,
                    "{target}: {found:?}"
                );
                assert!(
                    runs <= 12 && found.share == share(found.value),
                    "{target}: {found:?}, {runs} runs"
                );
            }
        }
    }

    #[test]
    fn a_share_beyond_both_ends_is_told_after_two_runs() {
        let (found, runs) = search(0.8, |value| 0.5 * value);
        assert_eq!((found.value, found.reached, runs), (1.0, false, 2));
    }

    #[test]
    fn a_jump_over_the_target_ends_with_the_nearer_side() {
        let (found, runs) = search(0.4, |value| if value < 0.3 { 0.0 } else { 0.7 });
        assert_eq!((found.share, found.reached, runs), (0.7, false, 12));
    }
}
