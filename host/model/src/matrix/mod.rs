//! Weight matrices as a step reads them: f32, bf16, or quantised in panels of eight rows.
//!
//! A product's elements are computed in an order that depends on nothing but the matrix: not on how many rows of
//! activations stand beside each other, nor on the number of threads.

mod brain;
mod fill;
mod float;
mod gate;
mod input;
mod pack;

pub(crate) use input::{Input, quantise};
pub(crate) use pack::Order;

use half::bf16;

use crate::cpu::{BLOCK, Columns, Instructions, PANEL, Pool, Q4_BLOCK_BYTES, Q8_BLOCK_BYTES, q4_tile, q8_tile};
use crate::error::ModelError;
use crate::weights::FileMatrix;

/// Rows of activations whose products with a panel are held together, on the stack.
const TILE_ROWS: usize = 32;
/// Rows of activations that pass all panels before the next ones do: they stay in the second cache.
const PASS_ROWS: usize = 128;

/// How the numbers of a matrix are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    F32,
    Bf16,
    Q8,
    Q4,
}

impl Held {
    /// Whether products take their input in blocks of 8-bit numbers rather than as it is.
    pub(crate) fn quantised(self) -> bool {
        matches!(self, Self::Q8 | Self::Q4)
    }
}

/// A matrix [n, k] of weights; products give n numbers a row.
#[derive(Debug)]
pub(crate) struct Matrix {
    held: Held,
    n: usize,
    k: usize,
    /// f32: rows one after the other, up to a multiple of [`PANEL`] filled with zeros.
    floats: Vec<f32>,
    /// bf16: the same.
    halves: Vec<bf16>,
    /// Quantised: panels one after the other.
    panels: Vec<u8>,
    with: Instructions,
}

