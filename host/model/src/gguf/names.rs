//! Tensors of a GGUF file under the names of Hugging Face's files.

use crate::config::{Architecture, DecoderConfig};

/// What a tensor is.
pub(super) struct Known {
    pub(super) name: String,
    /// Whether each head's rows stand with their halves in turn: llama.cpp's rotation for Llama turns neighbours, so its
    /// converter moves the rows of queries and keys.
    pub(super) interleaved: bool,
}

/// The tensor of a name, if decoders read it.
pub(super) fn known(name: &str, config: &DecoderConfig) -> Option<Known> {
    let plain = |name: &str| {
        Some(Known {
            name: name.to_owned(),
            interleaved: false,
        })
    };
    match name {
        "token_embd.weight" => return plain("model.embed_tokens.weight"),
        "output_norm.weight" => return plain("model.norm.weight"),
        "output.weight" => return plain("lm_head.weight"),
        _ => {}
    }
    let (layer, rest) = name.strip_prefix("blk.")?.split_once('.')?;
    let (part, kind) = rest.rsplit_once('.')?;
    let part_known = match part {
        "attn_norm" => "input_layernorm",
        "ffn_norm" => "post_attention_layernorm",
        "attn_q" => "self_attn.q_proj",
        "attn_k" => "self_attn.k_proj",
        "attn_v" => "self_attn.v_proj",
        "attn_output" => "self_attn.o_proj",
        "attn_q_norm" => "self_attn.q_norm",
        "attn_k_norm" => "self_attn.k_norm",
        "ffn_gate" => "mlp.gate_proj",
        "ffn_up" => "mlp.up_proj",
        "ffn_down" => "mlp.down_proj",
        _ => return None,
    };
    Some(Known {
        name: format!("model.layers.{layer}.{part_known}.{kind}"),
        interleaved: config.architecture == Architecture::Llama && matches!(part, "attn_q" | "attn_k"),
    })
}
