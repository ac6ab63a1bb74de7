//! The configuration of a model in a GGUF file.

use tokenrouter_core::TokenId;

use super::GgufFile;
use crate::config::{ARCHITECTURES, Architecture, DecoderConfig, RopeScaling};
use crate::error::ModelError;

/// Reads it from the header's fields, which are named after the architecture.
pub(super) fn read(file: &GgufFile) -> Result<DecoderConfig, ModelError> {
    let metadata = file.metadata();
    let kind = metadata.string("general.architecture")?.unwrap_or_default();
    let architecture = match kind {
        "llama" => Architecture::Llama,
        "qwen2" => Architecture::Qwen2,
        "qwen3" => Architecture::Qwen3,
        other => {
            let supported = ARCHITECTURES.join(", ");
            return Err(metadata.wrong(format!(
                "architecture \"{other}\" is not supported; supported: {supported}"
            )));
        }
    };
    let key = |name: &str| format!("{kind}.{name}");
    if metadata.number(&key("expert_count"))?.is_some_and(|count| count > 0) {
        return Err(metadata.wrong("it is a mixture of experts, which is not supported".to_owned()));
    }
    let hidden_size = metadata.size(&key("embedding_length"))?;
    let heads = metadata.size(&key("attention.head_count"))?;
    let head_dim = match metadata.number(&key("attention.key_length"))? {
        Some(length) => length as usize,
        None => hidden_size / heads.max(1),
    };
    let kv_heads = metadata
        .number(&key("attention.head_count_kv"))?
        .map_or(heads, |count| count as usize);
    let positions = metadata.size(&key("context_length"))?;
    let table = file.content().tensor_infos.get("token_embd.weight");
    let table = table.ok_or_else(|| metadata.wrong("tensor \"token_embd.weight\" is missing".to_owned()))?;
    let id = |name: &str| -> Result<Option<TokenId>, ModelError> {
        Ok(metadata
            .number(&format!("tokenizer.ggml.{name}"))?
            .and_then(|id| TokenId::try_from(id).ok()))
    };
    let mut eos: Vec<TokenId> = Vec::new();
    for name in ["eos_token_id", "eot_token_id"] {
        eos.extend(id(name)?.filter(|id| !eos.contains(id)));
    }
    let begins = metadata.bool("tokenizer.ggml.add_bos_token")?.unwrap_or(false);
    let config = DecoderConfig {
        architecture,
        vocab_size: table.shape.dims().first().copied().unwrap_or(0),
        hidden_size,
        intermediate_size: metadata.size(&key("feed_forward_length"))?,
        num_hidden_layers: metadata.size(&key("block_count"))?,
        num_attention_heads: heads,
        num_key_value_heads: kv_heads,
        head_dim,
        max_position_embeddings: positions,
        rope_theta: metadata.float(&key("rope.freq_base"))?.unwrap_or(10_000.0),
        rope_scaling: scaling(file, &key, head_dim, positions)?,
        rms_norm_eps: metadata
            .float(&key("attention.layer_norm_rms_epsilon"))?
            .unwrap_or(1e-6),
        tie_word_embeddings: !file.content().tensor_infos.contains_key("output.weight"),
        output_bias: file.content().tensor_infos.contains_key("blk.0.attn_output.bias"),
        eos_token_id: eos,
        bos_token_id: if begins { id("bos_token_id")? } else { None },
    };
    config.check().map_err(|what| metadata.wrong(what))?;
    Ok(config)
}

fn scaling(
    file: &GgufFile,
    key: &impl Fn(&str) -> String,
    head_dim: usize,
    positions: usize,
) -> Result<RopeScaling, ModelError> {
    let metadata = file.metadata();
    // The converter writes Llama 3's scaling as one factor for each frequency.
    if let Some(factors) = file.floats("rope_freqs.weight", head_dim / 2) {
        return Ok(RopeScaling::Factors(factors));
    }
    let kind = metadata.string(&key("rope.scaling.type"))?;
    let value = serde_json::json!({
        "rope_type": if kind == Some("none") { None } else { kind },
        "factor": metadata.float(&key("rope.scaling.factor"))?,
        "original_max_position_embeddings": metadata.number(&key("rope.scaling.original_context_length"))?,
        "attention_factor": metadata.float(&key("rope.scaling.attn_factor"))?,
    });
    match kind {
        None | Some("none") => Ok(RopeScaling::None),
        Some(_) => RopeScaling::parse(&value, positions).map_err(|what| metadata.wrong(what)),
    }
}