/// What happens to a product's elements on their way out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Then<'a> {
    /// `out = product`.
    Store,
    /// `out = product + bias`.
    Bias(&'a [f32]),
    /// `out += product`.
    Add,
    /// `out += product + bias`.
    AddBias(&'a [f32]),
    /// `out = silu(gate) * up`, of a matrix whose panels are gate and up in turn. silu(v) = v / (1 + e^-v).
    SwiGlu,
}

impl Matrix {
    /// Reads the rows of `parts` in `order`.
    ///
    /// # Errors
    /// When a part cannot be read.
    pub(crate) fn new(parts: &[FileMatrix], order: Order, held: Held) -> Result<Self, ModelError> {
        let k = parts.first().map_or(0, FileMatrix::k);
        let n = parts.iter().map(FileMatrix::rows).sum();
        let with = Instructions::best();
        let mut matrix = Self {
            held,
            n,
            k,
            floats: Vec::new(),
            halves: Vec::new(),
            panels: Vec::new(),
            with,
        };
        match held {
            Held::F32 => matrix.floats = float::read(parts, order, |number| number)?,
            Held::Bf16 => matrix.halves = float::read(parts, order, bf16::from_f32)?,
            Held::Q8 => matrix.panels = pack::q8(parts, order)?,
            Held::Q4 => matrix.panels = pack::q4(parts, order)?,
        }
        Ok(matrix)
    }

    /// Bytes that the numbers of a matrix of `parts` take, without reading them: [`Matrix::bytes`] of [`Matrix::new`].
    pub(crate) fn planned_bytes(parts: &[FileMatrix], order: Order, held: Held) -> u64 {
        let k = parts.first().map_or(0, FileMatrix::k);
        let rows = pack::padded_rows(parts, order);
        let blocks = (rows / PANEL * k.div_ceil(BLOCK)) as u64;
        match held {
            Held::F32 => (rows * k * size_of::<f32>()) as u64,
            Held::Bf16 => (rows * k * size_of::<bf16>()) as u64,
            Held::Q8 => blocks * Q8_BLOCK_BYTES as u64,
            Held::Q4 => blocks * Q4_BLOCK_BYTES as u64,
        }
    }

    /// Rows of weights.
    pub(crate) fn rows(&self) -> usize {
        self.n
    }

    /// Elements of a row.
    pub(crate) fn k(&self) -> usize {
        self.k
    }

    pub(crate) fn held(&self) -> Held {
        self.held
    }

    /// Bytes of its numbers, as a product reads them.
    pub(crate) fn bytes(&self) -> u64 {
        (size_of_val(&*self.floats) + size_of_val(&*self.halves) + self.panels.len()) as u64
    }

    /// Writes row `index` into `out`, which has k elements.
    pub(crate) fn row(&self, index: usize, out: &mut [f32]) {
        match self.held {
            Held::F32 => out.copy_from_slice(&self.floats[index * self.k..(index + 1) * self.k]),
            Held::Bf16 => brain::widen(&self.halves[index * self.k..(index + 1) * self.k], out),
            Held::Q8 => pack::q8_row(self.panel(index / PANEL), index % PANEL, out),
            Held::Q4 => pack::q4_row(self.panel(index / PANEL), index % PANEL, out),
        }
    }

    fn panel(&self, index: usize) -> &[u8] {
        let block = match self.held {
            Held::Q8 => Q8_BLOCK_BYTES,
            _ => Q4_BLOCK_BYTES,
        };
        let bytes = self.k.div_ceil(BLOCK) * block;
        &self.panels[index * bytes..(index + 1) * bytes]
    }

    /// Width of a product's rows.
    fn width(&self, then: Then<'_>) -> usize {
        match then {
            Then::SwiGlu => self.n / 2,
            _ => self.n,
        }
    }

    /// The products of all rows of `x`, into rows of `out`.
    pub(crate) fn product(&self, pool: &mut Pool, x: Input<'_>, out: &mut [f32], then: Then<'_>) {
        let width = self.width(then);
        pool.columns(out, width, PANEL, |mut out| {
            let rows = x.rows(self.k);
            for pass in (0..rows).step_by(PASS_ROWS) {
                let end = rows.min(pass + PASS_ROWS);
                for panel in out.range().start / PANEL..out.range().end.div_ceil(PANEL) {
                    for first in (pass..end).step_by(TILE_ROWS) {
                        let tile_rows = TILE_ROWS.min(end - first);
                        self.finish(
                            panel,
                            &x.part(first, tile_rows, self.k),
                            first,
                            tile_rows,
                            &mut out,
                            then,
                        );
                    }
                }
            }
        });
    }

    /// One tile: the eight columns of `out` from `panel * PANEL`, for some rows.
    fn finish(&self, panel: usize, x: &Input<'_>, first: usize, rows: usize, out: &mut Columns<'_>, then: Then<'_>) {
        let mut tile = [[0.0; PANEL]; TILE_ROWS];
        let mut second = [[0.0; PANEL]; TILE_ROWS];
        match then {
            Then::SwiGlu => {
                self.tile(2 * panel, x, &mut tile[..rows]);
                self.tile(2 * panel + 1, x, &mut second[..rows]);
                gate::swiglu(&mut tile[..rows], &second[..rows]);
            }
            _ => self.tile(panel, x, &mut tile[..rows]),
        }
        let start = panel * PANEL - out.range().start;
        for (row, tile) in tile.iter().enumerate().take(rows) {
            let all = out.row(first + row);
            let end = all.len().min(start + PANEL);
            let out = &mut all[start..end];
            let bias = |bias: &[f32]| -> [f32; PANEL] {
                std::array::from_fn(|i| bias.get(panel * PANEL + i).copied().unwrap_or(0.0))
            };
            match then {
                Then::Store | Then::SwiGlu => out.iter_mut().zip(tile).for_each(|(out, v)| *out = *v),
                Then::Add => out.iter_mut().zip(tile).for_each(|(out, v)| *out += *v),
                Then::Bias(b) => out
                    .iter_mut()
                    .zip(tile)
                    .zip(bias(b))
                    .for_each(|((out, v), b)| *out = v + b),
                Then::AddBias(b) => out
                    .iter_mut()
                    .zip(tile)
                    .zip(bias(b))
                    .for_each(|((out, v), b)| *out += v + b),
            }
        }
    }

    fn tile(&self, panel: usize, x: &Input<'_>, out: &mut [[f32; PANEL]]) {
        match self.held {
            Held::F32 => float::tile(
                x.values,
                &self.floats[panel * PANEL * self.k..][..PANEL * self.k],
                self.k,
                out,
            ),
            Held::Bf16 => brain::tile(
                x.values,
                &self.halves[panel * PANEL * self.k..][..PANEL * self.k],
                self.k,
                out,
            ),
            Held::Q8 => q8_tile(self.with, self.panel(panel), x.blocks, out),
            Held::Q4 => q4_tile(self.with, self.panel(panel), x.blocks, out),
        }
    }
}
