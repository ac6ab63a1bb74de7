//! The configuration of a decoder: Hugging Face's `config.json`, for every member of the family.

mod rope;

use serde::Deserialize;
use serde_json::Value;
use tokenrouter_core::TokenId;

pub use rope::RopeScaling;

use crate::error::ModelError;

/// The values of `model_type` with a decoder in this crate.
pub const ARCHITECTURES: [&str; 3] = ["qwen3", "qwen2", "llama"];

/// What tells the members of the family apart, besides sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// A norm of every query and key head, no biases.
    Qwen3,
    /// Biases at queries, keys and values. Also Qwen2.5, and R1-Distill-Qwen.
    Qwen2,
    /// Neither, or with `attention_bias` biases at all four projections of attention. Also SmolLM2.
    Llama,
}

/// Sizes and constants of a decoder, under the names of Hugging Face's `config.json`.
#[derive(Clone, Debug, PartialEq)]
pub struct DecoderConfig {
    /// Which member of the family.
    pub architecture: Architecture,
    /// Width of the logits and rows of the embedding table. May be more than the tokenizer has tokens.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width between the two halves of a feed-forward network.
    pub intermediate_size: usize,
    /// Number of layers.
    pub num_hidden_layers: usize,
    /// Query heads.
    pub num_attention_heads: usize,
    /// Key and value heads; each serves `num_attention_heads / num_key_value_heads` query heads.
    pub num_key_value_heads: usize,
    /// Width of a head. Qwen3 states it: it is not always `hidden_size / num_attention_heads`.
    pub head_dim: usize,
    /// Most positions of a sequence.
    pub max_position_embeddings: usize,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// What is done to them for long contexts.
    pub rope_scaling: RopeScaling,
    /// Added to the mean square in every RMS norm.
    pub rms_norm_eps: f64,
    /// Whether the head is the embedding table.
    pub tie_word_embeddings: bool,
    /// Whether the projection behind attention has a bias.
    pub output_bias: bool,
    /// Token ids that end an answer. The file has one number, a list, or nothing.
    pub eos_token_id: Vec<TokenId>,
    /// Token id that begins a sequence, if the model has one.
    pub bos_token_id: Option<TokenId>,
}

/// The file, as far as it is read.
#[derive(Deserialize)]
struct File {
    vocab_size: usize,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    #[serde(default = "default_positions")]
    max_position_embeddings: usize,
    rope_theta: Option<f64>,
    #[serde(default = "default_eps")]
    rms_norm_eps: f64,
    tie_word_embeddings: Option<bool>,
    #[serde(default, deserialize_with = "one_or_many")]
    eos_token_id: Vec<TokenId>,
    #[serde(default)]
    bos_token_id: Option<TokenId>,
    hidden_act: Option<String>,
    attention_bias: Option<bool>,
    mlp_bias: Option<bool>,
    use_sliding_window: Option<bool>,
    rope_interleaved: Option<bool>,
    rope_scaling: Option<Value>,
    /// How later versions of `transformers` write `rope_theta` and `rope_scaling`.
    rope_parameters: Option<Value>,
    quantization_config: Option<Value>,
}

/// Where a file is silent, `transformers` has these.
fn default_positions() -> usize {
    2_048
}

fn default_eps() -> f64 {
    1e-6
}

impl File {
    /// What the decoder cannot honour is refused, because ignoring it would give wrong text without a sign.
    fn check(&self, architecture: Architecture) -> Result<(), String> {
        if let Some(act) = self.hidden_act.as_deref().filter(|act| *act != "silu") {
            return Err(format!("hidden_act \"{act}\" is not supported, expected \"silu\""));
        }
        if architecture != Architecture::Llama && self.attention_bias == Some(true) {
            return Err("attention_bias true is not supported, expected false".to_owned());
        }
        for (name, value) in [
            ("mlp_bias", self.mlp_bias),
            ("use_sliding_window", self.use_sliding_window),
            ("rope_interleaved", self.rope_interleaved),
        ] {
            if value == Some(true) {
                return Err(format!("{name} true is not supported, expected false"));
            }
        }
        match self.quantization_config.as_ref().filter(|value| !value.is_null()) {
            Some(config) => Err(format!(
                "quantization_config with quant_method {} is not supported; expected weights in BF16, F16 or F32, or a GGUF file",
                config["quant_method"]
            )),
            None => Ok(()),
        }
    }
}

