//! The matrix product against sums in f64: every compiled variant, with sizes that leave ends over.

use half::bf16;
use tokenrouter_core::draw::{Purpose, uniform_f32};

use super::matrix::{End, Matrix, Products, Variant};
use super::memory::{Buffer, Pinned};
use super::stream::Stream;
use super::{CudaError, Device};

/// Rows of the matrix: whole blocks of every variant, and more than one.
const ROWS: usize = 256;
/// 11 chunks of 32 columns, which eight warps cannot share evenly.
const K: usize = 352;
/// One more than a whole tile of tokens, for every tile.
const TOKENS: [usize; 8] = [1, 3, 8, 9, 17, 33, 64, 65];

/// What one variant was found to do.
#[derive(Clone, Debug)]
pub struct ProductCheck {
    /// Tokens, tiles and end of the variant.
    pub variant: String,
    /// Largest ‖found - expected‖ / ‖expected‖ over all numbers of tokens.
    pub error: f64,
    /// Whether all results are the same bits as those of the first variant with the same end.
    pub same_bits: bool,
}

/// Runs all variants.
///
/// # Errors
/// When the device fails.
pub fn products(device: &Device) -> Result<Vec<ProductCheck>, CudaError> {
    let stream = Stream::new(device)?;
    let all = Products::new(&device.kernels)?;
    let (w, x) = (numbers(ROWS * K, 1), numbers(128 * K, 2));
    let matrix = Matrix::new(&stream, &w, K, "a matrix")?;
    let in_turn = Matrix::in_turn(&stream, &w[..ROWS / 2 * K], &w[ROWS / 2 * K..], K, "a matrix")?;
    let tokens = Buffer::from_slice(&stream, &x, "tokens")?;
    let (sums, mut found) = (sums(&w, &x), Vec::new());
    let mut firsts: Vec<(End, Vec<Vec<u32>>)> = Vec::new();
    for variant in all.variants() {
        let matrix = if variant.end == End::SwiGlu { &in_turn } else { &matrix };
        let mut bits = Vec::new();
        let mut error = 0.0f64;
        for count in TOKENS {
            let results = run(&stream, variant, matrix, &tokens, count)?;
            error = error.max(distance(&results, &expected(&sums, variant.end, count)));
            bits.push(results.iter().map(|value| value.to_bits()).collect());
        }
        let same_bits = match firsts.iter().find(|(end, _)| *end == variant.end) {
            Some((_, first)) => *first == bits,
            None => {
                firsts.push((variant.end, bits));
                true
            }
        };
        let variant = format!("{} tokens, {} tiles, {:?}", variant.tokens, variant.tiles, variant.end);
        found.push(ProductCheck {
            variant,
            error,
            same_bits,
        });
    }
    Ok(found)
}

fn numbers(count: usize, seed: u64) -> Vec<bf16> {
    let draw = |i| bf16::from_f32(uniform_f32(seed, i, Purpose::Policy(0)) - 0.5);
    (0..count as u64).map(draw).collect()
}

/// Of every token, its products with all rows.
fn sums(w: &[bf16], x: &[bf16]) -> Vec<Vec<f64>> {
    let dot = |x: &[bf16], w: &[bf16]| x.iter().zip(w).map(|(x, w)| x.to_f64() * w.to_f64()).sum();
    x.chunks_exact(K)
        .map(|x| w.chunks_exact(K).map(|w| dot(x, w)).collect())
        .collect()
}

fn expected(sums: &[Vec<f64>], end: End, count: usize) -> Vec<f64> {
    let token = |sums: &Vec<f64>| -> Vec<f64> {
        match end {
            End::Store => sums.clone(),
            End::Add => sums.iter().map(|sum| sum + 1.0).collect(),
            End::SwiGlu => {
                let (gate, up) = sums.split_at(ROWS / 2);
                gate.iter().zip(up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect()
            }
        }
    };
    sums[..count].iter().flat_map(token).collect()
}

fn distance(found: &[f32], expected: &[f64]) -> f64 {
    let pairs = found.iter().zip(expected);
    let difference: f64 = pairs
        .map(|(found, expected)| (f64::from(*found) - expected).powi(2))
        .sum();
    let size: f64 = expected.iter().map(|value| value * value).sum();
    (difference / size).sqrt()
}

/// One product. The output begins full of ones, and so do the tokens beyond `count`, which must stay so.
fn run(
    stream: &Stream,
    variant: &Variant,
    matrix: &Matrix,
    tokens: &Buffer,
    count: usize,
) -> Result<Vec<f32>, CudaError> {
    let y = Buffer::from_slice(stream, &vec![1.0f32; 128 * ROWS], "results")?;
    variant.launch(stream, matrix, tokens.address(), y.address(), count)?;
    let halves = variant.end == End::SwiGlu;
    let width = if halves { ROWS / 2 } else { ROWS };
    let words = if halves { count * width / 2 } else { count * width };
    let mut host = Pinned::<u32>::new(stream.device(), words + 1, "results")?;
    stream.download(&y, 0, &mut host, 0, words + 1)?;
    stream.wait()?;
    let (results, beyond) = host.as_slice().split_at(words);
    if beyond[0] != 1.0f32.to_bits() {
        return Err(CudaError::Sizes(format!(
            "a product for {count} tokens writes beyond them"
        )));
    }
    let half = |bits: u32| bf16::from_bits(bits as u16).to_f32();
    Ok(match halves {
        true => results
            .iter()
            .flat_map(|word| [half(*word), half(word >> 16)])
            .collect(),
        false => results.iter().map(|word| f32::from_bits(*word)).collect(),
    })
}
