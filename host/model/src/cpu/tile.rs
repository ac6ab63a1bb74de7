//! Products of quantised rows with a panel of quantised weights: layout, choice of instructions, and checks.
//!
//! A panel is [`PANEL`] rows of a weight matrix, in blocks of [`BLOCK`] columns. In a block the columns go in fours: four
//! columns of the first row, the same four of the second, and so on, so that one vector holds four columns of all rows and
//! meets four activations that are repeated in all lanes. Behind the numbers stand the rows' scales (f16), for 4-bit
//! weights also their offsets.
//!
//! | kind | value | bytes of a block |
//! |---|---|---|
//! | 8 bits | `scale * q`, q in -127..=127 | 256 of q, 16 of scales |
//! | 4 bits | `scale * q + offset`, q in 0..=15 | 128 of q, 16 of scales, 16 of offsets |
//!
//! A byte of the 4-bit kind holds a column of the block's first half below and the one 16 columns on above.
//!
//! Activations are quantised in the same blocks, to 8 bits. The product of a block is an integer; then, block after
//! block, `sum = fma(integer, weight scale * activation scale, sum)`, and for 4-bit weights
//! `sum = fma(offset, activation sum, sum)`. That order depends on nothing but the width of the matrix.

use std::sync::OnceLock;

use super::plain;

/// Rows of weights in a panel.
pub(crate) const PANEL: usize = 8;
/// Columns of a block.
pub(crate) const BLOCK: usize = 32;
/// Bytes of one block of a panel, 8-bit weights.
pub(crate) const Q8_BLOCK_BYTES: usize = PANEL * BLOCK + 2 * PANEL;
/// Bytes of one block of a panel, 4-bit weights.
pub(crate) const Q4_BLOCK_BYTES: usize = PANEL * BLOCK / 2 + 4 * PANEL;

/// One block of a row of activations: `values[i] = scale * q[i]`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub(crate) struct ActivationBlock {
    /// -127 to 127.
    pub(crate) q: [i8; BLOCK],
    pub(crate) scale: f32,
    /// Of `q`.
    pub(crate) integer_sum: i32,
    /// `scale * integer_sum`.
    pub(crate) sum: f32,
}

/// Instructions that products are computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instructions {
    /// No more than every processor has.
    Plain,
    /// AVX2, FMA and F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 VNNI on vectors of 256 bits, beside those of [`Instructions::Avx2`].
    #[cfg(target_arch = "x86_64")]
    Vnni,
}

impl Instructions {
    /// All that this processor has, the fastest last.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn available() -> Vec<Self> {
        let mut all = vec![Self::Plain];
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c") {
            all.push(Self::Avx2);
            if is_x86_feature_detected!("avx512vnni") && is_x86_feature_detected!("avx512vl") {
                all.push(Self::Vnni);
            }
        }
        all
    }

    /// All that this processor has, the fastest last.
    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn available() -> Vec<Self> {
        vec![Self::Plain]
    }

    /// The fastest that this processor has, of those that compute what plain Rust does. They all should, but a processor
    /// that nobody has tried, or one that is emulated, is no reason for wrong answers.
    pub(crate) fn best() -> Self {
        static BEST: OnceLock<Instructions> = OnceLock::new();
        *BEST.get_or_init(|| {
            let mut fastest_first = Self::available().into_iter().rev();
            fastest_first.find(|with| with.agrees()).unwrap_or(Self::Plain)
        })
    }

    /// Whether both kinds of products of a few rows have the bits of plain Rust.
    fn agrees(self) -> bool {
        // More rows than any way takes at once, and some over.
        const ROWS: usize = 11;
        const BLOCKS: usize = 2;
        let number = |i: usize| (i * 89 % 255) as u8;
        let x: Vec<ActivationBlock> = (0..ROWS * BLOCKS)
            .map(|block| {
                let q: [i8; BLOCK] = std::array::from_fn(|i| (number(block * BLOCK + i) as i8).max(-127));
                let (scale, integer_sum) = (0.5 + block as f32, q.iter().map(|q| i32::from(*q)).sum());
                let sum = scale * integer_sum as f32;
                ActivationBlock {
                    q,
                    scale,
                    integer_sum,
                    sum,
                }
            })
            .collect();
        [
            (q8_tile as Tile, Q8_BLOCK_BYTES, 16),
            (q4_tile as Tile, Q4_BLOCK_BYTES, 32),
        ]
        .into_iter()
        .all(|(tile, block_bytes, float_bytes)| {
            let panel: Vec<u8> = (0..BLOCKS * block_bytes)
                .map(|i| match (i % block_bytes + float_bytes >= block_bytes, number(i)) {
                    // The upper byte of a small positive float.
                    (true, _) if i % 2 == 1 => 0x2c,
                    (false, 0x80) => 0x7f,
                    (_, byte) => byte,
                })
                .collect();
            let [found, expected] = [self, Self::Plain].map(|with| {
                let mut out = [[f32::NAN; PANEL]; ROWS];
                tile(with, &panel, &x, &mut out);
                out
            });
            found == expected
        })
    }
}

