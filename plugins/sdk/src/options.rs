//! Options: declared once as constants, and from that documented, given defaults, checked and read.

mod decimal;
mod lists;
mod scalars;

pub use decimal::decimal;
pub use lists::{Numbers, Texts};
pub use scalars::{Boolean, Choice, Number, Text};

use crate::{OptionInfo, Setting, Value};

/// What every declared option can do, whatever its type.
pub trait Declared: Sync {
    /// The option's name.
    fn name(&self) -> &'static str;

    /// One line: meaning, unit and range.
    fn summary(&self) -> &'static str;

    /// Whether a request may set it for itself.
    fn per_request(&self) -> bool;

    /// The value when the option is not given.
    fn default_value(&self) -> Value;

    /// Whether a value may be given to this option.
    ///
    /// # Errors
    /// If it has the wrong type or is out of range: names the option, the value and what would be right.
    fn check(&self, value: &Value) -> Result<(), String>;

    /// What `describe` says of it.
    fn info(&self) -> OptionInfo {
        OptionInfo {
            name: self.name().into(),
            summary: self.summary().into(),
            default: self.default_value(),
            per_request: self.per_request(),
        }
    }
}

/// An option with the Rust type of its value.
pub trait OptionKind: Declared {
    /// What [`Options::get`] returns.
    type Output<'a>;

    /// A checked value as this type; the default for `None`.
    fn pick<'a>(&self, given: Option<&'a Value>) -> Self::Output<'a>;
}

/// Checked values of declared options.
#[derive(Debug)]
pub struct Options {
    given: Vec<Setting>,
}

impl Options {
    /// Checks a configuration against the declared options.
    ///
    /// # Errors
    /// For an option that is not declared, given twice, of the wrong type or out of range. The text names it, and says
    /// what would be right.
    pub fn read(declared: &[&dyn Declared], given: Vec<Setting>) -> Result<Self, String> {
        Self::read_known(declared.to_vec(), given, "this policy has")
    }

    /// The same for a request's options: only those that a request may set are known.
    ///
    /// # Errors
    /// As [`Options::read`].
    pub fn read_request(declared: &[&dyn Declared], given: Vec<Setting>) -> Result<Self, String> {
        let known = declared.iter().copied().filter(|option| option.per_request()).collect();
        Self::read_known(known, given, "a request may set")
    }

    fn read_known(known: Vec<&dyn Declared>, given: Vec<Setting>, who: &str) -> Result<Self, String> {
        for (i, setting) in given.iter().enumerate() {
            let Some(option) = known.iter().find(|option| option.name() == setting.name) else {
                let names: Vec<&str> = known.iter().map(|option| option.name()).collect();
                let names = if names.is_empty() {
                    "none".to_owned()
                } else {
                    names.join(", ")
                };
                return Err(format!("unknown option \"{}\"; {who}: {names}", setting.name));
            };
            option.check(&setting.value)?;
            if given[..i].iter().any(|earlier| earlier.name == setting.name) {
                return Err(format!("option \"{}\" is given twice; give it once", setting.name));
            }
        }
        Ok(Self { given })
    }

    /// The value of an option: as given, or its default.
    pub fn get<'a, K: OptionKind>(&'a self, option: &K) -> K::Output<'a> {
        option.pick(self.value(option.name()))
    }

    /// The value of an option if it was given.
    pub fn given<'a, K: OptionKind>(&'a self, option: &K) -> Option<K::Output<'a>> {
        self.value(option.name()).map(|value| option.pick(Some(value)))
    }

    /// Refuses `option` if it was given while `choice` has a word that it is not for.
    ///
    /// # Errors
    /// Names both options, the word and those that would be right.
    pub fn only_for(&self, option: &dyn Declared, choice: &Choice, words: &[&str]) -> Result<(), String> {
        let chosen = self.get(choice);
        if self.value(option.name()).is_none() || words.contains(&chosen) {
            return Ok(());
        }
        Err(format!(
            "option \"{}\" is for {} {}; {} is \"{chosen}\", so leave it out",
            option.name(),
            choice.name,
            words.join(" and "),
            choice.name
        ))
    }

    fn value(&self, name: &str) -> Option<&Value> {
        self.given
            .iter()
            .find(|setting| setting.name == name)
            .map(|setting| &setting.value)
    }
}

/// The part of [`Declared`] that reads fields all types of options have.
macro_rules! common_fields {
    () => {
        fn name(&self) -> &'static str {
            self.name
        }

        fn summary(&self) -> &'static str {
            self.summary
        }

        fn per_request(&self) -> bool {
            self.per_request
        }
    };
}
use common_fields;

fn check_range(name: &str, value: f64, min: f64, max: f64) -> Result<(), String> {
    // Written so that NaN is refused.
    if value >= min && value <= max {
        return Ok(());
    }
    let (value, min, max) = (decimal(value), decimal(min), decimal(max));
    Err(format!(
        "option \"{name}\" is {value}; it must be between {min} and {max}"
    ))
}

fn wrong_type(name: &str, value: &Value, wanted: &str) -> Result<(), String> {
    let found = match value {
        Value::Boolean(boolean) => format!("{boolean}, a boolean"),
        Value::Number(number) => format!("{}, a number", decimal(*number)),
        Value::Text(text) => format!("\"{text}\", a text"),
        Value::Numbers(_) => "a list of numbers".to_owned(),
        Value::Texts(_) => "a list of texts".to_owned(),
    };
    Err(format!("option \"{name}\" is {found}; it must be {wanted}"))
}

#[cfg(test)]
mod tests;
