//! The two reductions of a decoder, vectorised, each with one order per output element.
//!
//! A dot product keeps one vector of partial sums, adds the products of the next vector of elements to it until none are
//! left (the last vector filled up with zeros), and then sums its lanes. Several dot products are computed side by
//! side so that an element loaded once serves many, which leaves the order of each as it is. A weighted sum keeps one
//! partial sum per output element and adds the terms in their order.

use pulp::Simd;

/// Rows of `w` that are taken together: small enough to stay in the nearest cache while all rows of `x` pass.
const BLOCK: usize = 8;

/// `out[r * stride + c] = dot(x[r], w[c])` for all rows of `x` and `w`, which have `k` elements each; with `add`, added
/// to what `out` holds.
#[inline(always)]
pub(crate) fn dots<S: Simd>(simd: S, x: &[f32], w: &[f32], k: usize, out: &mut [f32], stride: usize, add: bool) {
    let (rows, columns) = (x.len() / k, w.len() / k);
    let mut to = Out { out, stride, add };
    let mut c = 0;
    while c + BLOCK <= columns {
        let w = &w[c * k..(c + BLOCK) * k];
        let mut r = 0;
        while r + 3 <= rows {
            dots_of::<S, 3, 4>(simd, &x[r * k..], w, k, &mut to, r, c);
            r += 3;
        }
        match rows - r {
            2 => dots_of::<S, 2, 4>(simd, &x[r * k..], w, k, &mut to, r, c),
            1 => dots_of::<S, 1, 8>(simd, &x[r * k..], w, k, &mut to, r, c),
            _ => {}
        }
        c += BLOCK;
    }
    for r in 0..rows {
        dots_of::<S, 1, 1>(simd, &x[r * k..], &w[c * k..], k, &mut to, r, c);
    }
}

/// `dot(x, y)`, in the order of [`dots`].
#[inline(always)]
pub(crate) fn dot<S: Simd>(simd: S, x: &[f32], y: &[f32]) -> f32 {
    tile::<S, 1, 1>(simd, [x], [y])[0][0]
}

struct Out<'a> {
    out: &'a mut [f32],
    stride: usize,
    add: bool,
}

/// The products of the first `R` rows of `x` with all rows of `w`, `C` rows of `w` at a time.
#[inline(always)]
#[allow(clippy::too_many_arguments)] // A kernel's operands; a struct would only be taken apart again.
fn dots_of<S: Simd, const R: usize, const C: usize>(
    simd: S,
    x: &[f32],
    w: &[f32],
    k: usize,
    to: &mut Out<'_>,
    row: usize,
    column: usize,
) {
    let mut xs = [x; R];
    for (r, slice) in xs.iter_mut().enumerate() {
        *slice = &x[r * k..(r + 1) * k];
    }
    for (i, w) in w.chunks_exact(C * k).enumerate() {
        let mut ws = [w; C];
        for (c, slice) in ws.iter_mut().enumerate() {
            *slice = &w[c * k..(c + 1) * k];
        }
        let sums = tile::<S, R, C>(simd, xs, ws);
        for (r, sums) in sums.iter().enumerate() {
            let start = (row + r) * to.stride + column + i * C;
            let out = &mut to.out[start..start + C];
            for (out, sum) in out.iter_mut().zip(sums) {
                *out = if to.add { *out + sum } else { *sum };
            }
        }
    }
}

#[inline(always)]
fn tile<S: Simd, const R: usize, const C: usize>(simd: S, x: [&[f32]; R], w: [&[f32]; C]) -> [[f32; C]; R] {
    let k = x[0].len();
    let whole = k / S::F32_LANES;
    let mut xs: [&[S::f32s]; R] = [&[]; R];
    let mut ws: [&[S::f32s]; C] = [&[]; C];
    for (r, x) in x.iter().enumerate() {
        xs[r] = &S::as_simd_f32s(x).0[..whole];
    }
    for (c, w) in w.iter().enumerate() {
        ws[c] = &S::as_simd_f32s(w).0[..whole];
    }
    let mut sums = [[simd.splat_f32s(0.0); C]; R];
    for i in 0..whole {
        for c in 0..C {
            let w = ws[c][i];
            for r in 0..R {
                sums[r][c] = simd.mul_add_e_f32s(xs[r][i], w, sums[r][c]);
            }
        }
    }
    let rest = whole * S::F32_LANES;
    if rest < k {
        for c in 0..C {
            let w = simd.partial_load_f32s(&w[c][rest..]);
            for r in 0..R {
                sums[r][c] = simd.mul_add_e_f32s(simd.partial_load_f32s(&x[r][rest..]), w, sums[r][c]);
            }
        }
    }
    let mut out = [[0.0; C]; R];
    for r in 0..R {
        for c in 0..C {
            out[r][c] = simd.reduce_sum_f32s(sums[r][c]);
        }
    }
    out
}

