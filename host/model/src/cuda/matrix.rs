//! Weight matrices as the tensor cores take them, and the product with each.
//!
//! The layout is that of `packed_piece` in `device.cuh`: tiles of 16 rows × 32 columns, in each of them pieces of 8
//! columns, row-major.

use half::bf16;

use super::CudaError;
use super::kernels::{Kernel, Kernels};
use super::memory::Buffer;
use super::stream::{Arguments, Stream};

const TILE_ROWS: usize = 16;
const TILE_COLUMNS: usize = 32;
const PIECE: usize = 8;

/// A matrix [rows, k] on a device.
pub(super) struct Matrix {
    pub(super) data: Buffer,
    pub(super) rows: usize,
    pub(super) k: usize,
}

impl Matrix {
    /// From row-major elements. Rows are filled up with zeros to whole tiles.
    pub(super) fn new(stream: &Stream, elements: &[bf16], k: usize, what: &str) -> Result<Self, CudaError> {
        let rows: Vec<&[bf16]> = elements.chunks_exact(k).collect();
        Self::from_rows(stream, &rows, k, what)
    }

    /// Two matrices of one shape with their tiles in turn: what the product that ends in SwiGLU takes.
    pub(super) fn in_turn(
        stream: &Stream,
        gate: &[bf16],
        up: &[bf16],
        k: usize,
        what: &str,
    ) -> Result<Self, CudaError> {
        let tile = TILE_ROWS * k;
        let pairs = gate.chunks_exact(tile).zip(up.chunks_exact(tile));
        let rows: Vec<&[bf16]> = pairs
            .flat_map(|(gate, up)| gate.chunks_exact(k).chain(up.chunks_exact(k)))
            .collect();
        Self::from_rows(stream, &rows, k, what)
    }

    fn from_rows(stream: &Stream, rows: &[&[bf16]], k: usize, what: &str) -> Result<Self, CudaError> {
        let data = Buffer::from_slice(stream, &pack(rows, k), what)?;
        Ok(Self {
            data,
            rows: rows.len().next_multiple_of(TILE_ROWS),
            k,
        })
    }

    /// Random elements, uniform in ±bound, made on the device.
    pub(super) fn random(stream: &Stream, rows: usize, k: usize, bound: f32, seed: u64) -> Result<Self, CudaError> {
        let rows = rows.next_multiple_of(TILE_ROWS);
        let data = Buffer::zeroed::<bf16>(stream, rows * k, "random weights")?;
        let mut arguments = Arguments::new()
            .buffer(&data)
            .long((rows * k) as u64)
            .long(seed)
            .float(bound);
        stream.launch(
            stream.device().kernels.get("fill_random"),
            (2048, 1, 1),
            256,
            0,
            &mut arguments,
        )?;
        Ok(Self { data, rows, k })
    }
}

fn pack(rows: &[&[bf16]], k: usize) -> Vec<bf16> {
    let mut out = vec![bf16::ZERO; rows.len().next_multiple_of(TILE_ROWS) * k];
    let tiles = out.chunks_exact_mut(TILE_ROWS * k);
    for (tile, rows) in tiles.zip(rows.chunks(TILE_ROWS)) {
        for (row, elements) in rows.iter().enumerate() {
            for (chunk, pieces) in elements.chunks_exact(TILE_COLUMNS).enumerate() {
                let at = chunk * TILE_ROWS * TILE_COLUMNS + row * TILE_COLUMNS;
                tile[at..at + TILE_COLUMNS].copy_from_slice(pieces);
            }
        }
    }
    out
}

const _: () = assert!(
    TILE_COLUMNS == 4 * PIECE,
    "a row of a tile is four pieces, so whole rows can be copied"
);

/// What becomes of a product's sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// f32, stored.
    Store,
    /// f32, added to what is there.
    Add,
    /// silu(gate) · up in bf16; for matrices whose tiles are in turn.
    SwiGlu,
}

/// Tokens that a block of the product takes together.
pub(super) const TOKEN_TILES: [usize; 4] = [8, 16, 32, 64];

/// From how many rows on a block takes several tiles of them: with fewer there would be too few blocks to fill a device.
const MANY_ROWS: usize = 4096;

/// One compiled variant of the product.
#[derive(Clone, Copy)]
pub(super) struct Variant {
    kernel: Kernel,
    pub(super) tokens: usize,
    pub(super) tiles: usize,
    pub(super) end: End,
    shared_bytes: usize,
}

impl Variant {
    fn new(kernels: &Kernels, tokens: usize, tiles: usize, end: End) -> Result<Self, CudaError> {
        let name = match end {
            End::Store => "store",
            End::Add => "add",
            End::SwiGlu => "swiglu",
        };
        let kernel = kernels.get(&format!("gemm_{tokens}_{tiles}_{name}"));
        let shared_bytes = shared_bytes(tokens, tiles, end);
        kernels.allow_shared(kernel, shared_bytes as u32)?;
        Ok(Self {
            kernel,
            tokens,
            tiles,
            end,
            shared_bytes,
        })
    }

