//! Quantised matrices: their panels, written from files and read back. The layout is that of [`crate::cpu`].
//!
//! Blocks that a file already holds in the same kind are taken as they are. Others are quantised by their largest
//! magnitude (8 bits) or their range (4 bits); scales are rounded to f16 first and the numbers are chosen for the rounded
//! scale.

use candle_core::quantized::GgmlDType;
use half::f16;

use super::fill::{Line, fill};
use crate::cpu::{BLOCK, PANEL, Q4_BLOCK_BYTES, Q8_BLOCK_BYTES};
use crate::error::ModelError;
use crate::weights::{Element, FileMatrix};

/// The order of the rows of a matrix that is made of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// One above the other.
    Joined,
    /// A panel of the first, a panel of the second, and so on; each filled up to whole panels.
    InTurn,
}

/// What each row of the whole is.
pub(super) fn lines(parts: &[FileMatrix], order: Order) -> Vec<Line> {
    let mut lines = Vec::new();
    match order {
        Order::Joined => {
            for (part, matrix) in parts.iter().enumerate() {
                lines.extend((0..matrix.rows()).map(|row| Some((part, row))));
            }
            lines.resize(lines.len().next_multiple_of(PANEL), None);
        }
        Order::InTurn => {
            let rows = parts.iter().map(FileMatrix::rows).max().unwrap_or(0);
            for first in (0..rows).step_by(PANEL) {
                for (part, matrix) in parts.iter().enumerate() {
                    lines.extend((first..first + PANEL).map(|row| (row < matrix.rows()).then_some((part, row))));
                }
            }
        }
    }
    lines
}

/// How many [`lines`] there are.
pub(super) fn padded_rows(parts: &[FileMatrix], order: Order) -> usize {
    match order {
        Order::Joined => parts
            .iter()
            .map(FileMatrix::rows)
            .sum::<usize>()
            .next_multiple_of(PANEL),
        Order::InTurn => {
            let rows = parts.iter().map(FileMatrix::rows).max().unwrap_or(0);
            rows.next_multiple_of(PANEL) * parts.len()
        }
    }
}

/// 32 numbers of a row: `scale * q + offset`.
#[derive(Clone, Copy, Default)]
struct Block {
    scale: f16,
    offset: f16,
    q: [u8; BLOCK],
}

/// Panels of 8-bit numbers.
pub(super) fn q8(parts: &[FileMatrix], order: Order) -> Result<Vec<u8>, ModelError> {
    let blocks = |part: &FileMatrix, row: usize, scratch: &mut Vec<f32>, out: &mut Vec<Block>| {
        if part.element() == Element::Blocks(GgmlDType::Q8_0) {
            out.extend(part.row_bytes(row).as_chunks::<34>().0.iter().map(stored_q8));
            // The file's own range is one wider than the kernels'.
            if out.iter().all(|block| !block.q.contains(&0x80)) {
                return Ok(());
            }
            out.clear();
        }
        part.read_row(row, scratch)?;
        out.extend(scratch.chunks(BLOCK).map(quantised_q8));
        Ok(())
    };
    pack(parts, order, Q8_BLOCK_BYTES, blocks, |block, row, to| {
        for (c, q) in block.q.iter().enumerate() {
            to[c / 4 * 4 * PANEL + 4 * row + c % 4] = *q;
        }
        to[Q8_BLOCK_BYTES - 2 * PANEL + 2 * row..][..2].copy_from_slice(&block.scale.to_le_bytes());
    })
}

/// Panels of 4-bit numbers.
pub(super) fn q4(parts: &[FileMatrix], order: Order) -> Result<Vec<u8>, ModelError> {
    let blocks = |part: &FileMatrix, row: usize, scratch: &mut Vec<f32>, out: &mut Vec<Block>| {
        match part.element() {
            Element::Blocks(GgmlDType::Q4_0) => {
                out.extend(part.row_bytes(row).as_chunks::<18>().0.iter().map(stored_q4_0));
            }
            Element::Blocks(GgmlDType::Q4_1) => {
                out.extend(part.row_bytes(row).as_chunks::<20>().0.iter().map(stored_q4_1));
            }
            _ => {
                part.read_row(row, scratch)?;
                out.extend(scratch.chunks(BLOCK).map(quantised_q4));
            }
        }
        Ok(())
    };
    pack(parts, order, Q4_BLOCK_BYTES, blocks, |block, row, to| {
        for (c, (low, high)) in block.q[..16].iter().zip(&block.q[16..]).enumerate() {
            to[c / 4 * 4 * PANEL + 4 * row + c % 4] = low | high << 4;
        }
        to[Q4_BLOCK_BYTES - 4 * PANEL + 2 * row..][..2].copy_from_slice(&block.scale.to_le_bytes());
        to[Q4_BLOCK_BYTES - 2 * PANEL + 2 * row..][..2].copy_from_slice(&block.offset.to_le_bytes());
    })
}

