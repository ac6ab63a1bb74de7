//! The runner of a model on a device: one stream, one wait a step.

use tokenrouter_core::ModelIndex;
use tokenrouter_core::signal::Signal;
use tokenrouter_core::step::StepBatch;

use super::bucket::{Bucket, GraphLimits, padded};
use super::communicator::OneRank;
use super::forward::Network;
use super::graphs::Recent;
use super::heads::{Asked, HeadBucket, Heads};
use super::memory::{Buffer, Pinned};
use super::readout::{RowSummary, Whole, top_fits, top_needed};
use super::scratch::{Scratch, TOP_KEPT};
use super::sizes::Sizes;
use super::stream::{Graph, Stream};
use super::tensors::Tensors;
use super::weights::Weights;
use super::{CudaError, Device};
use crate::check;
use crate::config::DecoderConfig;
use crate::decoder_runner::candidate_positions;
use crate::descending::Descending;
use crate::error::ModelError;
use crate::heads::{HeadError, HeadFile, HeadTarget};
use crate::logprobs;
use crate::runner::{ModelInfo, RowAsk, Runner, StepOutput};
use crate::sampler::Sampler;
use crate::signals::{SignalKey, Signals};
use crate::source::Source;

/// How a model runs on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CudaOptions {
    /// Which steps run as graphs.
    pub graphs: GraphLimits,
}

/// Tokens, rows of logits and block-table entries that buffers are made for at first.
const FIRST_TOKENS: usize = 64;
const FIRST_TABLE: usize = 1024;

/// What runs as a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Step(Bucket),
    Heads(HeadBucket),
}

/// A model on a device.
///
/// Greedy rows are sampled, and signals summed up, on the device. Rows with a temperature, with biases, penalties, bans or a grammar, with
/// log-probabilities, and rows whose plan asks for more than 128 of the largest logits, have their logits copied to the host and go the
/// CPU's way.
///
/// Heads are evaluated on the device too, behind the step and before it is waited for. Where a score depends on a candidate that the
/// host draws, they follow once it is drawn, and the step waits twice.
pub struct CudaRunner {
    info: ModelInfo,
    options: CudaOptions,
    graphs: Recent<Work, Graph>,
    network: Network,
    scratch: Scratch,
    heads: Heads,
    pools: Vec<Buffer>,
    blocks: usize,
    /// Rows of logits that the host needs whole.
    logits_host: Pinned<f32>,
    on_host: Vec<usize>,
    sampler: Sampler,
    signals: Signals,
    tokens: Descending,
    stream: Stream,
}

impl CudaRunner {
    /// Loads a model to be `index` in its deployment. Tensors pass through the host one at a time.
    ///
    /// # Errors
    /// When the model's files are missing, damaged or of another shape, or the device cannot run or hold it.
    pub fn load(device: &Device, source: &Source, index: ModelIndex, options: CudaOptions) -> Result<Self, ModelError> {
        Self::from_tensors(device, &source.config()?, &Tensors::open(source)?, index, options)
    }

    /// The same from a configuration and tensors at hand.
    ///
    /// # Errors
    /// As [`CudaRunner::load`].
    pub fn from_tensors(
        device: &Device,
        config: &DecoderConfig,
        tensors: &Tensors,
        index: ModelIndex,
        options: CudaOptions,
    ) -> Result<Self, ModelError> {
        let stream = Stream::new(device)?;
        let weights = Weights::load(&stream, config, tensors)?;
        Ok(Self::new(stream, config, weights, index, options)?)
    }

    /// A model of these sizes with random weights, made on the device: for measurements.
    ///
    /// # Errors
    /// When the device cannot run or hold it.
    pub fn random(
        device: &Device,
        config: &DecoderConfig,
        seed: u64,
        index: ModelIndex,
        options: CudaOptions,
    ) -> Result<Self, ModelError> {
        let stream = Stream::new(device)?;
        let weights = Weights::random(&stream, config, seed)?;
        Ok(Self::new(stream, config, weights, index, options)?)
    }

    fn new(
        stream: Stream,
        config: &DecoderConfig,
        weights: Weights,
        index: ModelIndex,
        options: CudaOptions,
    ) -> Result<Self, CudaError> {
        let sizes = Sizes::of(config)?;
        let info = ModelInfo {
            parameters: config.parameters(),
            vocabulary: config.vocab_size as u32,
            context_max: config.max_position_embeddings as u32,
            kv_bytes_per_token: sizes.kv_bytes_per_token(),
            eos: config.eos_token_id.clone(),
            bos: config.bos_token_id,
        };
        let scratch = Scratch::new(&stream, &sizes, FIRST_TOKENS, FIRST_TOKENS, FIRST_TABLE)?;
        let network = Network::new(&stream.device().kernels, sizes, weights, Box::new(OneRank))?;
        Ok(Self {
            info,
            options,
            graphs: Recent::new(options.graphs.graphs_max),
            heads: Heads::new(&stream),
            network,
            scratch,
            pools: Vec::new(),
            blocks: 0,
            logits_host: Pinned::new(stream.device(), 0, "logits")?,
            on_host: Vec::new(),
            sampler: Sampler::new(index),
            signals: Signals::default(),
            tokens: Descending::default(),
            stream,
        })
    }

