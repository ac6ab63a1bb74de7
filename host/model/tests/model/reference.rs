//! Logits agree with those of candle-transformers' models, which keep one sequence a model, and with those of
//! `transformers`, recorded by `tests/fixtures/family/make.py`.

use std::path::Path;

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::{llama, qwen2, qwen3};
use safetensors::SafeTensors;
use serde_json::{Value, json};
use tokenrouter_core::TokenId;
use tokenrouter_model::Source;
use tokenrouter_model::config::DecoderConfig;
use tokenrouter_model::decoder::{Decoder, KvPool};
use tokenrouter_model::weights::Weights;

use crate::build::{EVEN, EVEN_WHOLE, ODD, ODD_WHOLE, Random, RandomModel, blocks, one_row};

const TOLERANCE: f32 = 1e-4;

/// A model of the reference: from tokens and their position to logits.
type ReferenceModel = Box<dyn FnMut(&Tensor, usize) -> candle_core::Result<Tensor>>;

/// Logits after every token, from the reference, fed one token at a time.
fn expected(config_json: &[u8], safetensors: &[u8], tokens: &[TokenId]) -> Vec<f32> {
    let mut json: Value = serde_json::from_slice(config_json).unwrap();
    json["sliding_window"] = Value::Null;
    let weights = VarBuilder::from_slice_safetensors(safetensors, DType::F32, &Device::Cpu).unwrap();
    let mut model: ReferenceModel = match json["model_type"].as_str() {
        Some("qwen3") => {
            let config: qwen3::Config = serde_json::from_value(json).unwrap();
            let mut model = qwen3::ModelForCausalLM::new(&config, weights).unwrap();
            Box::new(move |input, at| model.forward(input, at))
        }
        Some("qwen2") => {
            json["sliding_window"] = 4_096.into();
            let config: qwen2::Config = serde_json::from_value(json).unwrap();
            let mut model = qwen2::ModelForCausalLM::new(&config, weights).unwrap();
            Box::new(move |input, at| model.forward(input, at))
        }
        _ => {
            let config: llama::LlamaConfig = serde_json::from_value(json).unwrap();
            let config = config.into_config(false);
            let mut cache = llama::Cache::new(true, DType::F32, &config, &Device::Cpu).unwrap();
            let model = llama::Llama::load(weights, &config).unwrap();
            Box::new(move |input, at| model.forward(input, at, &mut cache))
        }
    };
    let step = |(at, token): (usize, &TokenId)| -> Vec<f32> {
        let input = Tensor::new(&[[*token]], &Device::Cpu).unwrap();
        model(&input, at).unwrap().flatten_all().unwrap().to_vec1().unwrap()
    };
    tokens.iter().enumerate().flat_map(step).collect()
}

/// Logits after every token, of one extend.
fn found(config: &DecoderConfig, weights: &mut Weights, tokens: &[TokenId]) -> Vec<f32> {
    let mut decoder = Decoder::new(config, weights).unwrap();
    let mut kv = KvPool::new(config, 16).unwrap();
    let batch = one_row(0, tokens, &blocks(0..16), tokens.len());
    decoder.forward(&batch, &mut kv).logits.to_vec()
}

fn compare(what: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let mut spread = 0f32;
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let bound = TOLERANCE * expected.abs().max(1.0);
        assert!(
            (found - expected).abs() <= bound,
            "{what}, logit {at}: {found}, expected {expected}"
        );
        spread = spread.max(expected.abs());
    }
    // Logits that are all near 0 would agree whatever the weights.
    assert!(spread > 0.5, "{what}: the largest logit is {spread}");
}

fn check(config_json: &[u8], safetensors: &[u8], len: usize, random: &mut Random) {
    let config = DecoderConfig::parse(config_json, "config.json").unwrap();
    let mut weights = Weights::new("test");
    weights.add(safetensors, "model.safetensors").unwrap();
    let tokens = random.tokens(len, config.vocab_size);
    let what = format!("seed {}, {:?}", random.seed, config.architecture);
    let found = found(&config, &mut weights, &tokens);
    compare(&what, &found, &expected(config_json, safetensors, &tokens));
}

/// Llama 3's own scaling, with a training context so short that all three kinds of waves occur.
fn llama3_rope() -> Value {
    json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32})
}

#[test]
fn logits_of_random_models_are_the_references() {
    for seed in 0..8 {
        let (odd, tied) = (seed % 2 == 0, seed % 4 < 2);
        for kind in ["qwen3", "qwen2", "llama"] {
            let mut random = Random::new(seed);
            let sizes = match (kind, odd) {
                ("qwen3", true) => ODD,
                ("qwen3", false) => EVEN,
                (_, true) => ODD_WHOLE,
                (_, false) => EVEN_WHOLE,
            };
            let rope = if kind == "llama" && seed % 3 == 0 {
                llama3_rope()
            } else {
                Value::Null
            };
            let model = RandomModel::of(kind, sizes, tied, &rope, &mut random);
            check(model.config_json.as_bytes(), &model.safetensors, 60, &mut random);
        }
    }
}

/// Folders that `transformers` wrote, one of them in shards, and the logits that it computed from them.
#[test]
fn logits_of_folders_are_those_of_transformers() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/family");
    for name in ["llama-llama3-rope", "llama-biases", "qwen2", "qwen3-yarn"] {
        let folder = root.join(name);
        let expected = std::fs::read(folder.join("expected.safetensors")).unwrap();
        let expected = SafeTensors::deserialize(&expected).unwrap();
        let numbers = |tensor: &str| -> Vec<f32> {
            let data = expected.tensor(tensor).unwrap().data().to_vec();
            data.as_chunks::<4>()
                .0
                .iter()
                .map(|four| f32::from_le_bytes(*four))
                .collect()
        };
        let tokens: Vec<TokenId> = numbers("tokens").iter().map(|token| *token as TokenId).collect();
        let source = Source::Folder(folder);
        let found = found(&source.config().unwrap(), &mut source.weights().unwrap(), &tokens);
        compare(name, &found, &numbers("logits"));
    }
}

#[test]
fn logits_of_the_embedded_models_are_the_references() {
    macro_rules! file {
        ($path:literal) => {
            include_bytes!(concat!("../../../../models/tiny/", $path))
        };
    }
    check(
        file!("small/config.json"),
        file!("small/model.safetensors"),
        200,
        &mut Random::new(50),
    );
    check(
        file!("middle/config.json"),
        file!("middle/model.safetensors"),
        200,
        &mut Random::new(51),
    );
    check(
        file!("large/config.json"),
        file!("large/model.safetensors"),
        200,
        &mut Random::new(52),
    );
}
