//! Thresholds: set in the configuration, perhaps again by a request, and carried as one word of state.

use crate::{Number, Options, StateWord};

/// A threshold on a signal. Signals are `f32`, so it is rounded as they are: a signal of 0.1 is equal to a threshold of
/// 0.1.
#[derive(Clone, Copy)]
pub struct Threshold {
    option: &'static Number,
    value: f32,
    max: f64,
}

impl Threshold {
    /// The threshold of an option whose default and bounds are as declared.
    pub fn read(option: &'static Number, options: &Options) -> Self {
        Self {
            option,
            value: options.get(option) as f32,
            max: option.max,
        }
    }

    /// The threshold of an option whose default and upper bound depend on what it is compared with. The declared bounds
    /// must be as wide.
    ///
    /// # Errors
    /// If the value given is above `max`.
    pub fn read_up_to(option: &'static Number, default: f64, max: f64, options: &Options) -> Result<Self, String> {
        let value = options.given(option).unwrap_or(default);
        Ok(Self {
            option,
            value: option.within(value, option.min, max)? as f32,
            max,
        })
    }

    /// The word of state of a request: the threshold that it set itself, or this one.
    ///
    /// # Errors
    /// If the request's is above the upper bound.
    pub fn admit(&self, options: &Options) -> Result<StateWord, String> {
        let value = match options.given(self.option) {
            Some(value) => self.option.within(value, self.option.min, self.max)? as f32,
            None => self.value,
        };
        Ok(StateWord::from(value.to_bits()))
    }

    /// The threshold in a word of state.
    pub fn of(word: StateWord) -> f32 {
        f32::from_bits(word as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::number;

    const LIMIT: Number = Number {
        name: "limit",
        summary: "a limit",
        default: 0.5,
        min: 0.0,
        max: 20.0,
        per_request: true,
    };

    fn options(settings: Vec<crate::Setting>) -> Options {
        Options::read(&[&LIMIT], settings).unwrap()
    }

    fn carried(threshold: Threshold, settings: Vec<crate::Setting>) -> Result<f32, String> {
        threshold.admit(&options(settings)).map(Threshold::of)
    }

    #[test]
    fn the_requests_value_wins_over_the_configured_one_and_that_over_the_default() {
        let default = Threshold::read(&LIMIT, &options(vec![]));
        let configured = Threshold::read(&LIMIT, &options(vec![number("limit", 0.1)]));
        assert_eq!(carried(default, vec![]), Ok(0.5));
        assert_eq!(carried(configured, vec![]), Ok(0.1));
        assert_eq!(carried(configured, vec![number("limit", 20.0)]), Ok(20.0));
    }

    #[test]
    fn a_narrower_bound_holds_for_the_configuration_and_for_requests() {
        let narrow = |settings| Threshold::read_up_to(&LIMIT, 0.9, 1.0, &options(settings));
        let refusal = "option \"limit\" is 1.5; it must be between 0 and 1";
        assert_eq!(carried(narrow(vec![]).unwrap(), vec![]), Ok(0.9));
        assert_eq!(narrow(vec![number("limit", 1.5)]).err().unwrap(), refusal);
        let request = carried(narrow(vec![]).unwrap(), vec![number("limit", 1.5)]);
        assert_eq!(request.unwrap_err(), refusal);
    }
}
