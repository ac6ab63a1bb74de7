//! What can go wrong with a model: in its files, or in what a step asks of it.

use std::path::PathBuf;

/// An error of this crate. Messages name the file or the field, what is wrong and what would be right.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// A file of the model cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file that should be JSON is not, or has a field of the wrong kind.
    #[error("{file} is not the JSON expected: {source}")]
    Json {
        /// The file.
        file: String,
        /// Where and what.
        source: serde_json::Error,
    },
    /// The configuration is of an architecture without a decoder here.
    #[error("{file}: model_type \"{found}\" is not supported; supported: {supported}")]
    Architecture {
        /// The configuration file.
        file: String,
        /// Its `model_type`.
        found: String,
        /// All that would be right, separated by commas.
        supported: String,
    },
    /// The configuration has a value that the decoder cannot honour.
    #[error("{file}: {what}")]
    Config {
        /// The configuration file.
        file: String,
        /// Which value, and what would be right.
        what: String,
    },
    /// A weights file is damaged: truncated, or no safetensors file at all.
    #[error("{file} is damaged or not a safetensors file: {what}")]
    Weights {
        /// The weights file.
        file: String,
        /// What the reader found.
        what: String,
    },
    /// A GGUF file is damaged, or has something that cannot be served.
    #[error("{file} is no GGUF file that can be served: {what}")]
    Gguf {
        /// The file.
        file: String,
        /// What is wrong, and what would be right.
        what: String,
    },
    /// The weights lack a tensor that the configuration calls for.
    #[error("{origin}: tensor \"{name}\" is missing")]
    TensorMissing {
        /// Where the weights came from.
        origin: String,
        /// The tensor.
        name: String,
    },
    /// A tensor has another shape than the configuration says.
    #[error("{file}: tensor \"{name}\" has shape {found:?}, but the configuration calls for {expected:?}")]
    TensorShape {
        /// The weights file.
        file: String,
        /// The tensor.
        name: String,
        /// Its shape.
        found: Vec<usize>,
        /// The shape that would be right.
        expected: Vec<usize>,
    },
    /// A tensor has elements of a type that cannot be read.
    #[error("{file}: tensor \"{name}\" has elements of type {found}; supported: F32, BF16, F16")]
    TensorType {
        /// The weights file.
        file: String,
        /// The tensor.
        name: String,
        /// Its element type, in the file's word.
        found: String,
    },
    /// The system gives no threads.
    #[error("cannot start {threads} threads for a model: {source}")]
    Threads {
        /// Threads asked for.
        threads: usize,
        /// What the system said.
        source: std::io::Error,
    },
    /// The KV pool does not fit in memory.
    #[error("a KV pool of {blocks} blocks ({bytes} bytes) does not fit in memory")]
    Pool {
        /// Blocks asked for.
        blocks: usize,
        /// Their size; the largest number when it cannot be expressed.
        bytes: u64,
    },
    /// A step contradicts itself, the model or the KV pool. An error of the caller, never of a request.
    #[error("step refused: {0}")]
    Step(String),
    /// A plan asks for the score of a head that is not loaded for this model. An error of the caller: a policy whose plan
    /// asks for it must be refused when it is configured.
    #[error("head \"{0}\" is not loaded for this model; a plan that asks for it must be refused with its policy")]
    Head(String),
    /// A GPU or its driver failed, or cannot run the model.
    #[error(transparent)]
    Cuda(#[from] crate::cuda::CudaError),
    /// A tensor operation failed.
    #[error("tensor operation failed: {0}")]
    Tensor(#[from] candle_core::Error),
}
