//! Why a format cannot be kept.

/// Longest message of the grammar library that is passed on, in bytes.
const MESSAGE_BYTES_MAX: usize = 400;

/// An error of a grammar: all but the last two are told before anything is written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrammarError {
    /// The schema or expression is larger than is taken.
    #[error("it has {bytes} bytes; at most {bytes_max} are taken")]
    TooLarge {
        /// Its size, as compact JSON.
        bytes: usize,
        /// The bound.
        bytes_max: usize,
    },
    /// The schema or expression is wrong, or has something that is not supported.
    #[error("{0}")]
    Invalid(String),
    /// The vocabulary cannot write what the format asks for.
    #[error("no token of this vocabulary can begin or go on with what the format asks for")]
    DeadEnd,
    /// The grammar could not be followed any further: it is more complex than its bounds allow.
    #[error("the format could not be followed: {0}")]
    Failed(String),
}

impl GrammarError {
    pub(super) fn invalid(error: impl std::fmt::Display) -> Self {
        Self::Invalid(shown(&error.to_string()))
    }

    pub(super) fn failed(error: impl std::fmt::Display) -> Self {
        Self::Failed(shown(&error.to_string()))
    }
}

/// The message without the library's state dumps and backtraces.
fn shown(message: &str) -> String {
    let lines = message.lines().take_while(|line| !line.starts_with('<'));
    let mut shown = lines
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join("; ");
    if shown.len() > MESSAGE_BYTES_MAX {
        shown.truncate(shown.floor_char_boundary(MESSAGE_BYTES_MAX));
        shown.push('…');
    }
    shown
}
