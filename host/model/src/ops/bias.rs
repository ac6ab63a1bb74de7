//! What follows a linear layer of a head: its bias and its activation.

use candle_core::cpu::erf::erf_f32;
use candle_core::{CpuStorage, InplaceOp2, Layout, Result, Tensor, bail};
use serde::{Deserialize, Serialize};

use super::{elements, elements_mut};

/// The function between two linear layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// max(v, 0).
    Relu,
    /// v Φ(v), with the error function itself and not one of its approximations (Hendrycks and Gimpel, 2016).
    Gelu,
    /// v / (1 + e^-v).
    Silu,
}

impl Activation {
    fn of(self, v: f32) -> f32 {
        match self {
            Activation::Relu => v.max(0.0),
            Activation::Gelu => 0.5 * v * (1.0 + erf_f32(v * std::f32::consts::FRAC_1_SQRT_2)),
            Activation::Silu => v / (1.0 + (-v).exp()),
        }
    }
}

/// `y = activation(y + bias)` in place, without an activation `y += bias`: y is [rows, n], bias [n].
pub(crate) fn add_bias(y: &Tensor, bias: &Tensor, activation: Option<Activation>) -> Result<()> {
    y.inplace_op2(bias, &AddBias { activation })
}

struct AddBias {
    activation: Option<Activation>,
}

impl InplaceOp2 for AddBias {
    fn name(&self) -> &'static str {
        "add_bias"
    }

    fn cpu_fwd(&self, y: &mut CpuStorage, ly: &Layout, b: &CpuStorage, lb: &Layout) -> Result<()> {
        let (_, width) = ly.shape().dims2()?;
        if lb.shape().dims1()? != width {
            bail!("add_bias: y has {width} columns, the bias has {:?}", lb.shape());
        }
        let bias = elements(b, lb)?;
        for row in elements_mut(y, ly)?.chunks_exact_mut(width.max(1)) {
            let biased = row.iter_mut().zip(bias);
            match self.activation {
                None => biased.for_each(|(value, bias)| *value += bias),
                Some(activation) => biased.for_each(|(value, bias)| *value = activation.of(*value + bias)),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    /// Values of the functions from tables of the normal distribution: Φ(1) = 0.8413447461, Φ(-2) = 0.0227501319.
    #[test]
    fn activations_have_their_tabulated_values() {
        for (activation, v, expected) in [
            (Activation::Gelu, 1.0, 0.841_344_7),
            (Activation::Gelu, -2.0, -2.0 * 0.022_750_13),
            (Activation::Relu, -3.0, 0.0),
            (Activation::Relu, 2.5, 2.5),
            (Activation::Silu, 1.0, 0.731_058_6),
        ] {
            let y = Tensor::from_vec(vec![v - 0.5f32], (1, 1), &Device::Cpu).unwrap();
            let bias = Tensor::from_vec(vec![0.5f32], 1, &Device::Cpu).unwrap();
            add_bias(&y, &bias, Some(activation)).unwrap();
            let found = y.to_vec2::<f32>().unwrap()[0][0];
            assert!(
                (found - expected).abs() < 1e-7,
                "{activation:?}({v}) = {found}, expected {expected}"
            );
        }
    }
}