    /// y = x wᵀ for the first `tokens` rows of x, bf16 at address `x`; `y` as the variant's end says.
    pub(super) fn launch(&self, stream: &Stream, w: &Matrix, x: u64, y: u64, tokens: usize) -> Result<(), CudaError> {
        let mut arguments = Arguments::new()
            .buffer(&w.data)
            .address(x)
            .address(y)
            .number(w.rows)
            .number(w.k)
            .number(tokens);
        let grid = (tokens.div_ceil(self.tokens), w.rows / TILE_ROWS / self.tiles, 1);
        stream.launch(self.kernel, grid, 256, self.shared_bytes, &mut arguments)
    }
}

/// Shared memory of a variant, bytes: the ring of weights, or the warps' sums after it, whichever is larger. The numbers
/// are those of `gemm.cu`.
fn shared_bytes(tokens: usize, tiles: usize, end: End) -> usize {
    const WARPS: usize = 8;
    let stages = match tiles {
        1 => 6,
        2 => 4,
        _ => 3,
    };
    let ring = WARPS * stages * tiles * 1024;
    let together = if end == End::SwiGlu { 2 } else { 1 };
    ring.max(WARPS * together * tokens * 20 * size_of::<f32>())
}

/// All variants.
pub(super) struct Products(Vec<Variant>);

impl Products {
    pub(super) fn new(kernels: &Kernels) -> Result<Self, CudaError> {
        let mut all = Vec::new();
        for tokens in TOKEN_TILES {
            let many = many_tiles(tokens);
            for (tiles, end) in [
                (1, End::Store),
                (1, End::Add),
                (many, End::Store),
                (many, End::Add),
                (2, End::SwiGlu),
            ] {
                all.push(Variant::new(kernels, tokens, tiles, end)?);
            }
            if many == 4 {
                all.push(Variant::new(kernels, tokens, many, End::SwiGlu)?);
            }
        }
        Ok(Self(all))
    }

    pub(super) fn variants(&self) -> &[Variant] {
        &self.0
    }

    /// The variant for so many tokens and rows. All give the same bits; they differ in speed.
    pub(super) fn choose(&self, tokens: usize, rows: usize, end: End) -> Result<&Variant, CudaError> {
        let (tokens, tiles) = choice(tokens, rows, end);
        let fits = |it: &&Variant| it.tokens == tokens && it.tiles == tiles && it.end == end;
        self.0.iter().find(fits).ok_or_else(|| {
            CudaError::Sizes(format!(
                "no kernel for a product of {rows} rows for {tokens} tokens that ends in {end:?}"
            ))
        })
    }

    /// y = x wᵀ with the variant chosen for it.
    pub(super) fn launch(
        &self,
        stream: &Stream,
        w: &Matrix,
        x: u64,
        y: u64,
        tokens: usize,
        end: End,
    ) -> Result<(), CudaError> {
        self.choose(tokens, w.rows, end)?.launch(stream, w, x, y, tokens)
    }
}

/// Tiles that a block takes where rows are many: with more tokens, more rows share what is read of them.
fn many_tiles(tokens: usize) -> usize {
    if tokens == 8 { 2 } else { 4 }
}

fn choice(tokens: usize, rows: usize, end: End) -> (usize, usize) {
    let tokens = TOKEN_TILES
        .into_iter()
        .find(|tile| tokens <= *tile)
        .unwrap_or(TOKEN_TILES[3]);
    let many = many_tiles(tokens);
    let tiles = match end {
        _ if rows >= MANY_ROWS && rows.is_multiple_of(many * TILE_ROWS) => many,
        End::SwiGlu => 2,
        End::Store | End::Add => 1,
    };
    (tokens, tiles)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where `device.cuh` says that a row's piece is.
    fn packed_piece(row: usize, piece: usize, k: usize) -> usize {
        ((row / 16) * (k / 32) + piece / 4) * 64 + (row % 16) * 4 + piece % 4
    }

    #[test]
    fn every_piece_lies_where_the_kernels_look_for_it() {
        let (rows, k) = (37, 96);
        let elements: Vec<bf16> = (0..rows * k).map(|i| bf16::from_bits(i as u16)).collect();
        let packed = pack(&elements.chunks_exact(k).collect::<Vec<_>>(), k);
        assert_eq!(packed.len(), 48 * k);
        for row in 0..48 {
            for piece in 0..k / 8 {
                let found = &packed[packed_piece(row, piece, k) * 8..][..8];
                let expected = if row < rows {
                    &elements[row * k + piece * 8..][..8]
                } else {
                    &[bf16::ZERO; 8]
                };
                assert_eq!(found, expected, "row {row}, piece {piece}");
            }
        }
    }

    /// A block of one kernel must cover the rows exactly, and its shared memory fit any device since capability 8.0.
    #[test]
    fn a_choice_covers_all_rows_and_fits_every_device() {
        for end in [End::Store, End::Add, End::SwiGlu] {
            for rows in (32..20_000).step_by(32) {
                for tokens in [1, 8, 9, 16, 17, 32, 33, 64, 65, 1000] {
                    let (tile, tiles) = choice(tokens, rows, end);
                    assert_eq!(rows % (tiles * TILE_ROWS), 0, "{rows} rows in {tiles} tiles");
                    assert!(shared_bytes(tile, tiles, end) <= 163 << 10);
                }
            }
        }
    }
}
