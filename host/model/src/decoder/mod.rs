//! The decoder of the Llama family (Touvron et al., 2023) as Qwen2, Qwen3 and Llama have it: a pre-norm transformer with
//! grouped-query attention, rotary positions and gated feed-forward networks; Qwen2 with biases at queries, keys and
//! values, Qwen3 with a norm per query and key head.
//!
//! Invariant: the logits of a position are the same bits whatever else the step feeds, however the sequence was cut into
//! steps, whichever blocks hold it, and however many threads run. General matrix kernels choose their order of computation
//! by the shape of the whole product; here every output element is computed in an order that depends on nothing but the
//! sizes of the model.
//!
//! A step allocates nothing once its buffers have grown to its size.

mod attention;
mod files;
mod heads;
mod held;
mod kv;
mod layer;
mod norm;
mod rotary;
mod scratch;
mod shape;

pub use files::DecoderFiles;
pub use held::{CpuOptions, WeightFormat};
pub use kv::KvPool;
pub(crate) use rotary::Rotary;

use tokenrouter_core::TokenId;
use tokenrouter_core::step::StepBatch;

use crate::config::DecoderConfig;
use crate::cpu::Pool;
use crate::error::ModelError;
use crate::matrix::{Held, Matrix, Then};
use crate::weights::Weights;
use layer::{Layer, Step, product};
use norm::rms_norm;
use scratch::Scratch;
use shape::HeadShape;

/// What a step gives for each position that needs logits.
#[derive(Clone, Copy, Debug)]
pub struct Outputs<'a> {
    /// Hidden states after the final norm: [rows, hidden_size].
    pub hidden: &'a [f32],
    /// [rows, vocabulary].
    pub logits: &'a [f32],
}

/// Weights of a decoder, ready to run, and the memory and threads of its steps.
#[derive(Debug)]
pub struct Decoder {
    embedding: Matrix,
    layers: Vec<Layer>,
    norm: Vec<f32>,
    /// `None`: the embedding serves as the head.
    head: Option<Matrix>,
    rotary: Rotary,
    shape: HeadShape,
    eps: f32,
    pool: Pool,
    scratch: Scratch,
}

impl Decoder {
    /// Builds a decoder from its weights, which are taken out of `weights`: one thread, weights as the file has them.
    ///
    /// # Errors
    /// As [`Decoder::with_options`].
    pub fn new(config: &DecoderConfig, weights: &mut Weights) -> Result<Self, ModelError> {
        Self::with_options(config, weights, CpuOptions::default())
    }

    /// The same with a choice of threads and of how weights are held.
    ///
    /// # Errors
    /// When a tensor is missing, of another shape than `config` says, or of a type that cannot be read; when the system
    /// gives no threads.
    pub fn with_options(
        config: &DecoderConfig,
        weights: &mut Weights,
        options: CpuOptions,
    ) -> Result<Self, ModelError> {
        Self::from_files(config, DecoderFiles::take(config, weights)?, options)
    }

    /// The same from weights that have been checked.
    ///
    /// # Errors
    /// When a quantised block cannot be taken apart; when the system gives no threads.
    pub fn from_files(config: &DecoderConfig, files: DecoderFiles, options: CpuOptions) -> Result<Self, ModelError> {
        let [of_tables, of_layers] = files.choices(options);
        let embedding = of_tables.matrix(&files.embedding)?;
        let head = files.head.map(|head| of_tables.matrix(&head)).transpose()?;
        let layers = files.layers.into_iter().map(|layer| Layer::new(layer, of_layers));
        let layers = layers.collect::<Result<_, _>>()?;
        let pool = Pool::new(options.threads).map_err(|source| ModelError::Threads {
            threads: options.threads,
            source,
        })?;
        Ok(Self {
            embedding,
            layers,
            norm: files.norm,
            head,
            rotary: Rotary::new(config),
            shape: HeadShape::of(config),
            eps: config.rms_norm_eps as f32,
            scratch: Scratch::new(pool.threads()),
            pool,
        })
    }

    /// A token's row of the input embedding table, into `out`, which has hidden_size elements.
    pub fn embed(&self, token: TokenId, out: &mut [f32]) {
        self.embedding.row(token as usize, out);
    }

    /// Bytes of its matrices, and of those in how many bits: "f32", "bf16", "q8_0", "q4" or a mixture.
    pub fn held(&self) -> (u64, String) {
        let tables = [Some(&self.embedding), self.head.as_ref()].into_iter().flatten();
        let all: Vec<&Matrix> = self.layers.iter().flat_map(Layer::matrices).chain(tables).collect();
        let bytes = |held: Held| -> u64 { all.iter().filter(|m| m.held() == held).map(|m| m.bytes()).sum() };
        let kinds = [
            ("f32", bytes(Held::F32)),
            ("bf16", bytes(Held::Bf16)),
            ("q8_0", bytes(Held::Q8)),
            ("q4", bytes(Held::Q4)),
        ];
        let names: Vec<&str> = kinds
            .iter()
            .filter(|(_, bytes)| *bytes > 0)
            .map(|(name, _)| *name)
            .collect();
        (kinds.iter().map(|(_, bytes)| bytes).sum(), names.join(" and "))
    }

    /// Feeds a step's tokens, writes their keys and values into `kv`, and returns hidden states and logits of the positions
    /// that need them, [`StepBatch::logits_rows`] rows.
    ///
    /// # Panics
    /// May panic when the batch contradicts itself, the model or the pool: [`crate::DecoderRunner`] checks it first.
    pub fn forward(&mut self, batch: &StepBatch, kv: &mut KvPool) -> Outputs<'_> {
        let Self { pool, scratch, .. } = self;
        let hidden = self.norm.len();
        scratch.list(batch);
        self.rotary.turns(scratch.positions.iter().copied(), &mut scratch.turns);
        scratch.x.resize(batch.tokens.len() * hidden, 0.0);
        for (token, x) in batch.tokens.iter().zip(scratch.x.chunks_exact_mut(hidden)) {
            self.embedding.row(*token as usize, x);
        }
        let step = Step {
            batch,
            shape: self.shape,
            eps: self.eps,
        };
        if !batch.tokens.is_empty() {
            for (layer, kv) in self.layers.iter().zip(&mut kv.layers) {
                layer.forward(pool, kv, &step, scratch);
            }
        }
        scratch.normed.clear();
        for row in &batch.rows {
            let end = (row.first + row.len) as usize;
            let wanted = (end - row.logits as usize) * hidden..end * hidden;
            scratch.normed.extend_from_slice(&scratch.x[wanted]);
        }
        rms_norm(
            pool,
            &scratch.normed,
            &self.norm,
            self.eps,
            &mut scratch.scores,
            &mut scratch.hidden,
        );
        let head = self.head.as_ref().unwrap_or(&self.embedding);
        scratch.logits.resize(batch.logits_rows() * head.rows(), 0.0);
        let buffers = (&mut scratch.scores, &mut scratch.blocks);
        product(head, pool, &scratch.hidden, buffers, &mut scratch.logits, Then::Store);
        Outputs {
            hidden: &scratch.hidden,
            logits: &scratch.logits,
        }
    }
}
