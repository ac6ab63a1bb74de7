//! What a model computes along a text that is given to it: teacher forcing.

use tokenrouter_core::limits::KV_BLOCK_TOKENS;
use tokenrouter_core::step::{StepBatch, StepRow};
use tokenrouter_core::{BlockId, RequestId, TokenId};

use crate::config::DecoderConfig;
use crate::decoder::{Decoder, KvPool, Outputs};
use crate::descending::Descending;
use crate::error::ModelError;
use crate::source::Source;

/// What the model computed where it was to choose one token of the text.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Hidden state after the final norm.
    pub hidden: Vec<f32>,
    /// Its own greedy choice.
    pub candidate: TokenId,
    /// The candidate's row of the input embedding table.
    pub embedding: Vec<f32>,
    /// The largest logits, descending.
    pub top_logits: Vec<f32>,
}

/// A model on the CPU that reads texts, one at a time.
#[derive(Debug)]
pub struct Observer {
    config: DecoderConfig,
    decoder: Decoder,
    kv: KvPool,
}

impl Observer {
    /// Loads a model.
    ///
    /// # Errors
    /// When its files are missing, damaged or of a kind that cannot be served.
    pub fn load(source: &Source) -> Result<Self, ModelError> {
        let config = source.config()?;
        let decoder = Decoder::new(&config, &mut source.weights()?)?;
        Ok(Self {
            kv: KvPool::new(&config, config.max_position_embeddings.div_ceil(KV_BLOCK_TOKENS))?,
            config,
            decoder,
        })
    }

    /// Width of its hidden states.
    pub fn hidden_size(&self) -> usize {
        self.config.hidden_size
    }

    /// Width of its logits.
    pub fn vocabulary(&self) -> usize {
        self.config.vocab_size
    }

    /// What it computes before each token of `answer`, after `prompt` and the answer so far. `top` logits are kept.
    ///
    /// # Errors
    /// When the text is longer than the model's context, has no prompt, or a token is none of its vocabulary.
    pub fn observe(
        &mut self,
        prompt: &[TokenId],
        answer: &[TokenId],
        top: usize,
    ) -> Result<Vec<Observation>, ModelError> {
        let Some((_, fed)) = answer.split_last() else {
            return Ok(Vec::new());
        };
        let tokens: Vec<TokenId> = prompt.iter().chain(fed).copied().collect();
        let len = tokens.len();
        if prompt.is_empty() || len > self.config.max_position_embeddings {
            return Err(ModelError::Step(format!(
                "a text of {} tokens of prompt and {} of answer; expected a prompt, and at most {} positions",
                prompt.len(),
                answer.len(),
                self.config.max_position_embeddings
            )));
        }
        if let Some(token) = tokens.iter().find(|token| **token as usize >= self.config.vocab_size) {
            let vocabulary = self.config.vocab_size;
            return Err(ModelError::Step(format!("token {token} is not below {vocabulary}")));
        }
        let blocks = len.div_ceil(KV_BLOCK_TOKENS) as u32;
        let batch = StepBatch {
            tokens,
            rows: vec![StepRow {
                request: RequestId(0),
                first: 0,
                len: len as u32,
                position: 0,
                logits: answer.len() as u32,
                blocks: 0..blocks,
                shared: 0,
            }],
            blocks: (0..blocks).map(BlockId).collect(),
        };
        let Outputs { hidden, logits } = self.decoder.forward(&batch, &mut self.kv);
        let (hidden_size, vocabulary) = (self.config.hidden_size, self.config.vocab_size);
        let mut order = Descending::default();
        let mut observations: Vec<Observation> = hidden
            .chunks_exact(hidden_size)
            .zip(logits.chunks_exact(vocabulary))
            .map(|(hidden, logits)| {
                order.fill(logits, |_| true);
                let largest = order.first(top.max(1));
                let candidate = largest[0].1;
                Observation {
                    hidden: hidden.to_vec(),
                    candidate,
                    embedding: vec![0.0; hidden_size],
                    top_logits: largest[..top.min(largest.len())]
                        .iter()
                        .map(|(logit, _)| *logit)
                        .collect(),
                }
            })
            .collect();
        for observation in &mut observations {
            self.decoder.embed(observation.candidate, &mut observation.embedding);
        }
        Ok(observations)
    }
}
