//! What a policy says of itself.

use crate::limits::NAME_BYTES_MAX;
use crate::{PolicyError, Value};

/// Name, version and options of a policy. The twin of the contract's `description`.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Short name, as in `deployment@name`: letters, digits, `.`, `_`, `+` and `-`.
    pub name: String,
    /// Version of the policy.
    pub version: String,
    /// One sentence.
    pub summary: String,
    /// All options.
    pub options: Vec<OptionInfo>,
}

/// One option of a policy.
#[derive(Clone, Debug, PartialEq)]
pub struct OptionInfo {
    /// Its name.
    pub name: String,
    /// Meaning, unit and range, in one line.
    pub summary: String,
    /// The value when it is not given.
    pub default: Value,
    /// Whether a request may set it.
    pub per_request: bool,
}

impl Description {
    /// Names become parts of model names, log fields and metric labels, so they are held to a plain alphabet.
    pub(crate) fn check(self) -> Result<Self, PolicyError> {
        for (field, text) in [("name", &self.name), ("version", &self.version)] {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte);
            if text.is_empty() || text.len() > NAME_BYTES_MAX || !text.bytes().all(plain) {
                return Err(PolicyError::Description {
                    reason: format!(
                        "{field} {:?} must have 1 to {NAME_BYTES_MAX} ASCII letters, digits or `._+-`",
                        crate::guest::cut(text)
                    ),
                });
            }
        }
        for (i, option) in self.options.iter().enumerate() {
            if self.options[..i].iter().any(|earlier| earlier.name == option.name) {
                return Err(PolicyError::Description {
                    reason: format!("option `{}` is listed twice", crate::guest::cut(&option.name)),
                });
            }
        }
        Ok(self)
    }
}
