//! Numbers on the command line. What is none, or out of range, is told with the range.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Any seed.
pub(super) const SEEDS: RangeInclusive<u64> = 0..=u64::MAX;
/// Sampling temperatures, as over HTTP.
pub(super) const TEMPERATURES: RangeInclusive<f32> = 0.0..=2.0;

/// Reads a whole number of a range.
pub(super) fn whole<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text| within("whole number", text, &range)
}

/// Reads a number of a range, perhaps with a fraction.
pub(super) fn number<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text| within("number", text, &range)
}

fn within<T: FromStr + PartialOrd + Display>(kind: &str, text: &str, range: &RangeInclusive<T>) -> Result<T, String> {
    let found = text.parse().ok().filter(|number| range.contains(number));
    found.ok_or_else(|| format!("\"{text}\" is not a {kind} from {} to {}", range.start(), range.end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_is_told() {
        assert_eq!(whole(1..=5_u32)("5"), Ok(5));
        assert_eq!(number(0.0..=1.0)("0.25"), Ok(0.25));
        for text in ["0", "6", "-1", "1.5", "x", ""] {
            let expected = format!("\"{text}\" is not a whole number from 1 to 5");
            assert_eq!(whole(1..=5_u32)(text), Err(expected));
        }
        for text in ["NaN", "inf", "-0.1", "x"] {
            assert_eq!(
                number(0.0..=1.0)(text),
                Err(format!("\"{text}\" is not a number from 0 to 1"))
            );
        }
    }
}
