//! The fields of a GGUF file's header, by kind.

use std::collections::HashMap;

use candle_core::quantized::gguf_file::Value;

use crate::error::ModelError;

/// Fields by name, and what the file is called in errors.
pub(super) struct Metadata<'a> {
    fields: &'a HashMap<String, Value>,
    file: String,
}

impl<'a> Metadata<'a> {
    pub(super) fn new(fields: &'a HashMap<String, Value>, file: String) -> Self {
        Self { fields, file }
    }

    /// An error about a field.
    pub(super) fn wrong(&self, what: String) -> ModelError {
        ModelError::Gguf {
            file: self.file.clone(),
            what,
        }
    }

    fn kind(&self, key: &str, expected: &str) -> ModelError {
        self.wrong(format!("field \"{key}\" is not {expected}"))
    }

    /// A whole number of any width.
    pub(super) fn number(&self, key: &str) -> Result<Option<u64>, ModelError> {
        let Some(value) = self.fields.get(key) else {
            return Ok(None);
        };
        let number = match *value {
            Value::U8(v) => Some(u64::from(v)),
            Value::U16(v) => Some(u64::from(v)),
            Value::U32(v) => Some(u64::from(v)),
            Value::U64(v) => Some(v),
            Value::I8(v) => u64::try_from(v).ok(),
            Value::I16(v) => u64::try_from(v).ok(),
            Value::I32(v) => u64::try_from(v).ok(),
            Value::I64(v) => u64::try_from(v).ok(),
            _ => None,
        };
        number.map(Some).ok_or_else(|| self.kind(key, "a whole number from 0"))
    }

    /// A size that must be there.
    pub(super) fn size(&self, key: &str) -> Result<usize, ModelError> {
        let number = self
            .number(key)?
            .ok_or_else(|| self.wrong(format!("field \"{key}\" is missing")))?;
        usize::try_from(number).map_err(|_| self.kind(key, "a size of this machine"))
    }

    pub(super) fn float(&self, key: &str) -> Result<Option<f64>, ModelError> {
        match self.fields.get(key) {
            None => Ok(None),
            Some(Value::F32(v)) => Ok(Some(f64::from(*v))),
            Some(Value::F64(v)) => Ok(Some(*v)),
            Some(_) => Err(self.kind(key, "a number")),
        }
    }

    pub(super) fn bool(&self, key: &str) -> Result<Option<bool>, ModelError> {
        match self.fields.get(key) {
            None => Ok(None),
            Some(Value::Bool(v)) => Ok(Some(*v)),
            Some(_) => Err(self.kind(key, "true or false")),
        }
    }

    pub(super) fn string(&self, key: &str) -> Result<Option<&'a str>, ModelError> {
        match self.fields.get(key) {
            None => Ok(None),
            Some(Value::String(v)) => Ok(Some(v)),
            Some(_) => Err(self.kind(key, "a text")),
        }
    }

    /// A list of texts; empty if it is not there.
    pub(super) fn strings(&self, key: &str) -> Result<Vec<&'a str>, ModelError> {
        let text = |value: &'a Value| match value {
            Value::String(text) => Ok(text.as_str()),
            _ => Err(self.kind(key, "a list of texts")),
        };
        match self.fields.get(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(values)) => values.iter().map(text).collect(),
            Some(_) => Err(self.kind(key, "a list of texts")),
        }
    }

    /// A list of numbers; empty if it is not there.
    pub(super) fn floats(&self, key: &str) -> Result<Vec<f64>, ModelError> {
        let number = |value: &Value| match *value {
            Value::F32(v) => Ok(f64::from(v)),
            Value::F64(v) => Ok(v),
            _ => Err(self.kind(key, "a list of numbers")),
        };
        match self.fields.get(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(values)) => values.iter().map(number).collect(),
            Some(_) => Err(self.kind(key, "a list of numbers")),
        }
    }

    /// A list of whole numbers; empty if it is not there.
    pub(super) fn integers(&self, key: &str) -> Result<Vec<i64>, ModelError> {
        let number = |value: &Value| match *value {
            Value::I32(v) => Ok(i64::from(v)),
            Value::U32(v) => Ok(i64::from(v)),
            _ => Err(self.kind(key, "a list of whole numbers")),
        };
        match self.fields.get(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(values)) => values.iter().map(number).collect(),
            Some(_) => Err(self.kind(key, "a list of whole numbers")),
        }
    }
}
