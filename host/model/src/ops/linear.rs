//! Linear layers without bias: `y = x w^T`, with `w` as Hugging Face stores it, one row an output.

use candle_core::{CpuStorage, CustomOp2, InplaceOp3, Layout, Result, Shape, Tensor, bail};
use pulp::{Arch, Simd, WithSimd};

use super::{elements, elements_mut, simd};

/// Rows of `x` that pass a block of weights together, so that they stay in the second cache.
const ROWS_MAX: usize = 64;

/// `x w^T`: [rows, k] and [n, k] give [rows, n].
pub(crate) fn linear(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    x.apply_op2_no_bwd(w, &Linear)
}

/// `y += x w^T` in place: y is [rows, n], x [rows, k], w [n, k].
pub(crate) fn linear_add(y: &Tensor, x: &Tensor, w: &Tensor) -> Result<()> {
    y.inplace_op3(x, w, &Linear)
}

struct Linear;

struct Kernel<'a> {
    x: &'a [f32],
    w: &'a [f32],
    k: usize,
    y: &'a mut [f32],
    add: bool,
}

impl Kernel<'_> {
    fn run(self) {
        Arch::new().dispatch(self);
    }
}

impl WithSimd for Kernel<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let n = self.w.len() / self.k;
        for (x, y) in self.x.chunks(ROWS_MAX * self.k).zip(self.y.chunks_mut(ROWS_MAX * n)) {
            simd::dots(simd, x, self.w, self.k, y, n, self.add);
        }
    }
}

/// (rows, n, k) of a product.
fn sizes(x: &Layout, w: &Layout) -> Result<(usize, usize, usize)> {
    let ((rows, k), (n, width)) = (x.shape().dims2()?, w.shape().dims2()?);
    if k != width {
        bail!("linear: x has {k} columns, w has {width}");
    }
    Ok((rows, n, k))
}

impl CustomOp2 for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn cpu_fwd(&self, x: &CpuStorage, lx: &Layout, w: &CpuStorage, lw: &Layout) -> Result<(CpuStorage, Shape)> {
        let (rows, n, k) = sizes(lx, lw)?;
        let mut y = vec![0.0; rows * n];
        Kernel {
            x: elements(x, lx)?,
            w: elements(w, lw)?,
            k,
            y: &mut y,
            add: false,
        }
        .run();
        Ok((CpuStorage::F32(y), (rows, n).into()))
    }
}

impl InplaceOp3 for Linear {
    fn name(&self) -> &'static str {
        "linear_add"
    }

    fn cpu_fwd(
        &self,
        y: &mut CpuStorage,
        ly: &Layout,
        x: &CpuStorage,
        lx: &Layout,
        w: &CpuStorage,
        lw: &Layout,
    ) -> Result<()> {
        let (rows, n, k) = sizes(lx, lw)?;
        if ly.shape().dims2()? != (rows, n) {
            bail!("linear_add: y is {:?}, expected [{rows}, {n}]", ly.shape());
        }
        Kernel {
            x: elements(x, lx)?,
            w: elements(w, lw)?,
            k,
            y: elements_mut(y, ly)?,
            add: true,
        }
        .run();
        Ok(())
    }
}