    /// Bytes of weights that every step reads at least: over the memory's bandwidth, the least time of a step.
    pub fn streamed_bytes(&self) -> u64 {
        self.network.weights.streamed_bytes()
    }

    /// Changes which steps run as graphs, and drops those that are there.
    pub fn set_graphs(&mut self, limits: GraphLimits) {
        self.options.graphs = limits;
        self.graphs = Recent::new(limits.graphs_max);
    }

    /// Graphs that are kept.
    pub fn graphs(&self) -> usize {
        self.graphs.len()
    }

    /// The last step's row `row` of logits.
    ///
    /// # Errors
    /// When the device fails.
    pub fn logits(&mut self, row: usize) -> Result<Vec<f32>, ModelError> {
        let (vocabulary, width) = (self.info.vocabulary as usize, self.network.sizes.logits_width());
        let mut host = Pinned::new(self.stream.device(), vocabulary, "logits")?;
        self.stream
            .download(&self.scratch.logits, row * width, &mut host, 0, vocabulary)?;
        self.stream.wait()?;
        Ok(host.as_slice().to_vec())
    }

    /// Makes room for a step. Graphs know the addresses of the buffers they were recorded with, so they go when these do.
    fn reserve(&mut self, bucket: &Bucket, batch: &StepBatch) -> Result<(), CudaError> {
        if self.scratch.holds(bucket, batch) {
            return Ok(());
        }
        self.graphs.clear();
        let tokens = bucket.tokens.max(FIRST_TOKENS).next_power_of_two();
        let logits = bucket.logits.max(FIRST_TOKENS).next_power_of_two();
        let table = batch.blocks.len().max(self.blocks).max(FIRST_TABLE);
        self.scratch = Scratch::new(&self.stream, &self.network.sizes, tokens, logits, table)?;
        self.heads.reserve(&self.stream, self.scratch.logits_max())
    }

    /// Puts a step on the stream, as a graph where its sizes allow.
    fn start(&mut self, batch: &StepBatch, exact: Bucket) -> Result<(), CudaError> {
        let padded = exact.padded(self.options.graphs);
        let bucket = padded.unwrap_or(exact);
        self.reserve(&bucket, batch)?;
        let words = self
            .scratch
            .layout
            .pack(batch, &bucket, self.scratch.metadata_host.as_mut_slice());
        self.stream
            .upload(&self.scratch.metadata_host, &self.scratch.metadata, words)?;
        self.launch(Work::Step(bucket), padded.is_some())
    }

    /// Puts the heads that a step asks for behind it, over `rows` rows of logits.
    fn start_heads(&mut self, rows: usize, asked: Asked) -> Result<(), CudaError> {
        self.heads.expect(asked.heads);
        if asked.heads == 0 {
            return Ok(());
        }
        let graph = padded(rows, self.options.graphs);
        let bucket = HeadBucket {
            rows: graph.unwrap_or(rows),
            heads: asked.heads,
            drawn: asked.drawn,
        };
        self.launch(Work::Heads(bucket), graph.is_some())
    }

    /// Puts work on the stream, launch by launch or as a graph, which is recorded if it is not there.
    fn launch(&mut self, work: Work, as_graph: bool) -> Result<(), CudaError> {
        let Self {
            network,
            heads,
            scratch,
            stream,
            pools,
            graphs,
            ..
        } = self;
        let mut enqueue = || match work {
            Work::Step(bucket) => network.enqueue(stream, scratch, pools, bucket),
            Work::Heads(bucket) => heads.enqueue(stream, network, scratch, bucket),
        };
        if !as_graph {
            return enqueue();
        }
        if let Some(graph) = graphs.get(&work) {
            return stream.replay(graph);
        }
        let graph = stream.record(enqueue)?;
        stream.replay(&graph)?;
        graphs.insert(work, graph);
        Ok(())
    }

    /// Copies the rows of logits that the host needs whole, one after the other.
    fn copy_logits(&mut self) -> Result<(), CudaError> {
        let (vocabulary, width) = (self.info.vocabulary as usize, self.network.sizes.logits_width());
        let needed = self.on_host.len() * vocabulary;
        if needed > self.logits_host.len() {
            self.logits_host = Pinned::new(self.stream.device(), needed.next_power_of_two(), "logits")?;
        }
        for (place, row) in self.on_host.iter().enumerate() {
            let (first, at) = (row * width, place * vocabulary);
            self.stream
                .download(&self.scratch.logits, first, &mut self.logits_host, at, vocabulary)?;
        }
        Ok(())
    }

