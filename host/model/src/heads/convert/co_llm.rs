//! Co-LLM's deferral vector: `deferral.weight`, or the row that an original checkpoint added to its language-model head.

use super::super::checkpoint::Checkpoint;
use super::super::error::HeadError;
use super::super::file::HeadFile;
use super::super::header::HeadKind;
use super::{ConvertOptions, layers, matrix, model, wrong};

const VECTOR: &str = "deferral.weight";
const HEAD: &str = "lm_head.weight";

pub(super) fn convert(checkpoint: &mut Checkpoint, options: &ConvertOptions) -> Result<HeadFile, HeadError> {
    let (vector, source) = match checkpoint.shape(VECTOR) {
        Some(shape @ ([_] | [1, _])) => {
            let shape = shape.to_vec();
            (checkpoint.tensor(VECTOR, &shape)?, format!("Co-LLM, {VECTOR}"))
        }
        Some(shape) => {
            let what = format!("tensor \"{VECTOR}\" has shape {shape:?}, expected [hidden_size] or [1, hidden_size]");
            return Err(wrong(checkpoint, what));
        }
        None if checkpoint.shape(HEAD).is_none() => {
            let what = format!("it has neither \"{VECTOR}\" nor \"{HEAD}\", one of which is the deferral vector");
            return Err(wrong(checkpoint, what));
        }
        None => {
            let (rows, _) = matrix(checkpoint, HEAD)?;
            let row = match (options.row, options.model.vocabulary) {
                (Some(row), _) => row,
                // A table with no row beyond the model's vocabulary has no deferral row: its last one is a token's.
                (None, Some(vocabulary)) if rows <= vocabulary => {
                    let what = format!(
                        "{HEAD} has {rows} rows, no more than the model's vocabulary of {vocabulary}: its last row is a \
                         token's; name the deferral row with --row"
                    );
                    return Err(wrong(checkpoint, what));
                }
                (None, _) => rows.saturating_sub(1),
            };
            (
                checkpoint.row(HEAD, row)?,
                format!("Co-LLM, row {row} of {rows} of {HEAD}"),
            )
        }
    };
    let model = model(checkpoint, Some(vector.len()), options)?;
    layers(
        checkpoint,
        HeadKind::CoLlm,
        model,
        None,
        vec![(vector, vec![0.0])],
        source,
    )
}
