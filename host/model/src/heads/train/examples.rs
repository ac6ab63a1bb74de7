//! Positions with their labels.

use candle_core::{Device, Tensor};
use tokenrouter_core::draw::{Purpose, uniform};

use super::observer::Observation;
use crate::error::ModelError;
use crate::heads::{HeadHeader, HeadInput, Network};

/// Draws of this number decide which texts are held out.
const HELD_OUT: Purpose = Purpose::Policy(0);

/// One position of one text.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// The text, by its place in the file.
    pub text: usize,
    /// What the model computed there.
    pub observation: Observation,
    /// What a high score is to mean.
    pub positive: bool,
}

/// Examples as the head reads them.
#[derive(Debug)]
pub struct Examples {
    /// One tensor for each of the header's inputs: [examples, width].
    pub(super) inputs: Vec<Tensor>,
    /// 0 or 1 each.
    pub(super) labels: Vec<f32>,
}

impl Examples {
    /// Divides examples by text, a part of `held_out` texts for the second: positions of one text are alike, so a text on
    /// both sides would make the held-out loss too good.
    ///
    /// # Errors
    /// When a tensor cannot be made: observations of another model than the header's.
    pub fn divide(
        header: &HeadHeader,
        examples: &[Example],
        held_out: f64,
        seed: u64,
    ) -> Result<(Self, Self), ModelError> {
        let (kept, trained): (Vec<&Example>, Vec<&Example>) = examples
            .iter()
            .partition(|example| uniform(seed, example.text as u64, HELD_OUT) < held_out);
        Ok((Self::new(header, &trained)?, Self::new(header, &kept)?))
    }

    fn new(header: &HeadHeader, examples: &[&Example]) -> Result<Self, ModelError> {
        let input = |input: &HeadInput| -> Result<Tensor, ModelError> {
            let width = header.width(*input);
            let row = |example: &&Example| match input {
                HeadInput::Hidden => example.observation.hidden.clone(),
                HeadInput::Token => example.observation.embedding.clone(),
                HeadInput::Logits => logits(header, &example.observation.top_logits[..width]),
            };
            let values: Vec<f32> = examples.iter().flat_map(row).collect();
            Ok(Tensor::from_vec(values, (examples.len(), width), &Device::Cpu)?)
        };
        Ok(Self {
            inputs: header.inputs.iter().map(input).collect::<Result<_, _>>()?,
            labels: examples
                .iter()
                .map(|example| f32::from(u8::from(example.positive)))
                .collect(),
        })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// How many are positive.
    pub fn positives(&self) -> usize {
        self.labels.iter().filter(|label| **label > 0.5).count()
    }
}

/// Logits as the head reads them: as probabilities among themselves if it was made so.
fn logits(header: &HeadHeader, largest: &[f32]) -> Vec<f32> {
    let Network::Classifier {
        normalize_input: true, ..
    } = header.network
    else {
        return largest.to_vec();
    };
    let max = largest.first().copied().unwrap_or(0.0);
    let exponentials: Vec<f32> = largest.iter().map(|logit| (logit - max).exp()).collect();
    let sum: f32 = exponentials.iter().sum();
    exponentials.iter().map(|value| value / sum).collect()
}
