//! Reading the fields of a JSON object. null means absent, for every field; a wrong type or range is told with the field,
//! what was expected and what was found.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::http::ApiError;

/// An object, and where it stands in the body.
pub(in crate::http) struct Fields<'a> {
    object: &'a Map<String, Value>,
    /// What stands before a field's name in messages: nothing, or `tokenrouter.`.
    prefix: String,
    /// Names that were asked for: the others are unknown.
    read: RefCell<BTreeSet<&'a str>>,
}

/// A body as JSON.
pub(crate) fn parse(body: &[u8]) -> Result<Value, ApiError> {
    let text = std::str::from_utf8(body).map_err(|error| ApiError::NotUtf8 {
        index: error.valid_up_to(),
    })?;
    serde_json::from_str(text).map_err(|error| ApiError::Json(error.to_string()))
}

impl<'a> Fields<'a> {
    /// The fields of the body itself.
    pub(in crate::http) fn of_body(body: &'a Value) -> Result<Self, ApiError> {
        match body {
            Value::Object(object) => Ok(Self::new(object, String::new())),
            other => Err(ApiError::Json(format!("expected an object, found {}", kind(other)))),
        }
    }

    fn new(object: &'a Map<String, Value>, prefix: String) -> Self {
        Self {
            object,
            prefix,
            read: RefCell::default(),
        }
    }

    /// The field's full name.
    pub(in crate::http) fn path(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The names of the fields that are there.
    pub(in crate::http) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.object.keys().map(String::as_str)
    }

    /// A field, if it is there and not null.
    pub(in crate::http) fn get(&self, name: &str) -> Option<&'a Value> {
        let (name, value) = self.object.get_key_value(name)?;
        self.read.borrow_mut().insert(name);
        Some(value).filter(|value| !value.is_null())
    }

    /// The fields that are there and not null, and that nobody has asked for.
    pub(in crate::http) fn unread(&self) -> impl Iterator<Item = &'a str> {
        let read = self.read.borrow().clone();
        let given = self.object.iter().filter(|(_, value)| !value.is_null());
        given
            .map(|(name, _)| name.as_str())
            .filter(move |name| !read.contains(name))
    }

    /// A field that is a text.
    pub(in crate::http) fn text(&self, name: &str) -> Result<Option<&'a str>, ApiError> {
        self.typed(name, "a string", Value::as_str)
    }

    /// A field that is true or false.
    pub(in crate::http) fn boolean(&self, name: &str) -> Result<Option<bool>, ApiError> {
        self.typed(name, "a boolean", Value::as_bool)
    }

    /// A field that is an object.
    pub(in crate::http) fn object(&self, name: &str) -> Result<Option<Fields<'a>>, ApiError> {
        let object = self.typed(name, "an object", Value::as_object)?;
        Ok(object.map(|object| Fields::new(object, format!("{}.", self.path(name)))))
    }

    /// A field that is a number.
    pub(in crate::http) fn number(&self, name: &str, range: RangeInclusive<f64>) -> Result<Option<f64>, ApiError> {
        let number = self.typed(name, "a number", Value::as_f64)?;
        self.within(name, number, &range)
    }

    /// A field that is a whole number. i128 holds every integer that JSON's reader gives.
    pub(in crate::http) fn integer(&self, name: &str, range: RangeInclusive<i128>) -> Result<Option<i128>, ApiError> {
        let whole = |value: &Value| {
            value
                .as_u64()
                .map(i128::from)
                .or_else(|| value.as_i64().map(i128::from))
        };
        let number = self.typed(name, "an integer", whole)?;
        self.within(name, number, &range)
    }

    fn typed<T>(
        &self,
        name: &str,
        expected: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ApiError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| self.wrong(name, expected, value))
    }

    fn within<T: PartialOrd + Display>(
        &self,
        name: &str,
        value: Option<T>,
        range: &RangeInclusive<T>,
    ) -> Result<Option<T>, ApiError> {
        match value {
            Some(value) if !range.contains(&value) => Err(self.refuse(
                name,
                &format!("is {value}; it must be {} to {}", range.start(), range.end()),
            )),
            other => Ok(other),
        }
    }

    /// A field of a wrong type.
    pub(in crate::http) fn wrong(&self, name: &str, expected: &str, found: &Value) -> ApiError {
        self.refuse(name, &format!("must be {expected}, found {}", kind(found)))
    }

    /// A field that is wrong, with the sentence that follows its name.
    pub(in crate::http) fn refuse(&self, name: &str, sentence: &str) -> ApiError {
        let path = self.path(name);
        let message = format!("{path} {sentence}");
        ApiError::field(path, message)
    }
}

/// What a value is, in words. Long values are not repeated to the client.
pub(crate) fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => format!("the boolean {value}"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}
