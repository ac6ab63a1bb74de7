//! CITER's network: the state dict of an MLP of two layers with a batch norm after the first, and of a linear layer on top.
//!
//! At inference the batch norm is a scale and a shift, so it becomes part of the first layer; nothing stands between the
//! second layer and the one on top, so they become one. What is left has an eighth fewer products and the same result.

use super::super::checkpoint::Checkpoint;
use super::super::error::HeadError;
use super::super::file::HeadFile;
use super::super::header::{Activation, HeadKind};
use super::{ConvertOptions, layers, matrix, model, wrong};

/// PyTorch's default for batch norm.
const EPS: f64 = 1e-5;

/// Tensors of the state dict. The count of batches is not needed for inference.
const TENSORS: [&str; 11] = [
    "mlp.0.weight",
    "mlp.0.bias",
    "mlp.1.weight",
    "mlp.1.bias",
    "mlp.1.running_mean",
    "mlp.1.running_var",
    "mlp.1.num_batches_tracked",
    "mlp.4.weight",
    "mlp.4.bias",
    "linear.weight",
    "linear.bias",
];

pub(super) fn convert(checkpoint: &mut Checkpoint, options: &ConvertOptions) -> Result<HeadFile, HeadError> {
    if let Some(name) = checkpoint.names().find(|name| !TENSORS.contains(name)) {
        let what = format!(
            "tensor \"{name}\" is not one of CITER's, which are {}",
            TENSORS.join(", ")
        );
        return Err(wrong(checkpoint, what));
    }
    let (inner, hidden) = matrix(checkpoint, "mlp.0.weight")?;
    let (middle, _) = matrix(checkpoint, "mlp.4.weight")?;
    let model = model(checkpoint, Some(hidden), options)?;
    let mut tensor = |name: &str, shape: &[usize]| checkpoint.tensor(name, shape);
    let (w0, b0) = (
        tensor("mlp.0.weight", &[inner, hidden])?,
        tensor("mlp.0.bias", &[inner])?,
    );
    let (gamma, beta) = (tensor("mlp.1.weight", &[inner])?, tensor("mlp.1.bias", &[inner])?);
    let (mean, var) = (
        tensor("mlp.1.running_mean", &[inner])?,
        tensor("mlp.1.running_var", &[inner])?,
    );
    let (w1, b1) = (
        tensor("mlp.4.weight", &[middle, inner])?,
        tensor("mlp.4.bias", &[middle])?,
    );
    let (w2, b2) = (tensor("linear.weight", &[1, middle])?, tensor("linear.bias", &[1])?);
    if let Some(index) = var.iter().position(|var| var.is_nan() || *var < 0.0) {
        let what = format!(
            "mlp.1.running_var has {} at element {index}, expected no negative number",
            var[index]
        );
        return Err(wrong(checkpoint, what));
    }
    let scale: Vec<f64> = gamma
        .iter()
        .zip(&var)
        .map(|(gamma, var)| f64::from(*gamma) / (f64::from(*var) + EPS).sqrt())
        .collect();
    let first = w0
        .chunks_exact(hidden.max(1))
        .zip(&scale)
        .flat_map(|(row, scale)| row.iter().map(move |w| (f64::from(*w) * scale) as f32))
        .collect();
    let shift = (0..inner)
        .map(|i| (scale[i] * (f64::from(b0[i]) - f64::from(mean[i])) + f64::from(beta[i])) as f32)
        .collect();
    let mut last = vec![0f64; inner];
    for (row, w2) in w1.chunks_exact(inner.max(1)).zip(&w2) {
        last.iter_mut()
            .zip(row)
            .for_each(|(sum, w1)| *sum += f64::from(*w2) * f64::from(*w1));
    }
    let bias: f64 = f64::from(b2[0])
        + w2.iter()
            .zip(&b1)
            .map(|(w2, b1)| f64::from(*w2) * f64::from(*b1))
            .sum::<f64>();
    let last = last.into_iter().map(|w| w as f32).collect();
    layers(
        checkpoint,
        HeadKind::Citer,
        model,
        Some(Activation::Relu),
        vec![(first, shift), (last, vec![bias as f32])],
        "CITER state dict, batch norm and last two layers folded".to_owned(),
    )
}
