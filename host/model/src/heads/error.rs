//! What can go wrong with a head: in its file, or between it and its model.

use crate::error::ModelError;

/// An error of a head. Messages name the file, the field or tensor, what was found and what would be right.
#[derive(Debug, thiserror::Error)]
pub enum HeadError {
    /// The file is not a safetensors file, or a tensor is missing or of another shape or type.
    #[error(transparent)]
    File(#[from] ModelError),
    /// The file has no header of a head, or one that cannot be used.
    #[error("{file}: {what}")]
    Header {
        /// The file.
        file: String,
        /// Which field, and what would be right.
        what: String,
    },
    /// A weight is not a number, or infinite: scores would be too, and comparisons with them false without a sign.
    #[error("{file}: tensor \"{name}\" has {value} at element {index}; all weights must be finite")]
    NotFinite {
        /// The file.
        file: String,
        /// The tensor.
        name: String,
        /// The element, row-major.
        index: usize,
        /// What it is.
        value: f32,
    },
    /// A tensor that the header does not call for: a sign of another network than the header describes.
    #[error("{file}: tensor \"{name}\" is not one of this head's; they are {expected}")]
    Unexpected {
        /// The file.
        file: String,
        /// The tensor.
        name: String,
        /// All that would be right, separated by commas.
        expected: String,
    },
    /// The head was made for another model.
    #[error("{file}: {what}")]
    Model {
        /// The file.
        file: String,
        /// Which size differs, in the head and in the model.
        what: String,
    },
    /// A checkpoint that cannot be read, or not without executing code.
    #[error("{file}: {what}")]
    Checkpoint {
        /// The file.
        file: String,
        /// What was found, and what would be right.
        what: String,
    },
    /// The runner of this model evaluates no heads.
    #[error("this model's runner evaluates no heads")]
    Runner,
}