    /// The candidate of each row.
    fn sample(&mut self, batch: &StepBatch, asks: &[RowAsk<'_>], out: &mut StepOutput) {
        let mut whole = Whole::new(&self.on_host, self.logits_host.as_slice(), self.info.vocabulary);
        for (row, (position, ask)) in candidate_positions(batch).zip(asks).enumerate() {
            let candidate = match whole.row(row) {
                Some(logits) => self.sampler.sample(logits, ask, position),
                None => RowSummary::of(&self.scratch, row).candidate(),
            };
            out.candidates.push(candidate.unwrap_or(0));
            out.finite.push(candidate.is_some());
        }
    }

    /// What each row's plan asks for, once candidates and scores are there.
    fn append(
        &mut self,
        batch: &StepBatch,
        asks: &[RowAsk<'_>],
        plans: &[Vec<Signal>],
        top: bool,
        out: &mut StepOutput,
    ) {
        let heads = &self.heads;
        let mut whole = Whole::new(&self.on_host, self.logits_host.as_slice(), self.info.vocabulary);
        for (row, (position, ask)) in candidate_positions(batch).zip(asks).enumerate() {
            if !heads.finite(ask.plan, row) {
                (out.candidates[row], out.finite[row]) = (0, false);
            }
            let (plan, finite) = (&plans[ask.plan as usize], out.finite[row]);
            let key = SignalKey {
                seed: ask.seed,
                position,
                newlines: ask.newlines,
            };
            let score = |head: &str| heads.score(head, row);
            if let Some(logits) = whole.row(row) {
                self.signals
                    .append(plan, finite.then_some(logits), key, score, &mut out.signals);
                if let (Some(top), true) = (ask.logprobs, finite) {
                    logprobs::append(logits, out.candidates[row], top, &mut self.tokens, &mut out.logprobs);
                }
            } else {
                let ranks = match top {
                    true => &self.scratch.top_host.as_slice()[row * TOP_KEPT..][..TOP_KEPT],
                    false => &[],
                };
                let mut summary = RowSummary::of(&self.scratch, row);
                summary.finite = finite;
                summary.append(plan, ranks, self.info.vocabulary as usize, key, score, &mut out.signals);
            }
            out.end_row();
        }
    }
}

impl std::fmt::Debug for CudaRunner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "a model of {} parameters on {:?}",
            self.info.parameters,
            self.stream.device()
        )
    }
}

impl Runner for CudaRunner {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn allocate(&mut self, blocks: usize) -> Result<(), ModelError> {
        self.graphs.clear();
        self.pools.clear();
        self.blocks = 0;
        let sizes = &self.network.sizes;
        for _ in 0..sizes.layers {
            let pool = Buffer::zeroed::<half::bf16>(&self.stream, blocks * sizes.block_len(), "the KV pool");
            self.pools.push(pool?);
        }
        self.stream.wait()?;
        self.blocks = blocks;
        Ok(())
    }

    fn add_head(&mut self, name: &str, file: HeadFile) -> Result<(), HeadError> {
        let target = HeadTarget {
            hidden_size: self.network.sizes.hidden,
            vocabulary: self.network.sizes.vocabulary,
        };
        self.graphs.clear();
        let rows = self.scratch.logits_max();
        self.heads.add(&self.stream, name, file, target, rows)
    }

    fn step(
        &mut self,
        batch: &StepBatch,
        asks: &[RowAsk<'_>],
        plans: &[Vec<Signal>],
        out: &mut StepOutput,
    ) -> Result<(), ModelError> {
        out.clear();
        check::step(batch, asks, plans, &self.info, self.blocks, |name| self.heads.has(name))?;
        if batch.tokens.is_empty() {
            return Ok(());
        }
        self.stream.device().bind()?;
        let vocabulary = self.info.vocabulary as usize;
        let plan_of = |ask: &RowAsk<'_>| plans[ask.plan as usize].as_slice();
        let drawn = |ask: &RowAsk<'_>| !ask.sampling.is_greedy() || ask.shaping.is_some() || ask.allowed.is_some();
        let host = |ask: &RowAsk<'_>| drawn(ask) || ask.logprobs.is_some() || !top_fits(plan_of(ask), vocabulary);
        self.on_host.clear();
        self.on_host
            .extend(asks.iter().enumerate().filter(|(_, ask)| host(ask)).map(|(row, _)| row));
        let asked = self.heads.ask(asks, plans, drawn);
        let top = asked.logits || asks.iter().any(|ask| !host(ask) && top_needed(plan_of(ask)) > 0);
        let early = if asked.drawn { Asked::default() } else { asked };
        // Whatever was put on the stream must be over before host memory it copies to is used again, failed or not.
        let started = self
            .start(batch, Bucket::exact(batch, top))
            .and_then(|()| self.start_heads(asks.len(), early))
            .and_then(|()| self.copy_logits());
        let ended = self.stream.wait();
        started.and(ended)?;
        self.sample(batch, asks, out);
        if asked.drawn {
            let given = self.heads.give_candidates(&self.stream, &out.candidates);
            let started = given.and_then(|()| self.start_heads(asks.len(), asked));
            let ended = self.stream.wait();
            started.and(ended)?;
        }
        self.append(batch, asks, plans, top, out);
        Ok(())
    }
}

impl Drop for CudaRunner {
    fn drop(&mut self) {
        // Nothing may run on buffers that are about to go; a device that fails here has been reported by the step.
        let _ = self.stream.wait();
    }
}