/// `out += sum over i of weights[i] * rows[i]`, where `rows` has `weights.len()` rows as long as `out`, in the order of
/// the rows.
#[inline(always)]
pub(crate) fn add_weighted<S: Simd>(simd: S, weights: &[f32], rows: &[f32], out: &mut [f32]) {
    let width = out.len();
    let (vectors, rest) = S::as_mut_simd_f32s(out);
    let mut at = 0;
    let mut fours = vectors.chunks_exact_mut(4);
    for four in &mut fours {
        add_weighted_vectors::<S, 4>(simd, weights, rows, width, at, four);
        at += 4 * S::F32_LANES;
    }
    for one in fours.into_remainder().chunks_exact_mut(1) {
        add_weighted_vectors::<S, 1>(simd, weights, rows, width, at, one);
        at += S::F32_LANES;
    }
    if !rest.is_empty() {
        let mut sum = simd.partial_load_f32s(rest);
        for (weight, row) in weights.iter().zip(rows.chunks_exact(width)) {
            sum = simd.mul_add_e_f32s(simd.splat_f32s(*weight), simd.partial_load_f32s(&row[at..]), sum);
        }
        simd.partial_store_f32s(rest, sum);
    }
}

#[inline(always)]
fn add_weighted_vectors<S: Simd, const N: usize>(
    simd: S,
    weights: &[f32],
    rows: &[f32],
    width: usize,
    at: usize,
    out: &mut [S::f32s],
) {
    let mut sums = [simd.splat_f32s(0.0); N];
    sums.copy_from_slice(out);
    for (weight, row) in weights.iter().zip(rows.chunks_exact(width)) {
        let weight = simd.splat_f32s(*weight);
        let vectors = S::as_simd_f32s(&row[at..at + N * S::F32_LANES]).0;
        for (sum, vector) in sums.iter_mut().zip(vectors) {
            *sum = simd.mul_add_e_f32s(weight, *vector, *sum);
        }
    }
    out.copy_from_slice(&sums);
}

#[cfg(test)]
mod tests {
    use pulp::{Arch, WithSimd};
    use tokenrouter_core::draw::{Purpose, uniform_f32};

    use super::*;

    struct Dots<'a>(&'a [f32], &'a [f32], usize, &'a mut [f32]);

    impl WithSimd for Dots<'_> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            let stride = self.1.len() / self.2;
            dots(simd, self.0, self.1, self.2, self.3, stride, false);
        }
    }

    struct AddWeighted<'a>(&'a [f32], &'a [f32], &'a mut [f32]);

    impl WithSimd for AddWeighted<'_> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            add_weighted(simd, self.0, self.1, self.2);
        }
    }

    fn numbers(seed: u64, len: usize) -> Vec<f32> {
        (0..len as u64)
            .map(|i| uniform_f32(seed, i, Purpose::Policy(0)) - 0.5)
            .collect()
    }

    /// Against f64, for sizes around the widths of vectors and blocks; and each row alone gives the same bits.
    #[test]
    fn dots_are_right_and_do_not_depend_on_the_rows_beside_them() {
        for (rows, columns, k) in [
            (1, 1, 1),
            (1, 9, 7),
            (2, 8, 16),
            (3, 17, 33),
            (4, 16, 8),
            (7, 24, 129),
            (9, 5, 64),
        ] {
            let (x, w) = (numbers(1, rows * k), numbers(2, columns * k));
            let mut all = vec![f32::NAN; rows * columns];
            Arch::new().dispatch(Dots(&x, &w, k, &mut all));
            for r in 0..rows {
                let x = &x[r * k..(r + 1) * k];
                let mut alone = vec![f32::NAN; columns];
                Arch::new().dispatch(Dots(x, &w, k, &mut alone));
                assert_eq!(
                    alone,
                    all[r * columns..(r + 1) * columns],
                    "{rows} x {columns} x {k}, row {r}"
                );
                for (c, value) in alone.iter().enumerate() {
                    let exact: f64 = x
                        .iter()
                        .zip(&w[c * k..])
                        .map(|(x, w)| f64::from(*x) * f64::from(*w))
                        .sum();
                    assert!((f64::from(*value) - exact).abs() < 1e-5, "{value} {exact}");
                }
            }
        }
    }

    #[test]
    fn weighted_sums_are_right_for_any_width() {
        for (terms, width) in [(1, 1), (3, 7), (16, 8), (5, 32), (16, 45), (2, 129)] {
            let (weights, rows) = (numbers(3, terms), numbers(4, terms * width));
            let mut out = vec![1.0; width];
            Arch::new().dispatch(AddWeighted(&weights, &rows, &mut out));
            for (d, value) in out.iter().enumerate() {
                let exact: f64 = (0..terms)
                    .map(|i| f64::from(weights[i]) * f64::from(rows[i * width + d]))
                    .sum();
                assert!(
                    (f64::from(*value) - 1.0 - exact).abs() < 1e-5,
                    "{terms} x {width}: {value} {exact}"
                );
            }
        }
    }
}