impl DecoderConfig {
    /// Reads `config.json`; `file` names it in errors.
    ///
    /// # Errors
    /// When it is not JSON, lacks a field, is of another architecture, or has a value that would be computed wrongly.
    pub fn parse(json: &[u8], file: &str) -> Result<Self, ModelError> {
        #[derive(Deserialize)]
        struct Kind {
            model_type: String,
        }
        let broken = |source| ModelError::Json {
            file: file.to_owned(),
            source,
        };
        let kind: Kind = serde_json::from_slice(json).map_err(broken)?;
        let architecture = match kind.model_type.as_str() {
            "qwen3" => Architecture::Qwen3,
            "qwen2" => Architecture::Qwen2,
            "llama" => Architecture::Llama,
            _ => {
                return Err(ModelError::Architecture {
                    file: file.to_owned(),
                    found: kind.model_type,
                    supported: ARCHITECTURES.join(", "),
                });
            }
        };
        let read: File = serde_json::from_slice(json).map_err(broken)?;
        let wrong = |what| ModelError::Config {
            file: file.to_owned(),
            what,
        };
        let config = Self::new(architecture, read).map_err(wrong)?;
        config.check().map_err(wrong)?;
        Ok(config)
    }

    fn new(architecture: Architecture, read: File) -> Result<Self, String> {
        read.check(architecture)?;
        let head_dim = match (read.head_dim, architecture) {
            (Some(head_dim), _) => head_dim,
            // The default of `transformers`, whatever the other sizes.
            (None, Architecture::Qwen3) => 128,
            (None, _) => read.hidden_size / read.num_attention_heads.max(1),
        };
        let parameters = read.rope_parameters.unwrap_or_default();
        let scaling = match &read.rope_scaling {
            Some(scaling) if !scaling.is_null() => scaling,
            _ => &parameters,
        };
        Ok(Self {
            architecture,
            vocab_size: read.vocab_size,
            hidden_size: read.hidden_size,
            intermediate_size: read.intermediate_size,
            num_hidden_layers: read.num_hidden_layers,
            num_attention_heads: read.num_attention_heads,
            num_key_value_heads: read.num_key_value_heads.unwrap_or(read.num_attention_heads),
            head_dim,
            max_position_embeddings: read.max_position_embeddings,
            rope_theta: read
                .rope_theta
                .or_else(|| parameters["rope_theta"].as_f64())
                .unwrap_or(10_000.0),
            rope_scaling: RopeScaling::parse(scaling, read.max_position_embeddings)?,
            rms_norm_eps: read.rms_norm_eps,
            tie_word_embeddings: read.tie_word_embeddings.unwrap_or(false),
            output_bias: architecture == Architecture::Llama && read.attention_bias == Some(true),
            eos_token_id: read.eos_token_id,
            bos_token_id: read.bos_token_id,
        })
    }

    /// Whether queries, keys and values have a bias.
    pub fn qkv_bias(&self) -> bool {
        self.architecture == Architecture::Qwen2 || self.output_bias
    }

    /// Whether every query and key head is normalised.
    pub fn head_norms(&self) -> bool {
        self.architecture == Architecture::Qwen3
    }

    /// Sizes that no decoder can have are refused.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (name, value) in [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("num_key_value_heads", self.num_key_value_heads),
            ("head_dim", self.head_dim),
            ("max_position_embeddings", self.max_position_embeddings),
        ] {
            if value == 0 || value > i32::MAX as usize {
                return Err(format!("{name} is {value}, expected 1 to {}", i32::MAX));
            }
        }
        if !self.num_attention_heads.is_multiple_of(self.num_key_value_heads) {
            return Err(format!(
                "num_attention_heads ({}) is not a multiple of num_key_value_heads ({})",
                self.num_attention_heads, self.num_key_value_heads
            ));
        }
        if !self.head_dim.is_multiple_of(2) {
            return Err(format!("head_dim is {}, expected an even number", self.head_dim));
        }
        if !(self.rope_theta.is_finite() && self.rope_theta > 0.0) {
            return Err(format!("rope_theta is {}, expected a positive number", self.rope_theta));
        }
        if !(self.rms_norm_eps.is_finite() && self.rms_norm_eps >= 0.0) {
            return Err(format!(
                "rms_norm_eps is {}, expected zero or a positive number",
                self.rms_norm_eps
            ));
        }
        let vocabulary = self.vocab_size;
        for id in self.eos_token_id.iter().chain(&self.bos_token_id) {
            if *id as usize >= vocabulary {
                return Err(format!(
                    "token id {id} of eos_token_id or bos_token_id is not below vocab_size {vocabulary}"
                ));
            }
        }
        Ok(())
    }

    /// Parameters of the decoder; a tied head counts once.
    pub fn parameters(&self) -> u64 {
        let (hidden, head) = (self.hidden_size as u64, self.head_dim as u64);
        let heads = (self.num_attention_heads + self.num_key_value_heads) as u64;
        let (q, kv) = (
            self.num_attention_heads as u64 * head,
            self.num_key_value_heads as u64 * head,
        );
        let mut attention = 2 * heads * head * hidden;
        attention += if self.head_norms() { 2 * head } else { 0 };
        attention += if self.qkv_bias() { q + 2 * kv } else { 0 };
        attention += if self.output_bias { hidden } else { 0 };
        let feed_forward = 3 * hidden * self.intermediate_size as u64;
        let tables = if self.tie_word_embeddings { 1 } else { 2 };
        let layer = attention + feed_forward + 2 * hidden;
        self.num_hidden_layers as u64 * layer + tables * hidden * self.vocab_size as u64 + hidden
    }
}

