//! Products of quantised numbers in plain Rust: what every other way must equal.

use half::f16;

use super::tile::{ActivationBlock, PANEL, Q4_BLOCK_BYTES, Q8_BLOCK_BYTES};

/// Eight f16 in a row.
fn floats(bytes: &[u8]) -> [f32; PANEL] {
    std::array::from_fn(|i| f16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]]).to_f32())
}

pub(super) fn q8(panel: &[u8], x: &[ActivationBlock], out: &mut [[f32; PANEL]]) {
    let blocks = panel.len() / Q8_BLOCK_BYTES;
    for (x, out) in x.chunks_exact(blocks).zip(out) {
        *out = [0.0; PANEL];
        for (x, block) in x.iter().zip(panel.chunks_exact(Q8_BLOCK_BYTES)) {
            let (numbers, scales) = block.split_at(Q8_BLOCK_BYTES - 2 * PANEL);
            let mut integers = [0i32; PANEL];
            for (x, four) in x.q.as_chunks::<4>().0.iter().zip(numbers.chunks_exact(4 * PANEL)) {
                for (integer, w) in integers.iter_mut().zip(four.as_chunks::<4>().0) {
                    *integer += x
                        .iter()
                        .zip(w)
                        .map(|(x, w)| i32::from(*x) * i32::from(*w as i8))
                        .sum::<i32>();
                }
            }
            for ((out, integer), scale) in out.iter_mut().zip(integers).zip(floats(scales)) {
                *out = (integer as f32).mul_add(scale * x.scale, *out);
            }
        }
    }
}

pub(super) fn q4(panel: &[u8], x: &[ActivationBlock], out: &mut [[f32; PANEL]]) {
    let blocks = panel.len() / Q4_BLOCK_BYTES;
    for (x, out) in x.chunks_exact(blocks).zip(out) {
        *out = [0.0; PANEL];
        for (x, block) in x.iter().zip(panel.chunks_exact(Q4_BLOCK_BYTES)) {
            let (numbers, rest) = block.split_at(Q4_BLOCK_BYTES - 4 * PANEL);
            let (scales, offsets) = rest.split_at(2 * PANEL);
            let mut integers = [0i32; PANEL];
            let (low, high) = x.q.split_at(16);
            let (low, high) = (low.as_chunks::<4>().0, high.as_chunks::<4>().0);
            for ((low, high), four) in low.iter().zip(high).zip(numbers.chunks_exact(4 * PANEL)) {
                for (integer, w) in integers.iter_mut().zip(four.as_chunks::<4>().0) {
                    for ((low, high), w) in low.iter().zip(high).zip(w) {
                        *integer += i32::from(*low) * i32::from(w & 15) + i32::from(*high) * i32::from(w >> 4);
                    }
                }
            }
            let (scales, offsets) = (floats(scales), floats(offsets));
            for p in 0..PANEL {
                out[p] = (integers[p] as f32).mul_add(scales[p] * x.scale, out[p]);
                out[p] = offsets[p].mul_add(x.sum, out[p]);
            }
        }
    }
}
