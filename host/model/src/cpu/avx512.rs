//! Products of quantised numbers with the dot products of AVX-512 VNNI, on vectors of 256 bits.
//!
//! Up to four rows of activations pass a panel together, so that a vector of weights is loaded and taken apart once for
//! all of them.
// One index walks several arrays of registers and the rows of `x`.
#![allow(clippy::needless_range_loop)]

use std::arch::x86_64::*;

use super::tile::{ActivationBlock, PANEL, Q4_BLOCK_BYTES, Q8_BLOCK_BYTES};

/// # Safety
/// The processor has the instructions; `panel` holds whole blocks and `x` as many for each row of `out`.
#[target_feature(enable = "avx2,fma,f16c,avx512vnni,avx512vl")]
pub(super) unsafe fn q8(panel: &[u8], x: &[ActivationBlock], out: &mut [[f32; PANEL]]) {
    let blocks = panel.len() / Q8_BLOCK_BYTES;
    let mut x = x.as_ptr();
    let mut fours = out.chunks_exact_mut(4);
    for out in &mut fours {
        // SAFETY: four rows of blocks are left at `x`, which is then moved behind them.
        x = unsafe {
            q8_rows::<4>(panel, x, out);
            x.add(4 * blocks)
        };
    }
    let out = fours.into_remainder();
    // SAFETY: as many rows of blocks are left at `x` as `out` has.
    unsafe {
        match out.len() {
            1 => q8_rows::<1>(panel, x, out),
            2 => q8_rows::<2>(panel, x, out),
            3 => q8_rows::<3>(panel, x, out),
            _ => {}
        }
    }
}

/// # Safety
/// As [`q8`].
#[target_feature(enable = "avx2,fma,f16c,avx512vnni,avx512vl")]
pub(super) unsafe fn q4(panel: &[u8], x: &[ActivationBlock], out: &mut [[f32; PANEL]]) {
    let blocks = panel.len() / Q4_BLOCK_BYTES;
    let mut x = x.as_ptr();
    let mut fours = out.chunks_exact_mut(4);
    for out in &mut fours {
        // SAFETY: four rows of blocks are left at `x`, which is then moved behind them.
        x = unsafe {
            q4_rows::<4>(panel, x, out);
            x.add(4 * blocks)
        };
    }
    let out = fours.into_remainder();
    // SAFETY: as many rows of blocks are left at `x` as `out` has.
    unsafe {
        match out.len() {
            1 => q4_rows::<1>(panel, x, out),
            2 => q4_rows::<2>(panel, x, out),
            3 => q4_rows::<3>(panel, x, out),
            _ => {}
        }
    }
}

/// # Safety
/// `x` points to R rows of as many blocks as the panel has.
#[target_feature(enable = "avx2,fma,f16c,avx512vnni,avx512vl")]
#[inline]
unsafe fn q8_rows<const R: usize>(panel: &[u8], x: *const ActivationBlock, out: &mut [[f32; PANEL]]) {
    let blocks = panel.len() / Q8_BLOCK_BYTES;
    let mut sums = [_mm256_setzero_ps(); R];
    for (b, block) in panel.chunks_exact(Q8_BLOCK_BYTES).enumerate() {
        let w = block.as_ptr();
        // SAFETY: all reads are within the block and within block b of each of the R rows.
        unsafe {
            let mut integers = [_mm256_setzero_si256(); R];
            for j in 0..8 {
                let w = _mm256_loadu_si256(w.add(32 * j).cast());
                // The instruction multiplies unsigned by signed numbers: 128 more in every weight, taken off below.
                let w = _mm256_xor_si256(w, _mm256_set1_epi8(-128));
                for r in 0..R {
                    let x = (*x.add(r * blocks + b)).q.as_ptr().add(4 * j);
                    let x = _mm256_set1_epi32(x.cast::<i32>().read_unaligned());
                    integers[r] = _mm256_dpbusd_epi32(integers[r], w, x);
                }
            }
            let scales = _mm256_cvtph_ps(_mm_loadu_si128(w.add(Q8_BLOCK_BYTES - 2 * PANEL).cast()));
            for r in 0..R {
                let x = &*x.add(r * blocks + b);
                let integer = _mm256_sub_epi32(integers[r], _mm256_set1_epi32(128 * x.integer_sum));
                let scale = _mm256_mul_ps(scales, _mm256_set1_ps(x.scale));
                sums[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(integer), scale, sums[r]);
            }
        }
    }
    for (out, sums) in out.iter_mut().zip(sums) {
        // SAFETY: a row of `out` is as wide as the vector.
        unsafe { _mm256_storeu_ps(out.as_mut_ptr(), sums) };
    }
}

/// # Safety
/// `x` points to R rows of as many blocks as the panel has.
#[target_feature(enable = "avx2,fma,f16c,avx512vnni,avx512vl")]
#[inline]
unsafe fn q4_rows<const R: usize>(panel: &[u8], x: *const ActivationBlock, out: &mut [[f32; PANEL]]) {
    let blocks = panel.len() / Q4_BLOCK_BYTES;
    let below = _mm256_set1_epi8(15);
    let mut sums = [_mm256_setzero_ps(); R];
    for (b, block) in panel.chunks_exact(Q4_BLOCK_BYTES).enumerate() {
        let w = block.as_ptr();
        // SAFETY: all reads are within the block and within block b of each of the R rows.
        unsafe {
            let mut integers = [_mm256_setzero_si256(); R];
            for j in 0..4 {
                let both = _mm256_loadu_si256(w.add(32 * j).cast());
                let low = _mm256_and_si256(both, below);
                let high = _mm256_and_si256(_mm256_srli_epi16::<4>(both), below);
                for r in 0..R {
                    let x = (*x.add(r * blocks + b)).q.as_ptr().add(4 * j);
                    let (first, second) = (
                        x.cast::<i32>().read_unaligned(),
                        x.add(16).cast::<i32>().read_unaligned(),
                    );
                    integers[r] = _mm256_dpbusd_epi32(integers[r], low, _mm256_set1_epi32(first));
                    integers[r] = _mm256_dpbusd_epi32(integers[r], high, _mm256_set1_epi32(second));
                }
            }
            let scales = _mm256_cvtph_ps(_mm_loadu_si128(w.add(Q4_BLOCK_BYTES - 4 * PANEL).cast()));
            let offsets = _mm256_cvtph_ps(_mm_loadu_si128(w.add(Q4_BLOCK_BYTES - 2 * PANEL).cast()));
            for r in 0..R {
                let x = &*x.add(r * blocks + b);
                let integer = integers[r];
                let scale = _mm256_mul_ps(scales, _mm256_set1_ps(x.scale));
                sums[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(integer), scale, sums[r]);
                sums[r] = _mm256_fmadd_ps(offsets, _mm256_set1_ps(x.sum), sums[r]);
            }
        }
    }
    for (out, sums) in out.iter_mut().zip(sums) {
        // SAFETY: a row of `out` is as wide as the vector.
        unsafe { _mm256_storeu_ps(out.as_mut_ptr(), sums) };
    }
}
