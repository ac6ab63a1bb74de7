//! What an engine asks of a model: one trait, served by decoders and by a runner without weights.

use tokenrouter_core::TokenId;
use tokenrouter_core::signal::Signal;
use tokenrouter_core::step::StepBatch;

use crate::config::DecoderConfig;
use crate::error::ModelError;
use crate::grammar::TokenMask;
use crate::heads::{HeadError, HeadFile};
use crate::logprobs::TokenLogprob;
use crate::shaping::Shaping;

/// How a candidate is drawn from the logits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Divides the logits. Below [`Sampling::TEMPERATURE_MIN`] the draw is greedy: the largest logit, of several the
    /// one with the smallest token id.
    pub temperature: f32,
    /// Keep the most probable tokens whose probabilities reach this sum. 1 or more: all.
    pub top_p: f32,
    /// Keep this many of the most probable tokens. 0: all.
    pub top_k: u32,
    /// Keep tokens at least this fraction as probable as the most probable one. 0: all.
    pub min_p: f32,
}

impl Sampling {
    /// Temperatures below this are greedy: dividing by them would overflow long before the law differs.
    pub const TEMPERATURE_MIN: f32 = 1e-5;

    /// The largest logit, always.
    pub const GREEDY: Self = Self {
        temperature: 0.0,
        top_p: 1.0,
        top_k: 0,
        min_p: 0.0,
    };

    /// Whether no draw is made. A temperature that is not a number counts as greedy.
    pub fn is_greedy(&self) -> bool {
        self.temperature.is_nan() || self.temperature < Self::TEMPERATURE_MIN
    }
}

/// What is asked of one row of logits.
#[derive(Clone, Copy, Debug)]
pub struct RowAsk<'a> {
    /// How its candidate is drawn.
    pub sampling: Sampling,
    /// The request's seed, part of the key of every draw.
    pub seed: u64,
    /// Index of the row's signals in the step's `plans`.
    pub plan: u32,
    /// The signal `newlines`: how many newlines the committed text ends with, at most 2.
    pub newlines: u8,
    /// What the request does to the logits before the draw. Signals and log-probabilities are of the raw logits.
    pub shaping: Option<&'a Shaping>,
    /// The only tokens that may be drawn, where an answer has a format.
    pub allowed: Option<&'a TokenMask>,
    /// Log-probabilities wanted: the candidate's, and so many of the most probable tokens.
    pub logprobs: Option<u32>,
}

impl RowAsk<'_> {
    /// The largest logit, and nothing else; a base for others.
    pub const GREEDY: Self = Self {
        sampling: Sampling::GREEDY,
        seed: 0,
        plan: 0,
        newlines: 0,
        shaping: None,
        allowed: None,
        logprobs: None,
    };
}

/// A step's result, one entry a row of logits. The vectors are kept and refilled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepOutput {
    /// The candidate of each row.
    pub candidates: Vec<TokenId>,
    /// The signals of all rows, one row after the other; a row's columns stand in the order of its plan.
    pub signals: Vec<f32>,
    /// Where each row's signals begin in [`StepOutput::signals`], and where the last row's end: rows + 1.
    pub signal_starts: Vec<u32>,
    /// Whether a row's numbers can be used: its logits are a distribution (no NaN, no positive infinity, not nothing but
    /// negative infinities), and no score of a head is a NaN or infinite. Where it is not so, the candidate is 0, signals of
    /// the logits and scores are 0, and the request must end.
    pub finite: Vec<bool>,
    /// Log-probabilities of all rows that asked, one row after the other: the candidate, then the most probable tokens.
    pub logprobs: Vec<TokenLogprob>,
    /// Where each row's log-probabilities begin in [`StepOutput::logprobs`], and where the last row's end: rows + 1.
    pub logprob_starts: Vec<u32>,
}

impl StepOutput {
    /// Empties the output and keeps its memory.
    pub fn clear(&mut self) {
        self.candidates.clear();
        self.signals.clear();
        self.signal_starts.clear();
        self.signal_starts.push(0);
        self.finite.clear();
        self.logprobs.clear();
        self.logprob_starts.clear();
        self.logprob_starts.push(0);
    }

