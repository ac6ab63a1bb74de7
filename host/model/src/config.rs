//! The configuration of a Qwen3 decoder: Hugging Face's `config.json`.

use serde::Deserialize;
use tokenrouter_core::TokenId;

use crate::error::ModelError;

/// The values of `model_type` with a decoder in this crate.
pub const ARCHITECTURES: [&str; 1] = ["qwen3"];

/// Sizes and constants of a Qwen3 decoder, under the names of Hugging Face's `config.json`.
#[derive(Clone, Debug, Deserialize)]
pub struct Qwen3Config {
    /// Width of the logits and rows of the embedding table.
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
    /// Added to the mean square in every RMS norm.
    pub rms_norm_eps: f64,
    /// Whether the head is the embedding table.
    #[serde(default)]
    pub tie_word_embeddings: bool,
    /// Token ids that end an answer. The file has one number, a list, or nothing.
    #[serde(default, deserialize_with = "one_or_many")]
    pub eos_token_id: Vec<TokenId>,
    /// Token id that begins a sequence, if the model has one.
    #[serde(default)]
    pub bos_token_id: Option<TokenId>,
    #[serde(default)]
    hidden_act: Option<String>,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    use_sliding_window: bool,
    #[serde(default)]
    rope_scaling: Option<serde_json::Value>,
}

impl Qwen3Config {
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
        if !ARCHITECTURES.contains(&kind.model_type.as_str()) {
            let supported = ARCHITECTURES.join(", ");
            return Err(ModelError::Architecture {
                file: file.to_owned(),
                found: kind.model_type,
                supported,
            });
        }
        let config: Self = serde_json::from_slice(json).map_err(broken)?;
        config.check().map_err(|what| ModelError::Config {
            file: file.to_owned(),
            what,
        })?;
        Ok(config)
    }

    /// What the decoder cannot honour is refused, because ignoring it would give wrong text without a sign.
    fn check(&self) -> Result<(), String> {
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
        if let Some(act) = self.hidden_act.as_deref().filter(|act| *act != "silu") {
            return Err(format!("hidden_act \"{act}\" is not supported, expected \"silu\""));
        }
        if self.attention_bias {
            return Err("attention_bias true is not supported, expected false".to_owned());
        }
        if self.use_sliding_window {
            return Err("use_sliding_window true is not supported, expected false".to_owned());
        }
        if let Some(scaling) = self.rope_scaling.as_ref().filter(|value| !value.is_null()) {
            return Err(format!("rope_scaling {scaling} is not supported, expected null"));
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
        let attention = 2 * heads * head * hidden + 2 * head;
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

    const TINY: &str = include_str!("../../../models/tiny/large/config.json");

    fn with(key: &str, value: serde_json::Value) -> Result<Qwen3Config, String> {
        let mut json: serde_json::Value = serde_json::from_str(TINY).unwrap();
        json[key] = value;
        Qwen3Config::parse(json.to_string().as_bytes(), "config.json").map_err(|error| error.to_string())
    }

    #[test]
    fn end_tokens_may_be_a_number_a_list_or_nothing() {
        assert_eq!(with("eos_token_id", 1.into()).unwrap().eos_token_id, [1]);
        assert_eq!(with("eos_token_id", vec![1, 3].into()).unwrap().eos_token_id, [1, 3]);
        assert!(
            with("eos_token_id", serde_json::Value::Null)
                .unwrap()
                .eos_token_id
                .is_empty()
        );
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
                "model_type \"mamba\" is not supported; supported: qwen3",
            ),
            ("hidden_act", "gelu".into(), "hidden_act \"gelu\""),
            ("attention_bias", true.into(), "attention_bias true"),
            ("use_sliding_window", true.into(), "use_sliding_window true"),
            (
                "rope_scaling",
                serde_json::json!({"factor": 4.0}),
                "rope_scaling {\"factor\":4.0}",
            ),
            (
                "num_key_value_heads",
                3.into(),
                "not a multiple of num_key_value_heads (3)",
            ),
            ("head_dim", 63.into(), "head_dim is 63, expected an even number"),
            ("hidden_size", 0.into(), "hidden_size is 0"),
            ("rope_theta", (-1.0).into(), "rope_theta is -1"),
            (
                "vocab_size",
                serde_json::Value::Null,
                "config.json is not the JSON expected",
            ),
        ] {
            let error = with(key, value).unwrap_err();
            assert!(error.contains(message), "{key}: {error}");
        }
        let cut = Qwen3Config::parse(&TINY.as_bytes()[..100], "config.json")
            .unwrap_err()
            .to_string();
        assert!(cut.contains("config.json is not the JSON expected"), "{cut}");
    }

    /// The numbers that the models' own description gives, in millions.
    #[test]
    fn parameters_are_counted() {
        let config = Qwen3Config::parse(TINY.as_bytes(), "config.json").unwrap();
        assert_eq!((config.parameters() as f64 / 1e4).round(), 474.0);
    }
}
