//! Options with a list of values. An empty list has no element to tell its type by, so either type of empty list
//! is taken.

use super::{Declared, OptionKind, check_range, common_fields, wrong_type};
use crate::Value;

/// A list of numbers, each within the bounds.
pub struct Numbers {
    /// Its name.
    pub name: &'static str,
    /// One line: meaning, unit and range.
    pub summary: &'static str,
    /// The value when it is not given.
    pub default: &'static [f64],
    /// The least value allowed of each.
    pub min: f64,
    /// The greatest value allowed of each.
    pub max: f64,
    /// Whether a request may set it.
    pub per_request: bool,
}

/// A list of texts.
pub struct Texts {
    /// Its name.
    pub name: &'static str,
    /// One line: what it means.
    pub summary: &'static str,
    /// The value when it is not given.
    pub default: &'static [&'static str],
    /// Whether a request may set it.
    pub per_request: bool,
}

impl Declared for Numbers {
    common_fields!();

    fn default_value(&self) -> Value {
        Value::Numbers(self.default.into())
    }

    fn check(&self, value: &Value) -> Result<(), String> {
        match value {
            Value::Numbers(list) => list
                .iter()
                .try_for_each(|&n| check_range(self.name, n, self.min, self.max)),
            Value::Texts(list) if list.is_empty() => Ok(()),
            other => wrong_type(self.name, other, "a list of numbers"),
        }
    }
}

impl OptionKind for Numbers {
    type Output<'a> = Vec<f64>;

    fn pick(&self, given: Option<&Value>) -> Vec<f64> {
        match given {
            Some(Value::Numbers(list)) => list.clone(),
            Some(_) => Vec::new(),
            None => self.default.into(),
        }
    }
}

impl Declared for Texts {
    common_fields!();

    fn default_value(&self) -> Value {
        Value::Texts(self.default.iter().map(|text| (*text).into()).collect())
    }

    fn check(&self, value: &Value) -> Result<(), String> {
        match value {
            Value::Texts(_) => Ok(()),
            Value::Numbers(list) if list.is_empty() => Ok(()),
            other => wrong_type(self.name, other, "a list of texts"),
        }
    }
}

impl OptionKind for Texts {
    type Output<'a> = Vec<String>;

    fn pick(&self, given: Option<&Value>) -> Vec<String> {
        match given {
            Some(Value::Texts(list)) => list.clone(),
            Some(_) => Vec::new(),
            None => self.default.iter().map(|text| (*text).into()).collect(),
        }
    }
}
