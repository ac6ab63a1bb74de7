//! Chat templates: from messages to the text that a model was trained to go on from, and to its tokens.
//!
//! Templates are Jinja, in the dialect of Hugging Face's `transformers` ([`environment`]). A template writes special tokens
//! such as `<|im_start|>`; users write text. To tell them apart in what comes out, everything that a request brings in is
//! protected before: a noncharacter that the request does not have is put into whatever would read as a special token
//! ([`super::special`]). What still reads as one afterwards is the template's own, and the marks are taken out before the
//! stretches between special tokens are encoded.

mod conversation;
mod environment;
mod error;
mod folder;
mod json;

#[cfg(test)]
mod tests;

pub use conversation::Conversation;
pub use error::TemplateError;
pub use folder::TemplateSource;

use minijinja::{Environment, Value};

use self::conversation::Marks;
use self::environment::{NAME, Raised, environment, strftime_now};
use super::tokenizer::Tokenizer;

/// A deployment's chat template, ready to render.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    origin: String,
    text: String,
    tokens: Vec<(String, String)>,
}

/// What a template wrote, with marks where a user's text only looks like a special token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    marked: String,
    marks: Marks,
}

impl ChatTemplate {
    /// Variables that are always set, and not for a request to set.
    pub const RESERVED: [&str; 13] = [
        "messages",
        "tools",
        "documents",
        "add_generation_prompt",
        "raise_exception",
        "strftime_now",
        "bos_token",
        "eos_token",
        "unk_token",
        "sep_token",
        "pad_token",
        "cls_token",
        "mask_token",
    ];

    /// Reads a template.
    ///
    /// # Errors
    /// [`TemplateError::Syntax`], with the line.
    pub fn new(source: TemplateSource) -> Result<Self, TemplateError> {
        let syntax = |error: minijinja::Error| TemplateError::Syntax {
            origin: source.origin.clone(),
            what: error.to_string(),
        };
        Ok(Self {
            environment: environment(&source.text).map_err(syntax)?,
            origin: source.origin,
            text: source.text,
            tokens: source.tokens,
        })
    }

    /// Where it came from: a file, or a name.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Whether a word stands in the template: the name of a variable or a role. What a template does not mention it passes over
    /// without a word.
    pub fn mentions(&self, word: &str) -> bool {
        self.text.contains(word)
    }

    /// Writes a conversation out.
    ///
    /// # Errors
    /// [`TemplateError`]: the template refuses the conversation or fails on it.
    pub fn render(&self, tokenizer: &Tokenizer, conversation: &Conversation<'_>) -> Result<Rendered, TemplateError> {
        let marks = conversation.marks()?;
        let protect = |text: &str| tokenizer.special_tokens().protect(text, marks.inside);
        let mut variables: Vec<(String, Value)> = (self.tokens.iter())
            .map(|(name, token)| (name.clone(), Value::from(token.as_str())))
            .collect();
        variables.extend([
            ("tools".to_owned(), Value::from(())),
            ("documents".to_owned(), Value::from(())),
            ("strftime_now".to_owned(), strftime_now(conversation.now_s)),
        ]);
        variables.extend(conversation.variables(marks, &protect));
        let template = self
            .environment
            .get_template(NAME)
            .map_err(|error| self.failed(&error))?;
        let mut marked = template
            .render(Value::from_pairs(variables))
            .map_err(|error| self.failed(&error))?;
        if conversation.continue_final_message {
            self.cut(&mut marked, marks)?;
        }
        Ok(Rendered { marked, marks })
    }

    /// Ends the text where the last message's content ends. A template that trimmed the content took the space behind the mark
    /// as well; then white space before the mark is gone, as it is in `transformers`.
    fn cut(&self, text: &mut String, marks: Marks) -> Result<(), TemplateError> {
        let place = text.rfind(marks.end).ok_or_else(|| TemplateError::NothingToContinue {
            origin: self.origin.clone(),
        })?;
        let kept_space = text[place + marks.end.len_utf8()..].starts_with(' ');
        text.truncate(place);
        if !kept_space {
            text.truncate(text.trim_end().len());
        }
        Ok(())
    }

    fn failed(&self, error: &minijinja::Error) -> TemplateError {
        let mut cause: Option<&dyn std::error::Error> = Some(error);
        while let Some(here) = cause {
            if let Some(Raised(what)) = here.downcast_ref::<Raised>() {
                return TemplateError::Refused {
                    origin: self.origin.clone(),
                    what: what.clone(),
                };
            }
            cause = here.source();
        }
        TemplateError::Failed {
            origin: self.origin.clone(),
            what: error.to_string(),
        }
    }
}

impl Rendered {
    /// The text as the template meant it.
    pub fn text(&self) -> String {
        self.marks.remove(&self.marked)
    }

    /// The text with marks, and the marks.
    pub(super) fn parts(&self) -> (&str, Marks) {
        (&self.marked, self.marks)
    }
}
