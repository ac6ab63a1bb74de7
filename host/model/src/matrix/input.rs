//! Rows of activations, as a product reads them.

use pulp::{Arch, Simd, WithSimd};

use crate::cpu::{ActivationBlock, BLOCK, Pool};

/// Rows of activations. Which of the two forms is read depends on the matrix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a> {
    /// [rows, k].
    pub(crate) values: &'a [f32],
    /// The same quantised, [rows, blocks of k]; empty if no quantised matrix reads them.
    pub(crate) blocks: &'a [ActivationBlock],
}

impl<'a> Input<'a> {
    pub(super) fn rows(&self, k: usize) -> usize {
        self.values.len() / k
    }

    /// `rows` rows from `first`.
    pub(super) fn part(&self, first: usize, rows: usize, k: usize) -> Input<'a> {
        let blocks = k.div_ceil(BLOCK);
        Input {
            values: &self.values[first * k..(first + rows) * k],
            blocks: match self.blocks.is_empty() {
                true => &[],
                false => &self.blocks[first * blocks..(first + rows) * blocks],
            },
        }
    }
}

/// Quantises rows [rows, k]: each block by its largest magnitude, rounding half to even. The end of a row is filled up
/// with zeros, which add nothing.
pub(crate) fn quantise<S: Send>(
    pool: &mut Pool,
    values: &[f32],
    k: usize,
    scratch: &mut [S],
    out: &mut Vec<ActivationBlock>,
) {
    let blocks = k.div_ceil(BLOCK);
    out.resize(values.len() / k * blocks, ActivationBlock::default());
    pool.chunks(out, blocks, k, scratch, |row, _, out| {
        Arch::new().dispatch(Quantise {
            values: &values[row * k..(row + 1) * k],
            out,
        });
    });
}

struct Quantise<'a> {
    values: &'a [f32],
    out: &'a mut [ActivationBlock],
}

impl WithSimd for Quantise<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let (whole, rest) = self.values.as_chunks::<BLOCK>();
        for (values, out) in whole.iter().zip(&mut *self.out) {
            block(values, out);
        }
        if let (false, Some(out)) = (rest.is_empty(), self.out.last_mut()) {
            let mut values = [0.0; BLOCK];
            values[..rest.len()].copy_from_slice(rest);
            block(&values, out);
        }
    }
}

#[inline(always)]
fn block(values: &[f32; BLOCK], out: &mut ActivationBlock) {
    // Eight maxima side by side: a single one would be a chain of 32 dependent steps.
    let mut largest = [0.0f32; 8];
    let mut finite = true;
    for eight in values.as_chunks::<8>().0 {
        for (largest, value) in largest.iter_mut().zip(eight) {
            *largest = if value.abs() > *largest { value.abs() } else { *largest };
            finite &= value.is_finite();
        }
    }
    let largest = largest.iter().fold(0.0f32, |max, value| max.max(*value));
    if !finite {
        // What is no number must stay visible in every product of its row.
        *out = ActivationBlock {
            scale: f32::NAN,
            sum: f32::NAN,
            ..ActivationBlock::default()
        };
        return;
    }
    let scale = largest / 127.0;
    let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
    let mut sum = 0;
    for (q, value) in out.q.iter_mut().zip(values) {
        // Within ±127 but for rounding and scales whose inverse overflows.
        let rounded = (value * inverse).round_ties_even().clamp(-127.0, 127.0) as i32;
        *q = rounded as i8;
        sum += rounded;
    }
    out.scale = scale;
    out.integer_sum = sum;
    out.sum = scale * sum as f32;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantised(values: &[f32], k: usize) -> Vec<ActivationBlock> {
        let mut out = Vec::new();
        quantise(&mut Pool::new(1).unwrap(), values, k, &mut [()], &mut out);
        out
    }

    #[test]
    fn a_block_is_within_half_a_step_of_its_values() {
        let values: Vec<f32> = (0..90).map(|i| ((i * 37 % 91) as f32 - 45.0) * 0.173).collect();
        let blocks = quantised(&values, 45);
        assert_eq!(blocks.len(), 4);
        for (row, blocks) in values.chunks(45).zip(blocks.chunks(2)) {
            for (values, block) in row.chunks(BLOCK).zip(blocks) {
                for (i, q) in block.q.iter().enumerate() {
                    let value = values.get(i).copied().unwrap_or(0.0);
                    assert!((f32::from(*q) * block.scale - value).abs() <= block.scale * 0.5001);
                }
                assert_eq!(block.integer_sum, block.q.iter().map(|q| i32::from(*q)).sum::<i32>());
                assert_eq!(block.sum, block.scale * block.integer_sum as f32);
            }
        }
    }

    #[test]
    fn zeros_stay_zeros_and_what_is_no_number_stays_none() {
        assert_eq!(quantised(&[0.0; 32], 32)[0], ActivationBlock::default());
        for bad in [f32::NAN, f32::INFINITY] {
            let mut values = [1.0; 64];
            values[40] = bad;
            let blocks = quantised(&values, 64);
            assert!(blocks[0].scale.is_finite() && blocks[1].scale.is_nan());
        }
    }
}
