//! From checkpoints, as training left them, to the format of this crate.

mod citer;
mod co_llm;
mod plain;
mod r2r;

use super::checkpoint::Checkpoint;
use super::error::HeadError;
use super::file::HeadFile;
use super::header::{Activation, FORMAT, HeadHeader, HeadInput, HeadKind, HeadModel, Network};
use super::layout::TensorSpec;

/// What a conversion needs to know beside the checkpoint.
#[derive(Clone, Debug, Default)]
pub struct ConvertOptions {
    /// The model the head belongs to, as far as the caller knows it. What the checkpoint says must agree.
    pub model: HeadModel,
    /// Co-LLM: the row of `lm_head.weight` that is the deferral vector; the last one if `None`.
    pub row: Option<usize>,
    /// Mlp: the function between layers. A checkpoint does not say it.
    pub activation: Option<Activation>,
}

/// Makes a head of `kind` out of a checkpoint.
///
/// # Errors
/// [`HeadError`]: a tensor is missing, too many or of a shape that contradicts the rest, the checkpoint uses something that
/// is not supported (named), or says something else of its model than `options`.
pub fn convert(checkpoint: &mut Checkpoint, kind: HeadKind, options: &ConvertOptions) -> Result<HeadFile, HeadError> {
    match kind {
        HeadKind::R2r => r2r::convert(checkpoint, options),
        HeadKind::Citer => citer::convert(checkpoint, options),
        HeadKind::CoLlm => co_llm::convert(checkpoint, options),
        HeadKind::Linear | HeadKind::Mlp => plain::convert(checkpoint, kind, options),
    }
}

/// An error of a checkpoint.
fn wrong(checkpoint: &Checkpoint, what: impl Into<String>) -> HeadError {
    HeadError::Checkpoint {
        file: checkpoint.file().to_owned(),
        what: what.into(),
    }
}

/// The shape of a matrix: (outputs, inputs).
fn matrix(checkpoint: &Checkpoint, name: &str) -> Result<(usize, usize), HeadError> {
    match checkpoint.shape(name) {
        Some([outputs, inputs]) => Ok((*outputs, *inputs)),
        Some(other) => Err(wrong(
            checkpoint,
            format!("tensor \"{name}\" has shape {other:?}, expected a matrix"),
        )),
        None => Err(checkpoint.missing(name)),
    }
}

/// What is known of the model: the hidden size that the weights show, and what the caller said.
fn model(checkpoint: &Checkpoint, hidden: Option<usize>, options: &ConvertOptions) -> Result<HeadModel, HeadError> {
    let said = &options.model;
    match (hidden, said.hidden_size) {
        (Some(found), Some(expected)) if found != expected => Err(wrong(
            checkpoint,
            format!("the head reads hidden states of {found} numbers, those of the model have {expected}"),
        )),
        _ => Ok(HeadModel {
            hidden_size: hidden.or(said.hidden_size),
            ..said.clone()
        }),
    }
}

/// A head of linear layers over the hidden state, from weights at hand: (weight, bias) for each layer.
fn layers(
    checkpoint: &Checkpoint,
    kind: HeadKind,
    model: HeadModel,
    activation: Option<Activation>,
    layers: Vec<(Vec<f32>, Vec<f32>)>,
    source: String,
) -> Result<HeadFile, HeadError> {
    let dims = layers[..layers.len() - 1].iter().map(|(_, bias)| bias.len()).collect();
    let header = HeadHeader {
        format: FORMAT,
        kind,
        model,
        inputs: vec![HeadInput::Hidden],
        top_logits: None,
        network: Network::Mlp { dims, activation },
        threshold: None,
        trained: true,
        source,
    };
    let mut tensors = layers.into_iter().flat_map(|(weight, bias)| [weight, bias]);
    HeadFile::build(checkpoint.file(), header, |spec: &TensorSpec| {
        // One for each: the header's layers are these.
        let data = tensors.next().unwrap_or_default();
        if data.len() == spec.elements() {
            return Ok(data);
        }
        Err(wrong(
            checkpoint,
            format!("{} has {} elements, expected {:?}", spec.name, data.len(), spec.shape),
        ))
    })
}
