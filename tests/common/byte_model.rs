//! A deployment of two small models with random weights and a byte-level tokenizer that can write any text, in folders of
//! Hugging Face's layout with a chat template: for what the built-in models' 21 characters cannot say.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

/// Special tokens, from id 0.
pub const SPECIAL: [&str; 3] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];
/// Tokens of several bytes, behind those of one.
const LONGER: [&str; 12] = [
    "{\"", "\":", "\",\"", "\"}", "},{", "Ġ\"", "ĊĠĠ", "true", "null", "12", "ab\"", "[[",
];

const HIDDEN: usize = 32;
const INNER: usize = 48;
const LAYERS: usize = 2;
const HEADS: usize = 2;
const HEAD_DIM: usize = 16;

/// A deployment file `bytes` of models small and large. `policy` are the lines of `[policy]`, `top` lines before all tables. With
/// a `template`, the models' folders have it.
pub fn byte_deployment(policy: &str, top: &str, template: Option<&str>) -> PathBuf {
    let models: String = [("small", 1), ("large", 2)]
        .map(|(name, seed)| {
            let folder = folder(name, seed, template);
            format!("[[models]]\nname = \"{name}\"\nsource = \"{}\"\n", folder.display())
        })
        .concat();
    super::file(
        "deployment.toml",
        format!("name = \"bytes\"\n{top}\n{models}[policy]\n{policy}\n"),
    )
}

fn folder(name: &str, seed: u64, template: Option<&str>) -> PathBuf {
    let folder = super::file(&format!("{name}-folder"), "").with_extension("d");
    std::fs::create_dir_all(&folder).expect("a folder for a model");
    let write = |name: &str, content: &[u8]| std::fs::write(folder.join(name), content).expect("a file of a model");
    let tokenizer = tokenizer();
    let vocabulary = SPECIAL.len() + 256 + LONGER.len();
    let config = json!({
        "model_type": "qwen3", "vocab_size": vocabulary, "hidden_size": HIDDEN, "intermediate_size": INNER,
        "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": 1, "head_dim": HEAD_DIM,
        "max_position_embeddings": 512, "rope_theta": 10000.0, "rms_norm_eps": 1e-6, "tie_word_embeddings": true,
        "attention_bias": false, "use_sliding_window": false, "max_window_layers": 0, "hidden_act": "silu",
        "eos_token_id": [2, 0],
    });
    write("config.json", config.to_string().as_bytes());
    write("tokenizer.json", tokenizer.to_string().as_bytes());
    write("model.safetensors", &weights(vocabulary, seed));
    if let Some(template) = template {
        write("chat_template.jinja", template.as_bytes());
    }
    Path::new(&folder).to_owned()
}

/// The alphabet of byte-level BPE, from its definition: bytes that Latin-1 prints stand for themselves.
fn letters() -> Vec<char> {
    let prints = |byte: u32| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let mut others = 0x100..;
    (0..256u32)
        .map(|byte| {
            if prints(byte) {
                byte
            } else {
                others.next().expect("no end")
            }
        })
        .map(|letter| char::from_u32(letter).expect("a character"))
        .collect()
}

fn tokenizer() -> Value {
    let names = SPECIAL.iter().map(|token| (*token).to_owned());
    let tokens = names
        .chain(letters().into_iter().map(String::from))
        .chain(LONGER.map(str::to_owned));
    let vocabulary: Map<String, Value> = tokens.enumerate().map(|(id, token)| (token, json!(id))).collect();
    let added: Vec<Value> = (SPECIAL.iter().enumerate())
        .map(|(id, content)| {
            json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true})
        })
        .collect();
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    json!({
        "version": "1.0", "added_tokens": added, "pre_tokenizer": byte_level, "decoder": byte_level,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    })
}

/// A safetensors file of f32 tensors: norms of ones, matrices of even draws.
fn weights(vocabulary: usize, seed: u64) -> Vec<u8> {
    let mut shapes = vec![
        ("model.embed_tokens".to_owned(), vec![vocabulary, HIDDEN]),
        ("model.norm".to_owned(), vec![HIDDEN]),
    ];
    for layer in 0..LAYERS {
        for (name, shape) in [
            ("input_layernorm", vec![HIDDEN]),
            ("post_attention_layernorm", vec![HIDDEN]),
            ("self_attn.q_norm", vec![HEAD_DIM]),
            ("self_attn.k_norm", vec![HEAD_DIM]),
            ("self_attn.q_proj", vec![HEADS * HEAD_DIM, HIDDEN]),
            ("self_attn.k_proj", vec![HEAD_DIM, HIDDEN]),
            ("self_attn.v_proj", vec![HEAD_DIM, HIDDEN]),
            ("self_attn.o_proj", vec![HIDDEN, HEADS * HEAD_DIM]),
            ("mlp.gate_proj", vec![INNER, HIDDEN]),
            ("mlp.up_proj", vec![INNER, HIDDEN]),
            ("mlp.down_proj", vec![HIDDEN, INNER]),
        ] {
            shapes.push((format!("model.layers.{layer}.{name}"), shape));
        }
    }
    let (mut header, mut data) = (BTreeMap::new(), Vec::new());
    let mut state = seed;
    for (name, shape) in shapes {
        let start = data.len();
        for _ in 0..shape.iter().product::<usize>() {
            let scale = if shape.len() == 1 {
                0.0
            } else {
                2.0 / (HIDDEN as f32).sqrt()
            };
            let value = if shape.len() == 1 {
                1.0
            } else {
                scale * draw(&mut state)
            };
            data.extend_from_slice(&value.to_le_bytes());
        }
        let entry = json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]});
        header.insert(format!("{name}.weight"), entry);
    }
    let mut header = json!(header).to_string();
    header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()
}

/// SplitMix64, as a number in [-1, 1).
fn draw(state: &mut u64) -> f32 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut x = *state;
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) >> 40) as f32 / (1u64 << 23) as f32 - 1.0
}
