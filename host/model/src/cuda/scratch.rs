//! The buffers of a step. They keep their addresses from step to step, so that graphs can use them, until a larger step
//! needs larger ones.

use half::bf16;
use tokenrouter_core::step::StepBatch;

use super::CudaError;
use super::bucket::Bucket;
use super::matrix::TOKEN_TILES;
use super::memory::{Buffer, Pinned};
use super::metadata::Layout;
use super::sizes::Sizes;
use super::stream::Stream;

/// Words of 64 bits that `join_parts` writes for a row (`Part` in `logits.cu`).
pub(super) const PART_WORDS: usize = 4;
/// Logits that the sorting kernels keep of a row (`KEPT`).
pub(super) const TOP_KEPT: usize = 128;
/// Logits that one block summarises (`CHUNK`), and that one block sorts (`SORTED`).
pub(super) const PART_LOGITS: usize = 4096;
pub(super) const SORTED: usize = 2048;

/// Floats that partitions of attention may take together: tokens of larger steps attend in turns.
const ATTENTION_FLOATS_MAX: usize = 16 << 20;

/// Buffers of a step, on the device unless they are called host.
pub(super) struct Scratch {
    pub(super) layout: Layout,
    logits_max: usize,
    pub(super) metadata: Buffer,
    pub(super) metadata_host: Pinned<u32>,
    /// The residual stream, f32: [tokens, hidden].
    pub(super) stream: Buffer,
    /// What a matrix product takes, bf16.
    pub(super) normed: Buffer,
    pub(super) qkv: Buffer,
    /// Of attention, bf16: [tokens, heads, head_dim].
    pub(super) attended: Buffer,
    /// Between the halves of a feed-forward network, bf16.
    pub(super) inner: Buffer,
    pub(super) sums: Buffer,
    pub(super) marks: Buffer,
    /// The normed stream of the tokens with logits, bf16.
    pub(super) last: Buffer,
    pub(super) logits: Buffer,
    pub(super) parts: Buffer,
    pub(super) rows: Buffer,
    pub(super) rows_host: Pinned<u64>,
    /// The sorting kernels' output, in turn.
    pub(super) ranks: [Buffer; 2],
    pub(super) top_host: Pinned<u64>,
}

impl Scratch {
    /// Buffers for steps of `tokens` tokens, `logits` rows of logits and block tables of `table` entries.
    pub(super) fn new(
        stream: &Stream,
        sizes: &Sizes,
        tokens: usize,
        logits: usize,
        table: usize,
    ) -> Result<Self, CudaError> {
        // The widest variant of the product reads whole tiles of tokens, whatever is in the last.
        let tile = TOKEN_TILES[TOKEN_TILES.len() - 1];
        let (tokens, logits) = (tokens.next_multiple_of(tile), logits.next_multiple_of(tile));
        let layout = Layout::new(tokens.max(logits), table);
        let floats = |count, what| Buffer::zeroed::<f32>(stream, count, what);
        let halves = |count, what| Buffer::zeroed::<bf16>(stream, count, what);
        let attention = attention_floats(sizes, tokens);
        let vocabulary = sizes.vocabulary;
        let first = vocabulary.div_ceil(SORTED) * TOP_KEPT;
        Ok(Self {
            layout,
            logits_max: logits,
            metadata: Buffer::zeroed::<u32>(stream, layout.words(), "a step's input")?,
            metadata_host: Pinned::new(stream.device(), layout.words(), "a step's input")?,
            stream: floats(tokens * sizes.hidden, "the residual stream")?,
            normed: halves(tokens * sizes.hidden, "activations")?,
            qkv: floats(tokens * sizes.qkv_width(), "queries, keys and values")?,
            attended: halves(tokens * sizes.attention_width(), "attention")?,
            inner: halves(tokens * sizes.inner, "feed-forward activations")?,
            sums: floats(attention, "partitions of attention")?,
            marks: floats(2 * attention / sizes.head_dim, "partitions of attention")?,
            last: halves(logits * sizes.hidden, "activations")?,
            logits: floats(logits * sizes.logits_width(), "logits")?,
            parts: Buffer::zeroed::<u64>(
                stream,
                logits * vocabulary.div_ceil(PART_LOGITS) * PART_WORDS,
                "summaries",
            )?,
            rows: Buffer::zeroed::<u64>(stream, logits * PART_WORDS, "summaries")?,
            rows_host: Pinned::new(stream.device(), logits * PART_WORDS, "summaries")?,
            ranks: [
                Buffer::zeroed::<u64>(stream, logits * first, "the largest logits")?,
                Buffer::zeroed::<u64>(stream, logits * first.div_ceil(SORTED) * TOP_KEPT, "the largest logits")?,
            ],
            top_host: Pinned::new(stream.device(), logits * TOP_KEPT, "the largest logits")?,
        })
    }

    /// Whether a step fits.
    pub(super) fn holds(&self, bucket: &Bucket, batch: &StepBatch) -> bool {
        bucket.logits <= self.logits_max && self.layout.holds(bucket, batch)
    }

    /// Address of a word of the metadata on the device.
    pub(super) fn word(&self, index: usize) -> u64 {
        self.metadata.address() + (index * size_of::<u32>()) as u64
    }

    /// The largest logits of each row, once they are sorted out.
    pub(super) fn largest(&self, sizes: &Sizes) -> &Buffer {
        &self.ranks[largest_in(sizes.vocabulary)]
    }

    /// Rows of logits that there is room for.
    pub(super) fn logits_max(&self) -> usize {
        self.logits_max
    }

    /// Tokens that may attend at once with so many partitions each.
    pub(super) fn tokens_attending(&self, sizes: &Sizes, partitions: usize) -> usize {
        let floats = self.sums.bytes() / size_of::<f32>();
        (floats / (partitions * sizes.heads * sizes.head_dim)).max(1)
    }
}

/// In which of [`Scratch::ranks`] sorting ends: it begins in the first, and every further round goes to the other.
pub(super) fn largest_in(vocabulary: usize) -> usize {
    let (mut chunks, mut place) = (vocabulary.div_ceil(SORTED), 0);
    while chunks > 1 {
        (chunks, place) = ((chunks * TOP_KEPT).div_ceil(SORTED), 1 - place);
    }
    place
}

/// Room for all partitions of at least one token, and of all tokens if that is not too much.
fn attention_floats(sizes: &Sizes, tokens: usize) -> usize {
    let partitions = sizes
        .positions
        .div_ceil(super::sizes::PARTITION_TOKENS)
        .next_power_of_two();
    let token = partitions * sizes.heads * sizes.head_dim;
    token.max((token * tokens).min(ATTENTION_FLOATS_MAX))
}
