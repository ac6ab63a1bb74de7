//! The field `messages`: read, checked, and with every content as one text, which is what templates expect.

use serde_json::{Map, Value};

use crate::http::answer::{Fields, is_empty, kind};
use crate::http::{ApiError, limits};

const ROLES: [&str; 5] = ["system", "developer", "user", "assistant", "tool"];

/// Fields of a message that would matter and are not served.
const UNSUPPORTED: [&str; 3] = ["tool_calls", "function_call", "audio"];

/// The messages. Where the template does not know the role `developer`, it becomes `system`: that is what it was called before.
pub(super) fn read(fields: &Fields<'_>, knows_developer: bool) -> Result<Vec<Value>, ApiError> {
    let items = match fields.get("messages") {
        None => {
            return Err(fields.refuse(
                "messages",
                "is missing; it is an array of objects with role and content",
            ));
        }
        Some(Value::Array(items)) => items,
        Some(other) => return Err(fields.wrong("messages", "an array of objects", other)),
    };
    let (found, max) = (items.len(), limits::MESSAGES_MAX);
    if items.is_empty() {
        return Err(fields.refuse("messages", "is empty; it needs at least one message"));
    }
    if found > max {
        return Err(fields.refuse("messages", &format!("has {found} messages; at most {max} are possible")));
    }
    let message = |(index, item)| message(&format!("messages[{index}]"), item, knows_developer);
    items.iter().enumerate().map(message).collect()
}

fn message(path: &str, item: &Value, knows_developer: bool) -> Result<Value, ApiError> {
    let Value::Object(given) = item else {
        return Err(wrong(path, &format!("must be an object, found {}", kind(item))));
    };
    let role = match given.get("role") {
        Some(Value::String(role)) if ROLES.contains(&role.as_str()) => role.as_str(),
        Some(Value::String(role)) => {
            let sentence = format!("is {role:?}; it must be one of {}", ROLES.join(", "));
            return Err(wrong(&format!("{path}.role"), &sentence));
        }
        Some(other) => {
            return Err(wrong(
                &format!("{path}.role"),
                &format!("must be a string, found {}", kind(other)),
            ));
        }
        None => {
            return Err(wrong(
                &format!("{path}.role"),
                &format!("is missing; it is one of {}", ROLES.join(", ")),
            ));
        }
    };
    for name in UNSUPPORTED {
        if given
            .get(name)
            .is_some_and(|value| !value.is_null() && !is_empty(value))
        {
            return Err(ApiError::Unsupported {
                param: format!("{path}.{name}"),
                neutral: "null",
            });
        }
    }
    let content = content(&format!("{path}.content"), given, role)?;
    let mut message: Map<String, Value> = (given.iter())
        .filter(|(name, value)| !value.is_null() && !UNSUPPORTED.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    message.insert("content".to_owned(), content.into());
    if role == "developer" && !knows_developer {
        message.insert("role".to_owned(), "system".into());
    }
    Ok(message.into())
}

/// A text, or parts that are texts, joined by new lines as in vLLM. Only an assistant may have said nothing.
fn content(path: &str, message: &Map<String, Value>, role: &str) -> Result<String, ApiError> {
    match message.get("content") {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(parts)) => {
            let part = |(index, part)| part_text(&format!("{path}[{index}]"), part);
            let texts: Vec<&str> = parts.iter().enumerate().map(part).collect::<Result<_, _>>()?;
            Ok(texts.join("\n"))
        }
        None | Some(Value::Null) if role == "assistant" => Ok(String::new()),
        None | Some(Value::Null) => Err(wrong(
            path,
            "is missing; only an assistant's message may be without one",
        )),
        Some(other) => {
            let sentence = format!("must be a string or an array of parts, found {}", kind(other));
            Err(wrong(path, &sentence))
        }
    }
}

fn part_text<'a>(path: &str, part: &'a Value) -> Result<&'a str, ApiError> {
    match part["type"].as_str() {
        Some("text") => part["text"]
            .as_str()
            .ok_or_else(|| wrong(&format!("{path}.text"), "is missing; it is a string")),
        Some(other) => Err(wrong(
            &format!("{path}.type"),
            &format!("is {other:?}; these models read \"text\" alone"),
        )),
        None => Err(wrong(path, "must be an object with type and text")),
    }
}

fn wrong(path: &str, sentence: &str) -> ApiError {
    ApiError::field(path, format!("{path} {sentence}"))
}
