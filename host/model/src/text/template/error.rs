//! What can be wrong with a chat template, or with a conversation that it does not take.

use crate::text::TextError;

/// An error of a chat template. Those of [`TemplateError::is_of_request`] are told to the client.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// The template is not one.
    #[error("the chat template {origin} cannot be used: {what}")]
    Syntax {
        /// Where it came from.
        origin: String,
        /// Line and mistake.
        what: String,
    },
    /// A file that may hold a template holds something else.
    #[error("{file}: {what}")]
    File {
        /// The file.
        file: String,
        /// What is wrong, and what would be right.
        what: String,
    },
    /// The template says that it does not take this conversation.
    #[error("the chat template {origin} refuses the conversation: {what}")]
    Refused {
        /// Where it came from.
        origin: String,
        /// The template's own words.
        what: String,
    },
    /// The template failed on this conversation.
    #[error("the chat template {origin} failed on the conversation: {what}")]
    Failed {
        /// Where it came from.
        origin: String,
        /// Line and mistake.
        what: String,
    },
    /// The last message is to be continued, and the template did not write it.
    #[error("the chat template {origin} leaves out the last message, so it cannot be continued")]
    NothingToContinue {
        /// Where it came from.
        origin: String,
    },
    /// The conversation uses all characters that could mark a user's text.
    #[error("the conversation has all of the noncharacters U+FDD0 to U+FDEF; leave one of them out")]
    NoMark,
    /// What the template wrote cannot be encoded.
    #[error(transparent)]
    Text(#[from] TextError),
}

impl TemplateError {
    /// Whether the conversation is at fault, and not a file of the deployment.
    pub fn is_of_request(&self) -> bool {
        !matches!(self, Self::Syntax { .. } | Self::File { .. })
    }
}
