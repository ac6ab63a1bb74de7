//! AdamW (Loshchilov and Hutter, 2019).

use candle_core::{Result, Tensor, Var, backprop::GradStore};

const BETA_1: f64 = 0.9;
const BETA_2: f64 = 0.999;
const EPS: f64 = 1e-8;

/// Running means of the gradients and of their squares, one each a weight.
pub(super) struct Adam {
    first: Vec<Tensor>,
    second: Vec<Tensor>,
    steps: i32,
}

/// The means of gradients and of their squares, flat, and the steps taken.
type State = (Vec<Vec<f32>>, Vec<Vec<f32>>, i32);

impl Adam {
    pub(super) fn new(weights: &[Var]) -> Result<Self> {
        let zeros = || {
            weights
                .iter()
                .map(|weight| weight.zeros_like())
                .collect::<Result<Vec<_>>>()
        };
        Ok(Self {
            first: zeros()?,
            second: zeros()?,
            steps: 0,
        })
    }

    /// Moves the weights against their gradients. Matrices decay, norms and biases do not.
    pub(super) fn step(&mut self, weights: &[Var], gradients: &GradStore, rate: f64, decay: f64) -> Result<()> {
        self.steps += 1;
        let (unbias_1, unbias_2) = (1.0 - BETA_1.powi(self.steps), 1.0 - BETA_2.powi(self.steps));
        for (index, weight) in weights.iter().enumerate() {
            let Some(gradient) = gradients.get(weight) else {
                continue;
            };
            self.first[index] = ((&self.first[index] * BETA_1)? + (gradient * (1.0 - BETA_1))?)?.detach();
            self.second[index] = ((&self.second[index] * BETA_2)? + (gradient.sqr()? * (1.0 - BETA_2))?)?.detach();
            let spread = ((&self.second[index] / unbias_2)?.sqrt()? + EPS)?;
            let step = ((&self.first[index] / unbias_1)? / spread)?;
            let kept = if weight.rank() == 2 { 1.0 - rate * decay } else { 1.0 };
            weight.set(&((weight.as_tensor() * kept)? - (step * rate)?)?.detach())?;
        }
        Ok(())
    }

    /// How many steps were taken.
    pub(super) fn steps(&self) -> i32 {
        self.steps
    }

    /// Both means as flat values, and the steps taken.
    pub(super) fn state(&self) -> Result<State> {
        let flat = |tensors: &[Tensor]| {
            tensors
                .iter()
                .map(|it| it.flatten_all()?.to_vec1())
                .collect::<Result<Vec<_>>>()
        };
        Ok((flat(&self.first)?, flat(&self.second)?, self.steps))
    }

    /// Goes on from what [`Adam::state`] gave.
    pub(super) fn restore(&mut self, first: &[Vec<f32>], second: &[Vec<f32>], steps: i32) -> Result<()> {
        let shaped = |tensors: &mut [Tensor], values: &[Vec<f32>]| -> Result<()> {
            for (tensor, values) in tensors.iter_mut().zip(values) {
                *tensor = Tensor::from_slice(values, tensor.shape(), tensor.device())?;
            }
            Ok(())
        };
        shaped(&mut self.first, first)?;
        shaped(&mut self.second, second)?;
        self.steps = steps;
        Ok(())
    }
}
