//! What an answer may look like.

use llguidance::api::TopLevelGrammar;
use serde_json::{Value, json};

use super::GrammarError;

/// Largest schema or expression, in bytes of compact JSON. What it may cost beyond its size is bounded by the compiler.
const BYTES_MAX: usize = 256 << 10;

/// White space between the parts of a JSON text: a space, or a new line with its indentation. Unbounded white space would be
/// JSON too, and a model that has nothing to say writes it for ever.
const WHITE_SPACE: &str = r"\x20|\r?\n[\x20\x09]{0,64}";

/// A key that would be read as settings of the grammar library.
const LIBRARY_KEY: &str = "x-guidance";

/// A format for an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Format {
    /// A JSON object.
    JsonObject,
    /// JSON that this JSON Schema takes. Properties come in the schema's order.
    JsonSchema(Value),
    /// Text that this regular expression matches as a whole.
    Regex(String),
    /// One of these texts.
    Choice(Vec<String>),
}

impl Format {
    /// The format as the grammar library takes it.
    ///
    /// # Errors
    /// [`GrammarError::TooLarge`] and [`GrammarError::Invalid`].
    pub(super) fn grammar(&self) -> Result<TopLevelGrammar, GrammarError> {
        match self {
            Self::JsonObject => Ok(TopLevelGrammar::from_json_schema(with_settings(
                json!({"type": "object"}),
            ))),
            Self::JsonSchema(schema) => {
                check_size(schema.to_string().len())?;
                let Value::Object(fields) = schema else {
                    return Err(GrammarError::Invalid("a schema must be an object".to_owned()));
                };
                if fields.contains_key(LIBRARY_KEY) {
                    return Err(GrammarError::Invalid(format!(
                        "the key \"{LIBRARY_KEY}\" is not supported"
                    )));
                }
                Ok(TopLevelGrammar::from_json_schema(with_settings(schema.clone())))
            }
            Self::Regex(expression) => {
                check_size(expression.len())?;
                if expression.bytes().rev().take_while(|&byte| byte == b'\\').count() % 2 == 1 {
                    return Err(GrammarError::Invalid("the expression ends with a single \\".to_owned()));
                }
                Ok(TopLevelGrammar::from_regex(expression))
            }
            Self::Choice(texts) => {
                check_size(texts.iter().map(String::len).sum())?;
                if texts.is_empty() || texts.iter().any(String::is_empty) {
                    return Err(GrammarError::Invalid(
                        "it needs at least one text, and none of them empty".to_owned(),
                    ));
                }
                // Lark's strings have JSON's escapes.
                let choices: Vec<String> = texts.iter().map(|text| json!(text).to_string()).collect();
                Ok(TopLevelGrammar::from_lark(format!("start: {}", choices.join(" | "))))
            }
        }
    }
}

fn with_settings(mut schema: Value) -> Value {
    schema[LIBRARY_KEY] = json!({ "whitespace_flexible": true, "whitespace_pattern": WHITE_SPACE });
    schema
}

fn check_size(bytes: usize) -> Result<(), GrammarError> {
    if bytes > BYTES_MAX {
        return Err(GrammarError::TooLarge {
            bytes,
            bytes_max: BYTES_MAX,
        });
    }
    Ok(())
}
