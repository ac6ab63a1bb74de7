//! What a template renders: messages and variables, and how they are marked as a user's.

use serde_json::{Map, Value};

use super::TemplateError;

/// A conversation to be written out.
#[derive(Clone, Debug)]
pub struct Conversation<'a> {
    /// Objects with a `role` and a `content` that is a text, and whatever else the client sent.
    pub messages: &'a [Value],
    /// Whether the text ends with the beginning of the assistant's next message.
    pub add_generation_prompt: bool,
    /// Whether it ends where the last message's content ends, so that the answer goes on with it.
    pub continue_final_message: bool,
    /// Further variables for the template, such as `enable_thinking`; none of [`super::ChatTemplate::RESERVED`].
    pub variables: &'a Map<String, Value>,
    /// The time for `strftime_now`, in seconds since 1970.
    pub now_s: i64,
}

/// Two noncharacters that a request does not have: in texts that would read as a special token, and at the end of the message
/// to be continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::text) struct Marks {
    pub(in crate::text) inside: char,
    pub(in crate::text) end: char,
}

impl Marks {
    /// The text without them.
    pub(in crate::text) fn remove(self, text: &str) -> String {
        text.replace([self.inside, self.end], "")
    }
}

impl Conversation<'_> {
    /// # Errors
    /// [`TemplateError::NoMark`].
    pub(super) fn marks(&self) -> Result<Marks, TemplateError> {
        let mut used = [false; 32];
        let mut see = |text: &str| {
            for character in text
                .chars()
                .filter(|character| ('\u{fdd0}'..='\u{fdef}').contains(character))
            {
                used[character as usize - 0xfdd0] = true;
            }
        };
        self.messages.iter().for_each(|message| visit(message, &mut see));
        self.variables.values().for_each(|value| visit(value, &mut see));
        let mut free = ('\u{fdd0}'..='\u{fdef}').filter(|&character| !used[character as usize - 0xfdd0]);
        match (free.next(), free.next()) {
            (Some(inside), Some(end)) => Ok(Marks { inside, end }),
            _ => Err(TemplateError::NoMark),
        }
    }

    /// What the template sees of it.
    pub(super) fn variables(
        &self,
        marks: Marks,
        protect: &dyn Fn(&str) -> Option<String>,
    ) -> Vec<(String, minijinja::Value)> {
        let last = self.messages.len().saturating_sub(1);
        let messages = self.messages.iter().enumerate().map(|(index, message)| {
            let end = (self.continue_final_message && index == last).then_some(marks.end);
            as_message(message, end, protect)
        });
        let mut variables = vec![
            ("messages".to_owned(), messages.collect()),
            (
                "add_generation_prompt".to_owned(),
                minijinja::Value::from(self.add_generation_prompt),
            ),
        ];
        variables.extend((self.variables.iter()).map(|(name, value)| (name.clone(), as_value(value, protect))));
        variables
    }
}

/// A message; `end` marks where its content ends, with a space that shows whether the template trims.
fn as_message(message: &Value, end: Option<char>, protect: &dyn Fn(&str) -> Option<String>) -> minijinja::Value {
    let (Some(end), Value::Object(fields)) = (end, message) else {
        return as_value(message, protect);
    };
    minijinja::Value::from_pairs(fields.iter().map(|(name, value)| match value {
        Value::String(content) if name == "content" => {
            let content = protect(content).unwrap_or_else(|| content.clone());
            (name.clone(), minijinja::Value::from(format!("{content}{end} ")))
        }
        _ => (name.clone(), as_value(value, protect)),
    }))
}

fn as_value(value: &Value, protect: &dyn Fn(&str) -> Option<String>) -> minijinja::Value {
    match value {
        Value::Null => minijinja::Value::from(()),
        Value::Bool(value) => minijinja::Value::from(*value),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), _, _) => minijinja::Value::from(number),
            (_, Some(number), _) => minijinja::Value::from(number),
            (_, _, number) => minijinja::Value::from(number.unwrap_or_default()),
        },
        Value::String(text) => match protect(text) {
            Some(marked) => minijinja::Value::from(marked),
            None => minijinja::Value::from(text.as_str()),
        },
        Value::Array(items) => items.iter().map(|item| as_value(item, protect)).collect(),
        Value::Object(fields) => minijinja::Value::from_pairs(fields.iter().map(|(name, value)| {
            let name = protect(name).unwrap_or_else(|| name.clone());
            (name, as_value(value, protect))
        })),
    }
}

/// All texts of a value, keys too.
fn visit(value: &Value, see: &mut dyn FnMut(&str)) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::String(text) => see(text),
        Value::Array(items) => items.iter().for_each(|item| visit(item, see)),
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            see(name);
            visit(value, see);
        }),
    }
}