/// Reads every row with `read` and puts its blocks into their panel with `put`.
fn pack(
    parts: &[FileMatrix],
    order: Order,
    block_bytes: usize,
    read: impl Fn(&FileMatrix, usize, &mut Vec<f32>, &mut Vec<Block>) -> Result<(), ModelError> + Sync,
    put: impl Fn(&Block, usize, &mut [u8]) + Sync,
) -> Result<Vec<u8>, ModelError> {
    let lines = lines(parts, order);
    let panel_bytes = parts.first().map_or(0, FileMatrix::k).div_ceil(BLOCK) * block_bytes;
    let mut panels = vec![0; lines.len() / PANEL * panel_bytes];
    fill(&lines, &mut panels, panel_bytes, |lines, panels| {
        let (mut scratch, mut blocks) = (Vec::new(), Vec::new());
        for (lines, panel) in lines.chunks(PANEL).zip(panels.chunks_exact_mut(panel_bytes)) {
            for (row, line) in lines.iter().enumerate() {
                let Some((part, index)) = line else { continue };
                blocks.clear();
                read(&parts[*part], *index, &mut scratch, &mut blocks)?;
                for (block, to) in blocks.iter().zip(panel.chunks_exact_mut(block_bytes)) {
                    put(block, row, to);
                }
            }
        }
        Ok(())
    })?;
    Ok(panels)
}

fn half(bytes: &[u8], index: usize) -> f16 {
    f16::from_le_bytes([bytes[2 * index], bytes[2 * index + 1]])
}

/// A block of type Q8_0: scale, then numbers.
fn stored_q8(bytes: &[u8; 34]) -> Block {
    let mut q = [0; BLOCK];
    q.copy_from_slice(&bytes[2..]);
    Block {
        scale: half(bytes, 0),
        offset: f16::ZERO,
        q,
    }
}

/// Sixteen bytes: the first half of the numbers below, the second above.
fn nibbles(bytes: &[u8]) -> [u8; BLOCK] {
    std::array::from_fn(|i| if i < 16 { bytes[i] & 15 } else { bytes[i - 16] >> 4 })
}

/// A block of type Q4_0: `scale * (q - 8)`.
fn stored_q4_0(bytes: &[u8; 18]) -> Block {
    let scale = half(bytes, 0);
    Block {
        scale,
        // Exact: eight times a number is a step of its exponent.
        offset: f16::from_f32(-8.0 * scale.to_f32()),
        q: nibbles(&bytes[2..]),
    }
}

/// A block of type Q4_1: `scale * q + offset`.
fn stored_q4_1(bytes: &[u8; 20]) -> Block {
    Block {
        scale: half(bytes, 0),
        offset: half(bytes, 1),
        q: nibbles(&bytes[4..]),
    }
}

fn quantised_q8(values: &[f32]) -> Block {
    let largest = values.iter().fold(0.0f32, |max, value| max.max(value.abs()));
    let scale = f16::from_f32(largest / 127.0);
    let inverse = inverse(scale);
    let mut q = [0; BLOCK];
    for (q, value) in q.iter_mut().zip(values) {
        *q = round((value * inverse).clamp(-127.0, 127.0)) as i8 as u8;
    }
    Block {
        scale,
        offset: f16::ZERO,
        q,
    }
}

fn quantised_q4(values: &[f32]) -> Block {
    let (min, max) = (values.iter()).fold((f32::MAX, f32::MIN), |(min, max), v| (min.min(*v), max.max(*v)));
    let (scale, offset) = (f16::from_f32((max - min) / 15.0), f16::from_f32(min));
    let (inverse, start) = (inverse(scale), offset.to_f32());
    let mut q = [0; BLOCK];
    for (q, value) in q.iter_mut().zip(values) {
        *q = round(((value - start) * inverse).clamp(0.0, 15.0)) as u8;
    }
    Block { scale, offset, q }
}

/// To the nearest whole number, halves to the even one, for magnitudes below 2^22. Baseline x86-64 has no instruction for it, and
/// the library's function takes most of the time that loading takes; above 2^23 an f32 has no fraction left, so the sum is rounded.
fn round(value: f32) -> f32 {
    const BIG: f32 = 1.5 * (1 << 23) as f32;
    (value + BIG) - BIG
}

fn inverse(scale: f16) -> f32 {
    if scale > f16::ZERO { 1.0 / scale.to_f32() } else { 0.0 }
}

/// Row `row` of a panel of 8-bit numbers.
pub(super) fn q8_row(panel: &[u8], row: usize, out: &mut [f32]) {
    for (block, out) in panel.chunks_exact(Q8_BLOCK_BYTES).zip(out.chunks_mut(BLOCK)) {
        let scale = half(&block[Q8_BLOCK_BYTES - 2 * PANEL..], row).to_f32();
        for (c, out) in out.iter_mut().enumerate() {
            *out = f32::from(block[c / 4 * 4 * PANEL + 4 * row + c % 4] as i8) * scale;
        }
    }
}

/// Row `row` of a panel of 4-bit numbers.
pub(super) fn q4_row(panel: &[u8], row: usize, out: &mut [f32]) {
    for (block, out) in panel.chunks_exact(Q4_BLOCK_BYTES).zip(out.chunks_mut(BLOCK)) {
        let scale = half(&block[Q4_BLOCK_BYTES - 4 * PANEL..], row).to_f32();
        let offset = half(&block[Q4_BLOCK_BYTES - 2 * PANEL..], row).to_f32();
        for (c, out) in out.iter_mut().enumerate() {
            let byte = block[c % 16 / 4 * 4 * PANEL + 4 * row + c % 4];
            *out = f32::from(if c < 16 { byte & 15 } else { byte >> 4 }) * scale + offset;
        }
    }
}