    /// The signals of a row.
    pub fn row_signals(&self, row: usize) -> &[f32] {
        &self.signals[self.signal_starts[row] as usize..self.signal_starts[row + 1] as usize]
    }

    /// The log-probabilities of a row; empty if it did not ask, or if the model has no logits.
    pub fn row_logprobs(&self, row: usize) -> &[TokenLogprob] {
        &self.logprobs[self.logprob_starts[row] as usize..self.logprob_starts[row + 1] as usize]
    }

    /// Ends a row whose signals were appended to [`StepOutput::signals`], and log-probabilities to
    /// [`StepOutput::logprobs`].
    pub(crate) fn push(&mut self, candidate: TokenId, finite: bool) {
        self.candidates.push(candidate);
        self.finite.push(finite);
        self.end_row();
    }

    /// Ends the signals of a row whose candidate has been pushed before.
    pub(crate) fn end_row(&mut self) {
        self.signal_starts.push(self.signals.len() as u32);
        self.logprob_starts.push(self.logprobs.len() as u32);
    }
}

/// What is to be known of a model before it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelInfo {
    /// Number of parameters.
    pub parameters: u64,
    /// Width of the logits: token ids are below it.
    pub vocabulary: u32,
    /// Most positions of a sequence.
    pub context_max: u32,
    /// Bytes of the KV pool per position, all layers together.
    pub kv_bytes_per_token: u64,
    /// Token ids that end an answer.
    pub eos: Vec<TokenId>,
    /// Token id that begins a sequence, if the model has one.
    pub bos: Option<TokenId>,
}

impl ModelInfo {
    /// What a configuration says, with a pool of so many bytes per position.
    pub fn of(config: &DecoderConfig, kv_bytes_per_token: u64) -> Self {
        Self {
            parameters: config.parameters(),
            vocabulary: config.vocab_size as u32,
            context_max: config.max_position_embeddings as u32,
            kv_bytes_per_token,
            eos: config.eos_token_id.clone(),
            bos: config.bos_token_id,
        }
    }
}

/// One model with its KV pool. A runner works on the thread that calls it and is used by one at a time.
///
/// A row's candidate and signals depend on the row's request alone (its tokens, seed and sampling): not on the other
/// rows of the step, nor on how many steps its tokens were fed in, nor on which blocks it holds.
pub trait Runner: Send {
    /// What is to be known of the model.
    fn info(&self) -> &ModelInfo;

    /// Makes the KV pool: `blocks` blocks of [`tokenrouter_core::limits::KV_BLOCK_TOKENS`] positions. What an earlier
    /// pool held is lost. Also called when `step` has panicked, and must then leave the runner as if it were new.
    ///
    /// # Errors
    /// When it does not fit in memory.
    fn allocate(&mut self, blocks: usize) -> Result<(), ModelError>;

    /// Loads a head under a name, for plans that ask for its score. Names are the deployment's and differ.
    ///
    /// # Errors
    /// When the head does not fit the model, or the runner evaluates no heads.
    fn add_head(&mut self, name: &str, file: HeadFile) -> Result<(), HeadError> {
        let _ = (name, file);
        Err(HeadError::Runner)
    }

    /// Feeds every row's tokens, writes their KV into the row's blocks, and fills `out`. Nothing before a row's position is written: those
    /// blocks may be in other rows' tables, and keep what they hold for requests to come. Row `r` gives `r.logits` rows
    /// of logits, for its last positions: the first of `k` samples position `position + len - k + 1` of the
    /// sequence, the last `position + len`. `asks` has one entry for each, in the order of the batch.
    ///
    /// # Errors
    /// When the step contradicts itself, the model or the pool ([`ModelError::Step`]), or a plan names a head that
    /// is not loaded ([`ModelError::Head`]). What the step's rows have in the pool from their positions on is then undefined.
    fn step(
        &mut self,
        batch: &StepBatch,
        asks: &[RowAsk<'_>],
        plans: &[Vec<Signal>],
        out: &mut StepOutput,
    ) -> Result<(), ModelError>;
}
