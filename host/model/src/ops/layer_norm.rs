//! Layer norm (Ba, Kiros and Hinton, 2016), for heads.

use candle_core::{CpuStorage, CustomOp3, Layout, Result, Shape, Tensor, bail};

use super::elements;

/// `(x - mean(x)) / sqrt(var(x) + eps) * weight + bias` for every row, var without Bessel's correction: [rows, n], [n] and
/// [n] give [rows, n].
pub(crate) fn layer_norm(x: &Tensor, weight: &Tensor, bias: &Tensor, eps: f64) -> Result<Tensor> {
    x.apply_op3_no_bwd(weight, bias, &LayerNorm { eps })
}

struct LayerNorm {
    eps: f64,
}

impl CustomOp3 for LayerNorm {
    fn name(&self) -> &'static str {
        "layer_norm"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        lx: &Layout,
        w: &CpuStorage,
        lw: &Layout,
        b: &CpuStorage,
        lb: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (_, width) = lx.shape().dims2()?;
        if lw.shape().dims1()? != width || lb.shape().dims1()? != width {
            bail!(
                "layer_norm: x has {width} columns, the weight has {:?}, the bias {:?}",
                lw.shape(),
                lb.shape()
            );
        }
        let (weight, bias) = (elements(w, lw)?, elements(b, lb)?);
        let mut rows = elements(x, lx)?.to_vec();
        for row in rows.chunks_exact_mut(width.max(1)) {
            // Sums in f64: a row whose elements nearly agree loses no digits in the difference from their mean.
            let mean = row.iter().map(|value| f64::from(*value)).sum::<f64>() / width as f64;
            let squares: f64 = row.iter().map(|value| (f64::from(*value) - mean).powi(2)).sum();
            let scale = 1.0 / (squares / width as f64 + self.eps).sqrt();
            for ((value, weight), bias) in row.iter_mut().zip(weight).zip(bias) {
                *value = ((f64::from(*value) - mean) * scale) as f32 * weight + bias;
            }
        }
        Ok((CpuStorage::F32(rows), lx.shape().clone()))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    /// (1, 3) and (1001, 1003) are the same row after the norm: mean removed, deviation 1.
    #[test]
    fn a_row_loses_its_mean_and_its_scale() {
        let x = Tensor::from_vec(vec![1f32, 3.0, 1001.0, 1003.0], (2, 2), &Device::Cpu).unwrap();
        let weight = Tensor::from_vec(vec![1f32, 10.0], 2, &Device::Cpu).unwrap();
        let bias = Tensor::from_vec(vec![0f32, 5.0], 2, &Device::Cpu).unwrap();
        let rows = layer_norm(&x, &weight, &bias, 0.0).unwrap().to_vec2::<f32>().unwrap();
        assert_eq!(rows, [[-1.0, 15.0], [-1.0, 15.0]]);
        assert!(layer_norm(&x, &x, &bias, 0.0).is_err());
    }
}
