//! The networks of heads with gradients. `super::super::network` evaluates the same ones without; a test holds that both
//! give the same scores.

use std::collections::HashMap;

use candle_core::{D, Device, Result, Tensor, Var};

use crate::heads::header::{Activation, HeadHeader, HeadInput, Network};
use crate::heads::layout::{self, norm_name};
use crate::heads::network::LAYER_NORM_EPS;

/// A head's weights as variables, in the order of the layout.
pub(super) struct Weights {
    pub(super) list: Vec<Var>,
    places: HashMap<String, usize>,
}

impl Weights {
    /// From values in the order of the layout.
    pub(super) fn new(header: &HeadHeader, values: &[Vec<f32>]) -> Result<Self> {
        let specs = layout::tensors(header);
        let list = specs.iter().zip(values).map(|(spec, values)| {
            let tensor = Tensor::from_slice(values, spec.shape.as_slice(), &Device::Cpu)?;
            Var::from_tensor(&tensor)
        });
        Ok(Self {
            list: list.collect::<Result<_>>()?,
            places: specs
                .into_iter()
                .enumerate()
                .map(|(place, spec)| (spec.name, place))
                .collect(),
        })
    }

    /// The values in the order of the layout.
    pub(super) fn values(&self) -> Result<Vec<Vec<f32>>> {
        self.list
            .iter()
            .map(|var| var.as_tensor().flatten_all()?.to_vec1())
            .collect()
    }

    fn get(&self, name: &str) -> Result<&Tensor> {
        let place = self.places.get(name);
        place
            .map(|place| self.list[*place].as_tensor())
            .ok_or_else(|| candle_core::Error::Msg(format!("the head has no tensor {name}")))
    }

    fn linear(&self, name: &str, x: &Tensor) -> Result<Tensor> {
        let y = x.matmul(&self.get(&format!("{name}.weight"))?.t()?)?;
        y.broadcast_add(self.get(&format!("{name}.bias"))?)
    }

    fn norm(&self, name: &str, x: &Tensor) -> Result<Tensor> {
        let centred = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
        let deviation = (centred.sqr()?.mean_keepdim(D::Minus1)? + LAYER_NORM_EPS)?.sqrt()?;
        let y = centred.broadcast_div(&deviation)?;
        y.broadcast_mul(self.get(&format!("{name}.weight"))?)?
            .broadcast_add(self.get(&format!("{name}.bias"))?)
    }

    /// The outputs before the logistic function: [rows]. Classifiers have one output here.
    pub(super) fn forward(&self, header: &HeadHeader, inputs: &[Tensor]) -> Result<Tensor> {
        let outputs = match &header.network {
            Network::Mlp { dims, activation } => {
                let mut x = joined(inputs)?;
                for layer in 0..=dims.len() {
                    x = self.linear(&format!("layers.{layer}"), &x)?;
                    if let Some(activation) = activation.filter(|_| layer < dims.len()) {
                        x = activate(&x, activation)?;
                    }
                }
                x
            }
            Network::Classifier {
                dims, normalize_input, ..
            } => {
                let mut x = joined(&self.features(header, inputs, *normalize_input)?)?;
                x = match header.inputs.as_slice() {
                    [HeadInput::Logits] => x,
                    [HeadInput::Hidden] => self.linear("hidden_states_projection", &x)?,
                    _ => self.linear("combined_projection", &x)?,
                };
                x = self.linear("backbone.input_projection", &x)?;
                for (index, width) in dims.iter().enumerate() {
                    let block = format!("backbone.blocks.{index}");
                    let inner = self.norm(&format!("{block}.layer_norm"), &x)?;
                    let inner = self.linear(&format!("{block}.mlp.0"), &inner)?.gelu_erf()?;
                    let inner = self.linear(&format!("{block}.mlp.3"), &inner)?;
                    if dims.get(index + 1).is_some_and(|next| next != width) {
                        x = self.linear(&format!("{block}.dim_change"), &x)?;
                    }
                    x = (x + inner)?;
                }
                self.linear("backbone.output_layer.1", &self.norm("backbone.output_layer.0", &x)?)?
            }
        };
        outputs.squeeze(1)
    }

    fn features(&self, header: &HeadHeader, inputs: &[Tensor], normalize: bool) -> Result<Vec<Tensor>> {
        let feature = |(input, x): (&HeadInput, &Tensor)| match input {
            HeadInput::Logits => self.linear("logits_projection", x),
            _ if normalize => self.norm(norm_name(&header.inputs, *input), x),
            _ => Ok(x.clone()),
        };
        header.inputs.iter().zip(inputs).map(feature).collect()
    }
}

fn activate(x: &Tensor, activation: Activation) -> Result<Tensor> {
    match activation {
        Activation::Relu => x.relu(),
        Activation::Gelu => x.gelu_erf(),
        Activation::Silu => x.silu(),
    }
}

fn joined(inputs: &[Tensor]) -> Result<Tensor> {
    match inputs {
        [one] => Ok(one.clone()),
        several => Tensor::cat(several, 1),
    }
}
