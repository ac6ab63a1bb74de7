//! A step's launches, in order. Everything that changes from step to step within a bucket is in device memory, so that a
//! recorded sequence stays right.

use super::CudaError;
use super::bucket::Bucket;
use super::communicator::Communicator;
use super::kernels::{Kernel, Kernels};
use super::matrix::{End, Products};
use super::memory::Buffer;
use super::scratch::{PART_LOGITS, PART_WORDS, SORTED, Scratch, TOP_KEPT, largest_in};
use super::sizes::Sizes;
use super::stream::{Arguments, Stream};
use super::weights::{Layer, Weights};

/// The kernels of a decoder beside its matrix products.
struct Named {
    embed: Kernel,
    rms_norm: Kernel,
    turn_and_store: Kernel,
    attend: Kernel,
    combine: Kernel,
    part_logits: Kernel,
    join_parts: Kernel,
    top_of_logits: Kernel,
    top_of_ranks: Kernel,
}

impl Named {
    fn new(kernels: &Kernels, sizes: &Sizes) -> Self {
        let get = |name: &str| kernels.get(name);
        Self {
            embed: get("embed"),
            rms_norm: get("rms_norm"),
            turn_and_store: get("turn_and_store"),
            attend: get(&format!("attend_{}_{}", sizes.head_dim, sizes.heads_together())),
            combine: get("combine"),
            part_logits: get("part_logits"),
            join_parts: get("join_parts"),
            top_of_logits: get("top_of_logits"),
            top_of_ranks: get("top_of_ranks"),
        }
    }
}

/// A decoder on a device.
pub(super) struct Network {
    pub(super) sizes: Sizes,
    pub(super) weights: Weights,
    pub(super) products: Products,
    named: Named,
    communicator: Box<dyn Communicator>,
}

impl Network {
    pub(super) fn new(
        kernels: &Kernels,
        sizes: Sizes,
        weights: Weights,
        communicator: Box<dyn Communicator>,
    ) -> Result<Self, CudaError> {
        let (products, named) = (Products::new(kernels)?, Named::new(kernels, &sizes));
        Ok(Self {
            sizes,
            weights,
            products,
            named,
            communicator,
        })
    }

    /// Puts a step on the stream: from its metadata on the device to results on the host. `pools` has a layer's KV each.
    pub(super) fn enqueue(
        &self,
        stream: &Stream,
        scratch: &mut Scratch,
        pools: &[Buffer],
        bucket: Bucket,
    ) -> Result<(), CudaError> {
        let (sizes, layout) = (&self.sizes, scratch.layout);
        let mut arguments = Arguments::new()
            .buffer(&scratch.stream)
            .buffer(&self.weights.embedding.data)
            .address(scratch.word(layout.tokens()))
            .address(scratch.word(layout.positions()))
            .number(sizes.hidden);
        stream.launch(self.named.embed, (bucket.tokens, 1, 1), 256, 0, &mut arguments)?;
        for (layer, pool) in self.weights.layers.iter().zip(pools) {
            self.attention(stream, scratch, layer, pool, bucket)?;
            self.feed_forward(stream, scratch, layer, bucket.tokens)?;
        }
        if bucket.logits > 0 {
            self.head(stream, scratch, bucket)?;
        }
        Ok(())
    }

    fn attention(
        &self,
        stream: &Stream,
        scratch: &Scratch,
        layer: &Layer,
        pool: &Buffer,
        bucket: Bucket,
    ) -> Result<(), CudaError> {
        let (sizes, layout, tokens) = (&self.sizes, scratch.layout, bucket.tokens);
        self.norm(stream, scratch, &scratch.normed, &layer.attention_norm, None, tokens)?;
        let (x, qkv) = (scratch.normed.address(), scratch.qkv.address());
        self.products.launch(stream, &layer.qkv, x, qkv, tokens, End::Store)?;
        let all_heads = sizes.heads + 2 * sizes.kv_heads;
        let mut arguments = Arguments::new()
            .address(qkv)
            .buffer(pool)
            .buffer(&layer.q_norm)
            .buffer(&layer.k_norm)
            .buffer(&self.weights.turns)
            .address(scratch.word(layout.positions()))
            .address(scratch.word(layout.rows()))
            .address(scratch.word(layout.table_starts()))
            .address(scratch.word(layout.table()))
            .number(sizes.heads)
            .number(sizes.kv_heads)
            .number(sizes.head_dim)
            .float(sizes.eps);
        let grid = (all_heads.div_ceil(4), tokens, 1);
        stream.launch(self.named.turn_and_store, grid, 128, 0, &mut arguments)?;
        let at_once = scratch.tokens_attending(sizes, bucket.partitions).min(tokens);
        for first in (0..tokens).step_by(at_once) {
            self.attend(
                stream,
                scratch,
                pool,
                bucket.partitions,
                first,
                at_once.min(tokens - first),
            )?;
        }
        let x = scratch.attended.address();
        self.row_parallel(stream, scratch, &layer.attention_out, x, tokens)
    }