fn one_or_many<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<TokenId>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a token id, a list of token ids or null")]
    enum Ids {
        One(TokenId),
        Many(Vec<TokenId>),
    }
    Ok(match Option::<Ids>::deserialize(deserializer)? {
        None => Vec::new(),
        Some(Ids::One(id)) => vec![id],
        Some(Ids::Many(ids)) => ids,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TINY: &str = include_str!("../../../../models/tiny/large/config.json");

    fn with(key: &str, value: Value) -> Result<DecoderConfig, String> {
        let mut json: Value = serde_json::from_str(TINY).unwrap();
        json[key] = value;
        DecoderConfig::parse(json.to_string().as_bytes(), "config.json").map_err(|error| error.to_string())
    }

    #[test]
    fn end_tokens_may_be_a_number_a_list_or_nothing() {
        assert_eq!(with("eos_token_id", 1.into()).unwrap().eos_token_id, [1]);
        assert_eq!(with("eos_token_id", vec![1, 3].into()).unwrap().eos_token_id, [1, 3]);
        assert!(with("eos_token_id", Value::Null).unwrap().eos_token_id.is_empty());
        assert!(
            with("eos_token_id", "x".into())
                .unwrap_err()
                .contains("a list of token ids")
        );
        assert!(
            with("eos_token_id", 64.into())
                .unwrap_err()
                .contains("not below vocab_size 64")
        );
    }

    #[test]
    fn what_cannot_be_computed_is_refused_by_name() {
        for (key, value, message) in [
            (
                "model_type",
                "mamba".into(),
                "model_type \"mamba\" is not supported; supported: qwen3, qwen2, llama",
            ),
            ("hidden_act", "gelu".into(), "hidden_act \"gelu\""),
            ("attention_bias", true.into(), "attention_bias true"),
            ("use_sliding_window", true.into(), "use_sliding_window true"),
            (
                "rope_scaling",
                serde_json::json!({"factor": 4.0}),
                "rope_scaling of type null is not supported, expected default, linear, llama3 or yarn",
            ),
            (
                "num_key_value_heads",
                3.into(),
                "not a multiple of num_key_value_heads (3)",
            ),
            ("head_dim", 63.into(), "head_dim is 63, expected an even number"),
            ("hidden_size", 0.into(), "hidden_size is 0"),
            ("rope_theta", (-1.0).into(), "rope_theta is -1"),
            ("vocab_size", Value::Null, "config.json is not the JSON expected"),
        ] {
            let error = with(key, value).unwrap_err();
            assert!(error.contains(message), "{key}: {error}");
        }
        let cut = DecoderConfig::parse(&TINY.as_bytes()[..100], "config.json")
            .unwrap_err()
            .to_string();
        assert!(cut.contains("config.json is not the JSON expected"), "{cut}");
    }

    /// As published: what each family writes, and what it leaves out.
    #[test]
    fn every_member_of_the_family_is_told_apart() {
        let llama = r#"{"model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536,
            "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "rms_norm_eps": 1e-5,
            "max_position_embeddings": 8192, "rope_theta": 100000, "rope_interleaved": false, "rope_scaling": null,
            "tie_word_embeddings": true, "hidden_act": "silu", "bos_token_id": 1, "eos_token_id": 2}"#;
        let parse =
            |text: &str| DecoderConfig::parse(text.as_bytes(), "config.json").map_err(|error| error.to_string());
        let smollm2 = parse(llama).unwrap();
        assert_eq!(
            (smollm2.head_dim, smollm2.qkv_bias(), smollm2.head_norms()),
            (64, false, false)
        );
        assert_eq!(smollm2.parameters() / 1_000, 134_515);
        let qwen2 = parse(&llama.replace("llama", "qwen2")).unwrap();
        assert_eq!((qwen2.qkv_bias(), qwen2.output_bias), (true, false));
        let biased = parse(&llama.replace("\"hidden_act\"", "\"attention_bias\": true, \"hidden_act\"")).unwrap();
        assert!(biased.qkv_bias() && biased.output_bias);
        let old = parse(&llama.replace("\"num_key_value_heads\": 3,", "")).unwrap();
        assert_eq!(old.num_key_value_heads, 9);
        for (key, message) in [
            ("rope_interleaved\": true", "rope_interleaved true"),
            ("mlp_bias\": true", "mlp_bias true"),
            (
                "quantization_config\": {\"quant_method\": \"awq\"}",
                "quant_method \"awq\"",
            ),
        ] {
            let text = llama.replace("rope_interleaved\": false", key);
            assert!(parse(&text).unwrap_err().contains(message), "{key}");
        }
    }

    /// The numbers that the models' own description gives, in millions.
    #[test]
    fn parameters_are_counted() {
        let config = DecoderConfig::parse(TINY.as_bytes(), "config.json").unwrap();
        assert_eq!((config.parameters() as f64 / 1e4).round(), 474.0);
    }
}
