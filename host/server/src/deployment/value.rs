//! Values of policy options, from a deployment file, the command line or a request's JSON, and back to JSON.

use serde::{Deserialize, Serialize};
use tokenrouter_policy::{Setting, Value};

/// A value as a deployment file writes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(
    untagged,
    expecting = "a boolean, a number, a text, a list of numbers or a list of texts"
)]
pub enum OptionValue {
    /// `true` or `false`.
    Boolean(bool),
    /// Any number.
    Number(f64),
    /// A text.
    Text(String),
    /// A list of numbers, also the empty list.
    Numbers(Vec<f64>),
    /// A list of texts.
    Texts(Vec<String>),
}

impl OptionValue {
    /// The value as JSON has it, or what it is instead of one that an option may have.
    ///
    /// # Errors
    /// For null, objects, and lists that are not all numbers or all texts.
    pub fn from_json(json: &serde_json::Value) -> Result<Self, &'static str> {
        match json {
            serde_json::Value::Null => Err("null"),
            serde_json::Value::Object(_) => Err("an object"),
            _ => Self::deserialize(json).map_err(|_| "a list of mixed or nested values"),
        }
    }

    /// The value as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Boolean(value) => (*value).into(),
            Self::Number(value) => (*value).into(),
            Self::Text(value) => value.clone().into(),
            Self::Numbers(values) => values.clone().into(),
            Self::Texts(values) => values.clone().into(),
        }
    }
}

impl From<OptionValue> for Value {
    fn from(value: OptionValue) -> Self {
        match value {
            OptionValue::Boolean(value) => Self::Boolean(value),
            OptionValue::Number(value) => Self::Number(value),
            OptionValue::Text(value) => Self::Text(value),
            OptionValue::Numbers(values) => Self::Numbers(values),
            OptionValue::Texts(values) => Self::Texts(values),
        }
    }
}

impl From<&Value> for OptionValue {
    fn from(value: &Value) -> Self {
        match value {
            Value::Boolean(value) => Self::Boolean(*value),
            Value::Number(value) => Self::Number(*value),
            Value::Text(value) => Self::Text(value.clone()),
            Value::Numbers(values) => Self::Numbers(values.clone()),
            Value::Texts(values) => Self::Texts(values.clone()),
        }
    }
}

/// Reads `name=value` as the command line has it. The value is a boolean, a number or a list of numbers (`[1,2.5]`) if it
/// looks like one, else a text.
///
/// # Errors
/// Without `=` or without a name, and for a list of anything but numbers.
pub fn parse_setting(text: &str) -> Result<Setting, String> {
    let (name, value) = text.split_once('=').unwrap_or(("", ""));
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() {
        return Err(format!("\"{text}\" is not NAME=VALUE, as in threshold=0.2"));
    }
    let value = match value {
        "true" => Value::Boolean(true),
        "false" => Value::Boolean(false),
        _ if value.starts_with('[') && value.ends_with(']') => {
            let numbers = serde_json::from_str(value);
            Value::Numbers(numbers.map_err(|_| format!("\"{value}\" is not a list of numbers, as in [1,2.5]"))?)
        }
        _ => match value.parse::<f64>() {
            Ok(number) if number.is_finite() => Value::Number(number),
            _ => Value::Text(value.to_owned()),
        },
    };
    Ok(Setting {
        name: name.to_owned(),
        value,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_values_have_the_type_that_they_look_like() {
        for (text, value) in [
            ("a=true", Value::Boolean(true)),
            ("a=0.2", Value::Number(0.2)),
            ("a = -3 ", Value::Number(-3.0)),
            ("a=[1, 2.5]", Value::Numbers(vec![1.0, 2.5])),
            ("a=[]", Value::Numbers(vec![])),
            ("a=nats", Value::Text("nats".to_owned())),
            ("a=x=y", Value::Text("x=y".to_owned())),
            ("a=", Value::Text(String::new())),
            ("a=inf", Value::Text("inf".to_owned())),
        ] {
            assert_eq!(
                parse_setting(text),
                Ok(Setting {
                    name: "a".to_owned(),
                    value
                }),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_setting_is_refused() {
        assert_eq!(
            parse_setting("threshold").unwrap_err(),
            "\"threshold\" is not NAME=VALUE, as in threshold=0.2"
        );
        assert_eq!(
            parse_setting("=1").unwrap_err(),
            "\"=1\" is not NAME=VALUE, as in threshold=0.2"
        );
        assert_eq!(
            parse_setting("a=[x]").unwrap_err(),
            "\"[x]\" is not a list of numbers, as in [1,2.5]"
        );
    }
}
