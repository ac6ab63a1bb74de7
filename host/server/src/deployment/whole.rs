//! Whole numbers with a range, so that a file's error names the line and the range.

use std::fmt;

use serde::Deserialize;

/// A whole number from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(try_from = "i64")]
pub struct Whole<const MIN: u32, const MAX: u32>(u32);

impl<const MIN: u32, const MAX: u32> Whole<MIN, MAX> {
    /// The number, checked when the program is compiled if it is a constant.
    ///
    /// # Panics
    /// If it is out of range.
    pub const fn new(number: u32) -> Self {
        assert!(MIN <= number && number <= MAX, "out of range");
        Self(number)
    }

    /// The number.
    pub fn get(self) -> u32 {
        self.0
    }

    /// The number as a size.
    pub fn size(self) -> usize {
        self.0 as usize
    }
}

impl<const MIN: u32, const MAX: u32> TryFrom<i64> for Whole<MIN, MAX> {
    type Error = OutOfRange;

    fn try_from(number: i64) -> Result<Self, OutOfRange> {
        match u32::try_from(number) {
            Ok(whole) if (MIN..=MAX).contains(&whole) => Ok(Self(whole)),
            _ => Err(OutOfRange {
                number,
                min: MIN,
                max: MAX,
            }),
        }
    }
}

/// A number outside of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{number} is out of range: it must be {min} to {max}")]
pub struct OutOfRange {
    number: i64,
    min: u32,
    max: u32,
}

impl<const MIN: u32, const MAX: u32> fmt::Display for Whole<MIN, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