/// [`q8_tile`] or [`q4_tile`].
type Tile = fn(Instructions, &[u8], &[ActivationBlock], &mut [[f32; PANEL]]);

/// Products of rows of activations with a panel of 8-bit weights: `out[r][p]` is row r times row p of the panel.
/// `x` is [rows, blocks].
///
/// # Panics
/// When the lengths contradict each other.
pub(crate) fn q8_tile(with: Instructions, panel: &[u8], x: &[ActivationBlock], out: &mut [[f32; PANEL]]) {
    check(panel, Q8_BLOCK_BYTES, x, out);
    match with {
        Instructions::Plain => plain::q8(panel, x, out),
        // SAFETY: lengths are checked above; the variant is made only where the processor has the instructions.
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 => unsafe { super::avx2::q8(panel, x, out) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Instructions::Vnni => unsafe { super::avx512::q8(panel, x, out) },
    }
}

/// The same with 4-bit weights.
///
/// # Panics
/// When the lengths contradict each other.
pub(crate) fn q4_tile(with: Instructions, panel: &[u8], x: &[ActivationBlock], out: &mut [[f32; PANEL]]) {
    check(panel, Q4_BLOCK_BYTES, x, out);
    match with {
        Instructions::Plain => plain::q4(panel, x, out),
        // SAFETY: lengths are checked above; the variant is made only where the processor has the instructions.
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 => unsafe { super::avx2::q4(panel, x, out) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Instructions::Vnni => unsafe { super::avx512::q4(panel, x, out) },
    }
}

fn check(panel: &[u8], block_bytes: usize, x: &[ActivationBlock], out: &[[f32; PANEL]]) {
    let blocks = panel.len() / block_bytes;
    assert!(
        panel.len() == blocks * block_bytes && blocks > 0,
        "a panel of {} bytes",
        panel.len()
    );
    assert_eq!(
        x.len(),
        blocks * out.len(),
        "activations of {} rows of {blocks} blocks",
        out.len()
    );
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;

    fn bytes(seed: u64, len: usize) -> Vec<u8> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        (0..len).map(|_| next()).collect()
    }

    /// Panels with any numbers that packing may write, the largest among them, and scales of both signs.
    fn panel(seed: u64, blocks: usize, block_bytes: usize, floats: usize) -> Vec<u8> {
        let mut panel = bytes(seed, blocks * block_bytes);
        for (b, block) in panel.chunks_exact_mut(block_bytes).enumerate() {
            let (numbers, scales) = block.split_at_mut(block_bytes - 2 * floats);
            if floats == PANEL {
                numbers
                    .iter_mut()
                    .filter(|byte| **byte == 0x80)
                    .for_each(|byte| *byte = 0x7f);
            }
            if b == 0 {
                numbers.fill(if floats == PANEL { 0x81 } else { 0xff });
            }
            for (i, scale) in scales.chunks_exact_mut(2).enumerate() {
                let value = f16::from_f32((i as f32 - 5.5) / 64.0 * (b + 1) as f32);
                scale.copy_from_slice(&value.to_le_bytes());
            }
        }
        panel
    }

    fn activations(seed: u64, rows: usize, blocks: usize) -> Vec<ActivationBlock> {
        let numbers = bytes(seed, rows * blocks * BLOCK);
        let blocks = numbers.as_chunks::<BLOCK>().0.iter().enumerate().map(|(i, numbers)| {
            let q = numbers.map(|byte| if i % 3 == 0 { -127 } else { (byte as i8).max(-127) });
            let integer_sum = q.iter().map(|q| i32::from(*q)).sum();
            let scale = 0.01 * (i + 1) as f32;
            ActivationBlock {
                q,
                scale,
                integer_sum,
                sum: scale * integer_sum as f32,
            }
        });
        blocks.collect()
    }

    /// Every way gives the bits of plain Rust, for any number of rows, and each row alone gives what it gives in company.
    #[test]
    fn all_instructions_give_the_same_bits_whatever_the_batch() {
        for (tile, block_bytes, floats) in [
            (q8_tile as Tile, Q8_BLOCK_BYTES, PANEL),
            (q4_tile as Tile, Q4_BLOCK_BYTES, 2 * PANEL),
        ] {
            for (rows, blocks) in [(1, 1), (2, 3), (3, 18), (4, 5), (5, 48), (9, 2), (13, 7)] {
                let seed = (rows * 100 + blocks) as u64;
                let (panel, x) = (
                    panel(seed, blocks, block_bytes, floats),
                    activations(seed + 1, rows, blocks),
                );
                let mut expected = vec![[f32::NAN; PANEL]; rows];
                tile(Instructions::Plain, &panel, &x, &mut expected);
                for with in Instructions::available() {
                    let mut found = vec![[f32::NAN; PANEL]; rows];
                    tile(with, &panel, &x, &mut found);
                    assert_eq!(found, expected, "seed {seed}, {with:?}, {rows} rows of {blocks} blocks");
                    assert!(with.agrees(), "{with:?}");
                    for (row, expected) in x.chunks_exact(blocks).zip(&expected) {
                        let mut alone = [[f32::NAN; PANEL]];
                        tile(with, &panel, row, &mut alone);
                        assert_eq!(alone[0], *expected, "seed {seed}, {with:?}");
                    }
                }
            }
        }
    }

    /// Against the definition of the layout in f64.
    #[test]
    fn plain_products_are_those_of_the_numbers_that_a_panel_holds() {
        let blocks = 3;
        let x = activations(7, 2, blocks);
        for (tile, block_bytes, floats) in [
            (q8_tile as Tile, Q8_BLOCK_BYTES, PANEL),
            (q4_tile as Tile, Q4_BLOCK_BYTES, 2 * PANEL),
        ] {
            let panel = panel(8, blocks, block_bytes, floats);
            let mut found = [[0.0; PANEL]; 2];
            tile(Instructions::Plain, &panel, &x, &mut found);
            for (r, row) in x.chunks_exact(blocks).enumerate() {
                for p in 0..PANEL {
                    let mut exact = 0.0;
                    for (block, x) in panel.chunks_exact(block_bytes).zip(row) {
                        let float = |i: usize| {
                            let start = block_bytes - 2 * floats + 2 * i;
                            f64::from(f16::from_le_bytes([block[start], block[start + 1]]))
                        };
                        for (c, q) in x.q.iter().enumerate() {
                            let w = if floats == PANEL {
                                f64::from(block[c / 4 * 32 + p * 4 + c % 4] as i8) * float(p)
                            } else {
                                let byte = block[c % 16 / 4 * 32 + p * 4 + c % 4];
                                f64::from(if c < 16 { byte & 15 } else { byte >> 4 }) * float(p) + float(PANEL + p)
                            };
                            exact += w * f64::from(*q) * f64::from(x.scale);
                        }
                    }
                    let found = f64::from(found[r][p]);
                    assert!(
                        (found - exact).abs() <= 1e-4 * exact.abs().max(1.0),
                        "{found}, expected {exact}"
                    );
                }
            }
        }
    }
}
