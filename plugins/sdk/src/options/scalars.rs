//! Options with one value.

use super::{Declared, OptionKind, check_range, common_fields, wrong_type};
use crate::Value;

/// An option that is true or false.
pub struct Boolean {
    /// Its name.
    pub name: &'static str,
    /// One line: what it means.
    pub summary: &'static str,
    /// The value when it is not given.
    pub default: bool,
    /// Whether a request may set it.
    pub per_request: bool,
}

/// A number with bounds. NaN is never in range.
pub struct Number {
    /// Its name.
    pub name: &'static str,
    /// One line: meaning, unit and range.
    pub summary: &'static str,
    /// The value when it is not given.
    pub default: f64,
    /// The least value allowed.
    pub min: f64,
    /// The greatest value allowed.
    pub max: f64,
    /// Whether a request may set it.
    pub per_request: bool,
}

/// Any text.
pub struct Text {
    /// Its name.
    pub name: &'static str,
    /// One line: what it means.
    pub summary: &'static str,
    /// The value when it is not given.
    pub default: &'static str,
    /// Whether a request may set it.
    pub per_request: bool,
}

/// One of a few words.
pub struct Choice {
    /// Its name.
    pub name: &'static str,
    /// One line: what it means.
    pub summary: &'static str,
    /// The value when it is not given.
    pub default: &'static str,
    /// The words allowed.
    pub choices: &'static [&'static str],
    /// Whether a request may set it.
    pub per_request: bool,
}

impl Number {
    /// Passes a value within `min..=max`, for bounds that depend on other options and are narrower than the
    /// declared ones.
    ///
    /// # Errors
    /// Outside: names the option, the value and the bounds.
    pub fn within(&self, value: f64, min: f64, max: f64) -> Result<f64, String> {
        check_range(self.name, value, min, max)?;
        Ok(value)
    }
}

impl Declared for Boolean {
    common_fields!();

    fn default_value(&self) -> Value {
        Value::Boolean(self.default)
    }

    fn check(&self, value: &Value) -> Result<(), String> {
        match value {
            Value::Boolean(_) => Ok(()),
            other => wrong_type(self.name, other, "true or false"),
        }
    }
}

impl OptionKind for Boolean {
    type Output<'a> = bool;

    fn pick(&self, given: Option<&Value>) -> bool {
        if let Some(Value::Boolean(boolean)) = given {
            *boolean
        } else {
            self.default
        }
    }
}

impl Declared for Number {
    common_fields!();

    fn default_value(&self) -> Value {
        Value::Number(self.default)
    }

    fn check(&self, value: &Value) -> Result<(), String> {
        match value {
            Value::Number(number) => check_range(self.name, *number, self.min, self.max),
            other => wrong_type(self.name, other, "a number"),
        }
    }
}

impl OptionKind for Number {
    type Output<'a> = f64;

    fn pick(&self, given: Option<&Value>) -> f64 {
        if let Some(Value::Number(number)) = given {
            *number
        } else {
            self.default
        }
    }
}

impl Declared for Text {
    common_fields!();

    fn default_value(&self) -> Value {
        Value::Text(self.default.into())
    }

    fn check(&self, value: &Value) -> Result<(), String> {
        match value {
            Value::Text(_) => Ok(()),
            other => wrong_type(self.name, other, "a text"),
        }
    }
}

impl OptionKind for Text {
    type Output<'a> = &'a str;

    fn pick<'a>(&self, given: Option<&'a Value>) -> &'a str {
        if let Some(Value::Text(text)) = given {
            text
        } else {
            self.default
        }
    }
}

impl Declared for Choice {
    common_fields!();

    fn default_value(&self) -> Value {
        Value::Text(self.default.into())
    }

    fn check(&self, value: &Value) -> Result<(), String> {
        match value {
            Value::Text(text) if self.choices.contains(&text.as_str()) => Ok(()),
            Value::Text(text) => {
                let choices = self.choices.join(", ");
                Err(format!(
                    "option \"{}\" is \"{text}\"; it must be one of: {choices}",
                    self.name
                ))
            }
            other => wrong_type(self.name, other, "a text"),
        }
    }
}

impl OptionKind for Choice {
    type Output<'a> = &'a str;

    fn pick<'a>(&self, given: Option<&'a Value>) -> &'a str {
        if let Some(Value::Text(text)) = given {
            text
        } else {
            self.default
        }
    }
}
