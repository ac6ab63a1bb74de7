//! One head, loaded for one model: from the rows of a step to their scores.

use candle_core::{Device, Tensor};
use tokenrouter_core::TokenId;

use super::error::HeadError;
use super::file::HeadFile;
use super::header::{HeadHeader, HeadInput, Network};
use super::network::{Evaluator, Tensors};
use crate::descending::Descending;
use crate::error::ModelError;
use crate::ops;

/// The sizes of the model that a head is loaded for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadTarget {
    /// Width of its hidden states and of the rows of its embedding table.
    pub hidden_size: usize,
    /// Width of its logits.
    pub vocabulary: usize,
}

/// What a head may read of a step.
#[derive(Clone, Copy, Debug)]
pub struct HeadStep<'a> {
    /// Hidden states after the final norm: [rows, hidden_size].
    pub hidden: &'a Tensor,
    /// The model's input embedding table: [vocabulary, hidden_size].
    pub embedding: &'a Tensor,
    /// Raw logits, rows × vocabulary.
    pub logits: &'a [f32],
    /// The candidate of each row.
    pub candidates: &'a [TokenId],
}

/// A head with its weights on the model's device.
#[derive(Debug)]
pub struct Head {
    header: HeadHeader,
    network: Evaluator,
}

impl Head {
    /// Loads a head for a model.
    ///
    /// # Errors
    /// [`HeadError::Model`] when it was made for another model.
    pub fn new(file: HeadFile, target: HeadTarget) -> Result<Self, HeadError> {
        file.fits(target)?;
        let (header, tensors) = file.into_parts();
        let network = Evaluator::new(&header, &mut Tensors(tensors)).map_err(ModelError::from)?;
        Ok(Self { header, network })
    }

    /// The scores of the rows `rows` of a step.
    ///
    /// # Errors
    /// When a tensor operation fails: a row or a candidate that does not exist among them.
    pub fn scores(&self, step: &HeadStep<'_>, rows: &[u32]) -> Result<Vec<f32>, ModelError> {
        let mut scores = Vec::with_capacity(rows.len());
        self.evaluate(step, rows, &mut Descending::default(), &mut scores)?;
        Ok(scores)
    }

    /// Appends the scores of the rows `rows` of a step to `out`. `tokens` is scratch memory.
    pub(crate) fn evaluate(
        &self,
        step: &HeadStep<'_>,
        rows: &[u32],
        tokens: &mut Descending,
        out: &mut Vec<f32>,
    ) -> Result<(), ModelError> {
        let mut inputs = Vec::with_capacity(self.header.inputs.len());
        for input in &self.header.inputs {
            inputs.push(match input {
                HeadInput::Hidden => ops::rows(step.hidden, rows)?,
                HeadInput::Token => {
                    let candidates: Vec<u32> = rows.iter().map(|row| step.candidates[*row as usize]).collect();
                    ops::rows(step.embedding, &candidates)?
                }
                HeadInput::Logits => self.logits(step, rows, tokens)?,
            });
        }
        let outputs = self.network.forward(&inputs)?.to_vec2::<f32>()?;
        out.extend(outputs.iter().map(|row| match row.as_slice() {
            [one] => sigmoid(*one),
            classes => divergence(classes),
        }));
        Ok(())
    }

    /// The largest logits of each row, descending; as probabilities among themselves where the head was trained so.
    fn logits(&self, step: &HeadStep<'_>, rows: &[u32], tokens: &mut Descending) -> Result<Tensor, ModelError> {
        let top = self.header.width(HeadInput::Logits);
        let vocabulary = step.logits.len() / step.candidates.len();
        let normalize = matches!(
            self.header.network,
            Network::Classifier {
                normalize_input: true,
                ..
            }
        );
        let mut values = Vec::with_capacity(rows.len() * top);
        for row in rows {
            let start = *row as usize * vocabulary;
            tokens.fill(&step.logits[start..start + vocabulary], |_| true);
            let first = values.len();
            values.extend(tokens.first(top).iter().map(|(logit, _)| *logit));
            if normalize {
                softmax(&mut values[first..]);
            }
        }
        Ok(Tensor::from_vec(values, (rows.len(), top), &Device::Cpu)?)
    }
}

fn sigmoid(v: f32) -> f32 {
    1.0 / (1.0 + (-v).exp())
}

/// The softmax probability of the last class: divergent, after identical and neutral.
fn divergence(classes: &[f32]) -> f32 {
    let last = classes[classes.len() - 1];
    1.0 / classes.iter().map(|v| (v - last).exp()).sum::<f32>()
}

/// In place, of numbers in descending order.
fn softmax(values: &mut [f32]) {
    let max = values.first().copied().unwrap_or(0.0);
    values.iter_mut().for_each(|value| *value = (*value - max).exp());
    let sum: f32 = values.iter().sum();
    values.iter_mut().for_each(|value| *value /= sum);
}
