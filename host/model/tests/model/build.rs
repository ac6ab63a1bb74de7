//! What the tests build: random models, batches, and random numbers that a seed repeats.

use std::collections::HashMap;

use safetensors::tensor::{Dtype, TensorView, serialize};
use tokenrouter_core::draw::{Purpose, bits, uniform_f32};
use tokenrouter_core::step::{StepBatch, StepRow};
use tokenrouter_core::{BlockId, RequestId, TokenId};
use tokenrouter_model::config::DecoderConfig;
use tokenrouter_model::weights::Weights;

/// Random numbers from a seed.
pub struct Random {
    pub seed: u64,
    next: u64,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Self { seed, next: 0 }
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.next += 1;
        (bits(self.seed, self.next, Purpose::Policy(0)) % n as u64) as usize
    }

    pub fn float(&mut self) -> f32 {
        self.next += 1;
        uniform_f32(self.seed, self.next, Purpose::Policy(0)) * 2.0 - 1.0
    }

    pub fn tokens(&mut self, len: usize, vocabulary: usize) -> Vec<TokenId> {
        (0..len).map(|_| self.below(vocabulary) as TokenId).collect()
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

/// A model with random weights, as files would hold it.
pub struct RandomModel {
    pub config_json: String,
    pub safetensors: Vec<u8>,
}

/// Sizes that are no multiples of a vector's width, so that the ends of rows are computed too.
pub const ODD: [usize; 8] = [37, 44, 52, 2, 6, 3, 6, 100];
/// Sizes of the usual kind, with one head of keys for all queries.
pub const EVEN: [usize; 8] = [96, 64, 128, 3, 4, 1, 16, 128];

/// As `ODD` and `EVEN` for architectures whose heads are as wide as the residual stream together.
pub const ODD_WHOLE: [usize; 8] = [37, 36, 52, 2, 6, 3, 6, 100];
pub const EVEN_WHOLE: [usize; 8] = [96, 64, 128, 3, 4, 2, 16, 128];

impl RandomModel {
    /// A Qwen3 model. `sizes`: vocabulary, hidden, intermediate, layers, heads, kv heads, head_dim, positions.
    pub fn new(sizes: [usize; 8], tied: bool, random: &mut Random) -> Self {
        Self::of("qwen3", sizes, tied, &serde_json::Value::Null, random)
    }

    /// A model of an architecture, with a value for `rope_scaling`.
    pub fn of(kind: &str, sizes: [usize; 8], tied: bool, rope: &serde_json::Value, random: &mut Random) -> Self {
        let [vocabulary, hidden, inner, layers, heads, kv_heads, head_dim, positions] = sizes;
        let config = serde_json::json!({
            "model_type": kind, "vocab_size": vocabulary, "hidden_size": hidden, "intermediate_size": inner,
            "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
            "head_dim": head_dim, "max_position_embeddings": positions, "rope_theta": 10000.0, "rms_norm_eps": 1e-6,
            "tie_word_embeddings": tied, "attention_bias": false, "use_sliding_window": false, "max_window_layers": 0,
            "rope_scaling": rope, "hidden_act": "silu", "eos_token_id": [1, 3], "bos_token_id": 2
        });
        let mut shapes = vec![
            ("model.embed_tokens".to_owned(), vec![vocabulary, hidden]),
            ("model.norm".to_owned(), vec![hidden]),
        ];
        if !tied {
            shapes.push(("lm_head".to_owned(), vec![vocabulary, hidden]));
        }
        for layer in 0..layers {
            for (name, shape) in [
                ("input_layernorm", vec![hidden]),
                ("post_attention_layernorm", vec![hidden]),
                ("self_attn.q_norm", vec![head_dim]),
                ("self_attn.k_norm", vec![head_dim]),
                ("self_attn.q_proj", vec![heads * head_dim, hidden]),
                ("self_attn.k_proj", vec![kv_heads * head_dim, hidden]),
                ("self_attn.v_proj", vec![kv_heads * head_dim, hidden]),
                ("self_attn.o_proj", vec![hidden, heads * head_dim]),
                ("mlp.gate_proj", vec![inner, hidden]),
                ("mlp.up_proj", vec![inner, hidden]),
                ("mlp.down_proj", vec![hidden, inner]),
            ] {
                if name.ends_with("_norm") && kind != "qwen3" {
                    continue;
                }
                shapes.push((format!("model.layers.{layer}.{name}"), shape));
            }
        }
        let mut shapes: Vec<_> = shapes
            .into_iter()
            .map(|(name, shape)| (format!("{name}.weight"), shape))
            .collect();
        if kind == "qwen2" {
            for layer in 0..layers {
                for (name, width) in [("q", heads), ("k", kv_heads), ("v", kv_heads)] {
                    let name = format!("model.layers.{layer}.self_attn.{name}_proj.bias");
                    shapes.push((name, vec![width * head_dim]));
                }
            }
        }
        let tensors: HashMap<String, (Vec<usize>, Vec<u8>)> = shapes
            .into_iter()
            .map(|(name, shape)| {
                // Norms and biases around 1, matrices so that a product keeps its size.
                let (base, scale) = if shape.len() == 1 {
                    (1.0, 0.3)
                } else {
                    (0.0, 2.0 / (shape[1] as f32).sqrt())
                };
                let elements: usize = shape.iter().product();
                let data = (0..elements)
                    .flat_map(|_| (base + scale * random.float()).to_le_bytes())
                    .collect();
                (name, (shape, data))
            })
            .collect();
        Self {
            config_json: config.to_string(),
            safetensors: file(tensors.iter()),
        }
    }

    pub fn config(&self) -> DecoderConfig {
        DecoderConfig::parse(self.config_json.as_bytes(), "config.json").unwrap()
    }

    pub fn weights(&self) -> Weights {
        let mut weights = Weights::new("random");
        weights.add(&self.safetensors, "random.safetensors").unwrap();
        weights
    }
}

/// A safetensors file of f32 tensors.
pub fn file<'a>(tensors: impl Iterator<Item = (&'a String, &'a (Vec<usize>, Vec<u8>))>) -> Vec<u8> {
    let views = tensors.map(|(name, (shape, data))| (name, TensorView::new(Dtype::F32, shape.clone(), data).unwrap()));
    serialize(views.collect::<Vec<_>>(), None).unwrap()
}

/// Appends a row to a batch.
pub fn push_row(
    batch: &mut StepBatch,
    request: u64,
    position: usize,
    tokens: &[TokenId],
    blocks: &[BlockId],
    logits: usize,
) {
    let first = batch.tokens.len() as u32;
    let start = batch.blocks.len() as u32;
    batch.tokens.extend(tokens);
    batch.blocks.extend(blocks);
    batch.rows.push(StepRow {
        request: RequestId(request),
        first,
        len: tokens.len() as u32,
        position: position as u32,
        logits: logits as u32,
        blocks: start..batch.blocks.len() as u32,
        shared: 0,
    });
}

/// A batch of one row.
pub fn one_row(position: usize, tokens: &[TokenId], blocks: &[BlockId], logits: usize) -> StepBatch {
    let mut batch = StepBatch::default();
    push_row(&mut batch, 1, position, tokens, blocks, logits);
    batch
}

/// Blocks `from..to`.
pub fn blocks(range: std::ops::Range<u32>) -> Vec<BlockId> {
    range.map(BlockId).collect()
}