    /// Attention of `count` tokens from `first` on.
    fn attend(
        &self,
        stream: &Stream,
        scratch: &Scratch,
        pool: &Buffer,
        partitions: usize,
        first: usize,
        count: usize,
    ) -> Result<(), CudaError> {
        let (sizes, layout) = (&self.sizes, scratch.layout);
        let positions = scratch.word(layout.positions());
        let mut arguments = Arguments::new()
            .buffer(&scratch.sums)
            .buffer(&scratch.marks)
            .buffer(&scratch.qkv)
            .buffer(pool)
            .address(positions)
            .address(scratch.word(layout.rows()))
            .address(scratch.word(layout.table_starts()))
            .address(scratch.word(layout.table()))
            .number(sizes.heads)
            .number(sizes.kv_heads)
            .number(sizes.qkv_width())
            .number(first);
        let groups = (sizes.heads / sizes.kv_heads).div_ceil(sizes.heads_together());
        let grid = (partitions, sizes.kv_heads * groups, count);
        stream.launch(self.named.attend, grid, 128, 0, &mut arguments)?;
        let mut arguments = Arguments::new()
            .buffer(&scratch.attended)
            .buffer(&scratch.sums)
            .buffer(&scratch.marks)
            .address(positions)
            .number(sizes.heads)
            .number(partitions)
            .number(first);
        stream.launch(
            self.named.combine,
            (sizes.heads, count, 1),
            sizes.head_dim,
            0,
            &mut arguments,
        )
    }

    fn feed_forward(&self, stream: &Stream, scratch: &Scratch, layer: &Layer, tokens: usize) -> Result<(), CudaError> {
        self.norm(stream, scratch, &scratch.normed, &layer.feed_forward_norm, None, tokens)?;
        let (x, inner) = (scratch.normed.address(), scratch.inner.address());
        self.products
            .launch(stream, &layer.gate_up, x, inner, tokens, End::SwiGlu)?;
        self.row_parallel(stream, scratch, &layer.down, inner, tokens)
    }

    /// Adds x wᵀ to the residual stream. With several ranks each has some columns of w: the first adds its part to the
    /// stream, the others hold theirs alone, and the sum over the ranks is the new stream.
    fn row_parallel(
        &self,
        stream: &Stream,
        scratch: &Scratch,
        w: &super::matrix::Matrix,
        x: u64,
        tokens: usize,
    ) -> Result<(), CudaError> {
        let end = if self.communicator.rank() == 0 {
            End::Add
        } else {
            End::Store
        };
        let residual = scratch.stream.address();
        self.products.launch(stream, w, x, residual, tokens, end)?;
        self.communicator.sum(residual, tokens * self.sizes.hidden)
    }

    /// Norms rows of the residual stream into `out`: all in order, or those that the words at `places` name.
    fn norm(
        &self,
        stream: &Stream,
        scratch: &Scratch,
        out: &Buffer,
        weight: &Buffer,
        places: Option<u64>,
        rows: usize,
    ) -> Result<(), CudaError> {
        let mut arguments = Arguments::new()
            .buffer(out)
            .buffer(&scratch.stream)
            .buffer(weight)
            .address(places.unwrap_or(0))
            .number(self.sizes.hidden)
            .float(self.sizes.eps);
        stream.launch(self.named.rms_norm, (rows, 1, 1), 256, 0, &mut arguments)
    }

    /// Logits, and what the host gets of them.
    fn head(&self, stream: &Stream, scratch: &mut Scratch, bucket: Bucket) -> Result<(), CudaError> {
        let (sizes, rows) = (&self.sizes, bucket.logits);
        let places = scratch.word(scratch.layout.places());
        self.norm(stream, scratch, &scratch.last, &self.weights.norm, Some(places), rows)?;
        let (x, logits) = (scratch.last.address(), scratch.logits.address());
        self.products
            .launch(stream, self.weights.head(), x, logits, rows, End::Store)?;
        let (vocabulary, width) = (sizes.vocabulary, sizes.logits_width());
        let chunks = vocabulary.div_ceil(PART_LOGITS);
        let mut arguments = Arguments::new()
            .buffer(&scratch.parts)
            .address(logits)
            .number(vocabulary)
            .number(width);
        stream.launch(self.named.part_logits, (chunks, rows, 1), 256, 0, &mut arguments)?;
        let mut arguments = Arguments::new()
            .buffer(&scratch.rows)
            .buffer(&scratch.parts)
            .number(chunks);
        stream.launch(self.named.join_parts, (rows, 1, 1), 1, 0, &mut arguments)?;
        stream.download(&scratch.rows, 0, &mut scratch.rows_host, 0, rows * PART_WORDS)?;
        if bucket.top {
            self.top(stream, scratch, rows)?;
        }
        Ok(())
    }

    /// The largest logits of each row: sorted in blocks, and the firsts of all blocks again, until one block is left.
    fn top(&self, stream: &Stream, scratch: &mut Scratch, rows: usize) -> Result<(), CudaError> {
        let (vocabulary, width) = (self.sizes.vocabulary, self.sizes.logits_width());
        let mut chunks = vocabulary.div_ceil(SORTED);
        let mut arguments = Arguments::new()
            .buffer(&scratch.ranks[0])
            .buffer(&scratch.logits)
            .number(vocabulary)
            .number(width);
        stream.launch(self.named.top_of_logits, (chunks, rows, 1), 1024, 0, &mut arguments)?;
        let mut from = 0;
        while chunks > 1 {
            let count = chunks * TOP_KEPT;
            chunks = count.div_ceil(SORTED);
            let (input, output) = (&scratch.ranks[from], &scratch.ranks[1 - from]);
            let mut arguments = Arguments::new().buffer(output).buffer(input).number(count);
            stream.launch(self.named.top_of_ranks, (chunks, rows, 1), 1024, 0, &mut arguments)?;
            from = 1 - from;
        }
        debug_assert_eq!(from, largest_in(vocabulary), "where heads look for them");
        stream.download(&scratch.ranks[from], 0, &mut scratch.top_host, 0, rows * TOP_KEPT)
    }
}
