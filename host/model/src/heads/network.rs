//! The networks of heads, on the device of their model. f32 throughout, batched, rows independent of each other.

use std::collections::HashMap;

use candle_core::{Device, Result, Tensor};

use super::header::{Activation, HeadHeader, HeadInput, Network};
use super::layout::norm_name;
use crate::ops;

/// PyTorch's default, with which the published heads were trained.
pub(crate) const LAYER_NORM_EPS: f64 = 1e-5;

/// Weights of a head by name, taken out as the network is put together.
pub(super) struct Tensors(pub(super) HashMap<String, Shaped>);

/// A shape and elements, row-major.
pub(crate) type Shaped = (Vec<usize>, Vec<f32>);

impl Tensors {
    fn take(&mut self, name: &str) -> Result<Tensor> {
        match self.0.remove(name) {
            Some((shape, data)) => Tensor::from_vec(data, shape, &Device::Cpu),
            None => candle_core::bail!("head without its tensor \"{name}\""),
        }
    }

    fn linear(&mut self, name: &str) -> Result<Linear> {
        Ok(Linear {
            weight: self.take(&format!("{name}.weight"))?,
            bias: self.take(&format!("{name}.bias"))?,
        })
    }

    fn norm(&mut self, name: &str) -> Result<Norm> {
        Ok(Norm {
            weight: self.take(&format!("{name}.weight"))?,
            bias: self.take(&format!("{name}.bias"))?,
        })
    }
}

/// A linear layer.
#[derive(Debug)]
pub(super) struct Linear {
    weight: Tensor,
    bias: Tensor,
}

impl Linear {
    fn forward(&self, x: &Tensor, activation: Option<Activation>) -> Result<Tensor> {
        let y = ops::linear(x, &self.weight)?;
        ops::add_bias(&y, &self.bias, activation)?;
        Ok(y)
    }
}

#[derive(Debug)]
struct Norm {
    weight: Tensor,
    bias: Tensor,
}

impl Norm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::layer_norm(x, &self.weight, &self.bias, LAYER_NORM_EPS)
    }
}

/// A head's network. Its inputs are one tensor for each of the header's, in that order.
#[derive(Debug)]
pub(super) enum Evaluator {
    Classifier(Box<Classifier>),
    Mlp {
        layers: Vec<Linear>,
        activation: Option<Activation>,
    },
}

impl Evaluator {
    pub(super) fn new(header: &HeadHeader, tensors: &mut Tensors) -> Result<Self> {
        Ok(match &header.network {
            Network::Classifier {
                dims, normalize_input, ..
            } => Self::Classifier(Box::new(Classifier::new(header, dims, *normalize_input, tensors)?)),
            Network::Mlp { dims, activation } => Self::Mlp {
                layers: (0..=dims.len())
                    .map(|index| tensors.linear(&format!("layers.{index}")))
                    .collect::<Result<_>>()?,
                activation: *activation,
            },
        })
    }

    /// The outputs before the logistic function or softmax: [rows, 1], or [rows, classes].
    pub(super) fn forward(&self, inputs: &[Tensor]) -> Result<Tensor> {
        match self {
            Self::Classifier(classifier) => classifier.forward(inputs),
            Self::Mlp { layers, activation } => {
                let mut x = joined(inputs)?;
                for (index, layer) in layers.iter().enumerate() {
                    let last = index + 1 == layers.len();
                    x = layer.forward(&x, activation.filter(|_| !last))?;
                }
                Ok(x)
            }
        }
    }
}

/// R2R's classifier.
#[derive(Debug)]
pub(super) struct Classifier {
    /// One an input; logits have none.
    norms: Vec<Option<Norm>>,
    logits_projection: Option<Linear>,
    /// What joins the inputs, unless the logits are the only one.
    projection: Option<Linear>,
    input_projection: Linear,
    blocks: Vec<Block>,
    output_norm: Norm,
    output: Linear,
}

#[derive(Debug)]
struct Block {
    norm: Norm,
    up: Linear,
    down: Linear,
    dim_change: Option<Linear>,
}

impl Classifier {
    fn new(header: &HeadHeader, dims: &[usize], normalize_input: bool, tensors: &mut Tensors) -> Result<Self> {
        let mut norm = |input: &HeadInput| {
            let wanted = normalize_input && *input != HeadInput::Logits;
            wanted
                .then(|| tensors.norm(norm_name(&header.inputs, *input)))
                .transpose()
        };
        let norms = header.inputs.iter().map(&mut norm).collect::<Result<_>>()?;
        let mut linear = |name: &str, there: bool| there.then(|| tensors.linear(name)).transpose();
        let logits_projection = linear("logits_projection", header.reads(HeadInput::Logits))?;
        let projection = match header.inputs.as_slice() {
            [HeadInput::Logits] => None,
            [HeadInput::Hidden] => linear("hidden_states_projection", true)?,
            _ => linear("combined_projection", true)?,
        };
        let mut block = |index: usize| {
            let name = format!("backbone.blocks.{index}");
            let changes = dims.get(index + 1).is_some_and(|next| *next != dims[index]);
            Ok(Block {
                norm: tensors.norm(&format!("{name}.layer_norm"))?,
                up: tensors.linear(&format!("{name}.mlp.0"))?,
                down: tensors.linear(&format!("{name}.mlp.3"))?,
                dim_change: changes
                    .then(|| tensors.linear(&format!("{name}.dim_change")))
                    .transpose()?,
            })
        };
        Ok(Self {
            norms,
            logits_projection,
            projection,
            blocks: (0..dims.len()).map(&mut block).collect::<Result<_>>()?,
            input_projection: tensors.linear("backbone.input_projection")?,
            output_norm: tensors.norm("backbone.output_layer.0")?,
            output: tensors.linear("backbone.output_layer.1")?,
        })
    }

    fn forward(&self, inputs: &[Tensor]) -> Result<Tensor> {
        let mut features = Vec::with_capacity(inputs.len());
        for (index, input) in inputs.iter().enumerate() {
            let last = index + 1 == inputs.len();
            features.push(match (&self.norms[index], &self.logits_projection) {
                (Some(norm), _) => norm.forward(input)?,
                // Logits are the last input where there are any.
                (None, Some(projection)) if last => projection.forward(input, None)?,
                (None, _) => input.clone(),
            });
        }
        let mut x = joined(&features)?;
        if let Some(projection) = &self.projection {
            x = projection.forward(&x, None)?;
        }
        x = self.input_projection.forward(&x, None)?;
        for block in &self.blocks {
            x = block.forward(x)?;
        }
        self.output.forward(&self.output_norm.forward(&x)?, None)
    }
}

impl Block {
    fn forward(&self, x: Tensor) -> Result<Tensor> {
        let inner = self.up.forward(&self.norm.forward(&x)?, Some(Activation::Gelu))?;
        let y = match &self.dim_change {
            Some(dim_change) => dim_change.forward(&x, None)?,
            None => x,
        };
        ops::linear_add(&y, &inner, &self.down.weight)?;
        ops::add_bias(&y, &self.down.bias, None)?;
        Ok(y)
    }
}

/// Inputs side by side: [rows, sum of widths].
fn joined(inputs: &[Tensor]) -> Result<Tensor> {
    match inputs {
        [one] => Ok(one.clone()),
        several => Tensor::cat(several, 1),
    }
}
