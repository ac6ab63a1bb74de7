//! Networks of one's own: the state dict of a linear layer, or of a sequence of them.

use super::super::checkpoint::Checkpoint;
use super::super::error::HeadError;
use super::super::file::HeadFile;
use super::super::header::HeadKind;
use super::{ConvertOptions, layers, matrix, model, wrong};

const WEIGHT: &str = "weight";

/// Every tensor that is named `weight`, or whose name ends in `.weight`, is a layer with a bias beside it. They follow one
/// another in the order of the number before it, as in PyTorch's `Sequential`.
pub(super) fn convert(
    checkpoint: &mut Checkpoint,
    kind: HeadKind,
    options: &ConvertOptions,
) -> Result<HeadFile, HeadError> {
    let mut names = Vec::new();
    for name in checkpoint.names() {
        match name.strip_suffix(WEIGHT) {
            Some(prefix) if prefix.is_empty() || prefix.ends_with('.') => names.push(prefix.to_owned()),
            _ if name == "bias" || name.ends_with(".bias") => {}
            _ => {
                return Err(wrong(
                    checkpoint,
                    format!("tensor \"{name}\" is neither a weight nor a bias"),
                ));
            }
        }
    }
    if names.is_empty() {
        return Err(wrong(checkpoint, "it has no tensor whose name ends in \"weight\""));
    }
    names.sort_by_key(|prefix| (number(prefix), prefix.clone()));
    let hidden = matrix(checkpoint, &format!("{}{WEIGHT}", names[0]))?.1;
    let model = model(checkpoint, Some(hidden), options)?;
    let (mut width, mut found) = (hidden, Vec::new());
    for prefix in &names {
        let (outputs, _) = matrix(checkpoint, &format!("{prefix}{WEIGHT}"))?;
        let weight = checkpoint.tensor(&format!("{prefix}{WEIGHT}"), &[outputs, width])?;
        let bias = format!("{prefix}bias");
        let bias = match checkpoint.shape(&bias) {
            Some(_) => checkpoint.tensor(&bias, &[outputs])?,
            None => vec![0.0; outputs],
        };
        found.push((weight, bias));
        width = outputs;
    }
    if width != 1 {
        return Err(wrong(
            checkpoint,
            format!("the last layer has {width} outputs, expected 1: the score's logit"),
        ));
    }
    let source = format!("state dict of {} linear layers", found.len());
    layers(checkpoint, kind, model, options.activation, found, source)
}

/// The last number in a name such as `net.2.`.
fn number(prefix: &str) -> Option<u64> {
    prefix.split('.').rev().find_map(|part| part.parse().ok())
}
