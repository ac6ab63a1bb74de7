//! The runner of a decoder with weights: forward, sample, evaluate heads, then compute signals row by row.

use candle_core::{DType, Device, Tensor};
use tokenrouter_core::ModelIndex;
use tokenrouter_core::signal::Signal;
use tokenrouter_core::step::StepBatch;

use crate::check;
use crate::config::DecoderConfig;
use crate::decoder::{CpuOptions, Decoder, DecoderFiles, KvPool, Outputs};
use crate::descending::Descending;
use crate::error::ModelError;
use crate::heads::{Head, HeadError, HeadFile, HeadInput, HeadStep, HeadTarget, Heads};
use crate::logprobs;
use crate::runner::{ModelInfo, RowAsk, Runner, StepOutput};
use crate::sampler::Sampler;
use crate::signals::{SignalKey, Signals};
use crate::source::Source;
use crate::weights::Weights;

/// A decoder, its KV pool, and what turns logits into candidates and signals.
#[derive(Debug)]
pub struct DecoderRunner {
    info: ModelInfo,
    config: DecoderConfig,
    decoder: Decoder,
    kv: KvPool,
    sampler: Sampler,
    signals: Signals,
    /// For log-probabilities; kept and refilled.
    tokens: Descending,
    heads: Heads,
    /// The embedding table in f32 for heads that read it; empty without any.
    embedding: Tensor,
}

impl DecoderRunner {
    /// Loads a model to be `index` in its deployment: part of the key of every draw. The pool is empty until
    /// [`Runner::allocate`].
    ///
    /// # Errors
    /// When the model's files are missing, damaged, or of an architecture or shape that cannot be served.
    pub fn load(source: &Source, index: ModelIndex) -> Result<Self, ModelError> {
        Self::load_with(source, index, CpuOptions::default())
    }

    /// The same with a choice of threads and of how weights are held.
    ///
    /// # Errors
    /// As [`DecoderRunner::load`], and when the system gives no threads.
    pub fn load_with(source: &Source, index: ModelIndex, options: CpuOptions) -> Result<Self, ModelError> {
        Self::with_options(source.config()?, &mut source.weights()?, index, options)
    }

    /// The same from a configuration and weights that have been checked.
    ///
    /// # Errors
    /// When a quantised block cannot be taken apart; when the system gives no threads.
    pub fn from_files(
        config: DecoderConfig,
        files: DecoderFiles,
        index: ModelIndex,
        options: CpuOptions,
    ) -> Result<Self, ModelError> {
        let decoder = Decoder::from_files(&config, files, options)?;
        Ok(Self {
            info: ModelInfo::of(&config, KvPool::bytes_per_token(&config)),
            kv: KvPool::new(&config, 0)?,
            config,
            decoder,
            sampler: Sampler::new(index),
            signals: Signals::default(),
            tokens: Descending::default(),
            heads: Heads::default(),
            embedding: Tensor::zeros((0, 0), DType::F32, &Device::Cpu)?,
        })
    }

    /// The same from a configuration and weights at hand; the decoder takes its tensors out of `weights`.
    ///
    /// # Errors
    /// When a tensor is missing, of another shape than `config` says, or of a type that cannot be read.
    pub fn new(config: DecoderConfig, weights: &mut Weights, index: ModelIndex) -> Result<Self, ModelError> {
        Self::with_options(config, weights, index, CpuOptions::default())
    }

    /// The same with a choice of threads and of how weights are held.
    ///
    /// # Errors
    /// As [`DecoderRunner::new`], and when the system gives no threads.
    pub fn with_options(
        config: DecoderConfig,
        weights: &mut Weights,
        index: ModelIndex,
        options: CpuOptions,
    ) -> Result<Self, ModelError> {
        let files = DecoderFiles::take(&config, weights)?;
        Self::from_files(config, files, index, options)
    }

    /// The decoder.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }
}

impl Runner for DecoderRunner {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn allocate(&mut self, blocks: usize) -> Result<(), ModelError> {
        self.kv = KvPool::new(&self.config, 0)?;
        self.kv = KvPool::new(&self.config, blocks)?;
        Ok(())
    }

    fn add_head(&mut self, name: &str, file: HeadFile) -> Result<(), HeadError> {
        let target = HeadTarget {
            hidden_size: self.config.hidden_size,
            vocabulary: self.config.vocab_size,
        };
        if file.header().reads(HeadInput::Token) && self.embedding.elem_count() == 0 {
            let (rows, width) = (self.config.vocab_size, self.config.hidden_size);
            let mut table = vec![0.0; rows * width];
            for (token, row) in (0..).zip(table.chunks_exact_mut(width)) {
                self.decoder.embed(token, row);
            }
            let table = Tensor::from_vec(table, (rows, width), &Device::Cpu);
            self.embedding = table.map_err(ModelError::from)?;
        }
        self.heads.add(name, Head::new(file, target)?);
        Ok(())
    }

    fn step(
        &mut self,
        batch: &StepBatch,
        asks: &[RowAsk<'_>],
        plans: &[Vec<Signal>],
        out: &mut StepOutput,
    ) -> Result<(), ModelError> {
        out.clear();
        check::step(batch, asks, plans, &self.info, self.kv.blocks(), |name| {
            self.heads.has(name)
        })?;
        let Outputs { hidden, logits } = self.decoder.forward(batch, &mut self.kv);
        if logits.is_empty() {
            return Ok(());
        }
        let rows = || logits.chunks_exact(self.info.vocabulary as usize);
        for ((position, ask), logits) in candidate_positions(batch).zip(asks).zip(rows()) {
            let candidate = self.sampler.sample(logits, ask, position);
            out.candidates.push(candidate.unwrap_or(0));
            out.finite.push(candidate.is_some());
        }
        if !self.heads.is_empty() {
            let step = HeadStep {
                hidden: &Tensor::from_slice(hidden, (asks.len(), self.config.hidden_size), &Device::Cpu)?,
                embedding: &self.embedding,
                logits,
                candidates: &out.candidates,
            };
            self.heads.evaluate(&step, asks, plans, &out.finite)?;
        }
        for (row, ((position, ask), logits)) in candidate_positions(batch).zip(asks).zip(rows()).enumerate() {
            if !self.heads.finite(row) {
                (out.candidates[row], out.finite[row]) = (0, false);
            }
            let key = SignalKey {
                seed: ask.seed,
                position,
                newlines: ask.newlines,
            };
            self.signals.append(
                &plans[ask.plan as usize],
                out.finite[row].then_some(logits),
                key,
                |head| self.heads.score(head, row),
                &mut out.signals,
            );
            if let (Some(top), true) = (ask.logprobs, out.finite[row]) {
                logprobs::append(logits, out.candidates[row], top, &mut self.tokens, &mut out.logprobs);
            }
            out.end_row();
        }
        Ok(())
    }
}

/// The position in its sequence that the candidate of each row of logits would take.
pub(crate) fn candidate_positions(batch: &StepBatch) -> impl Iterator<Item = u64> + '_ {
    batch.rows.iter().flat_map(|row| {
        let end = u64::from(row.position) + u64::from(row.len);
        end + 1 - u64::from(row.logits)..end + 1
    })
}
