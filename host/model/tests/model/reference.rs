//! Logits agree with those of candle-transformers' Qwen3, which keeps one sequence a model.

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::qwen3;
use tokenrouter_core::TokenId;
use tokenrouter_model::config::Qwen3Config;
use tokenrouter_model::decoder::{Decoder, KvPool};
use tokenrouter_model::weights::Weights;

use crate::build::{EVEN, ODD, Random, RandomModel, blocks, one_row};

const TOLERANCE: f32 = 1e-4;

/// Logits after every token, from the reference, fed one token at a time.
fn expected(config_json: &[u8], safetensors: &[u8], tokens: &[TokenId]) -> Vec<Vec<f32>> {
    let mut json: serde_json::Value = serde_json::from_slice(config_json).unwrap();
    json["sliding_window"] = serde_json::Value::Null;
    let config: qwen3::Config = serde_json::from_value(json).unwrap();
    let weights = VarBuilder::from_slice_safetensors(safetensors, DType::F32, &Device::Cpu).unwrap();
    let mut model = qwen3::ModelForCausalLM::new(&config, weights).unwrap();
    let step = |(at, token): (usize, &TokenId)| {
        let input = Tensor::new(&[[*token]], &Device::Cpu).unwrap();
        model
            .forward(&input, at)
            .unwrap()
            .flatten_all()
            .unwrap()
            .to_vec1()
            .unwrap()
    };
    tokens.iter().enumerate().map(step).collect()
}

fn check(config_json: &[u8], safetensors: &[u8], len: usize, random: &mut Random) {
    let config = Qwen3Config::parse(config_json, "config.json").unwrap();
    let mut weights = Weights::new("test");
    weights.add(safetensors, "model.safetensors").unwrap();
    let decoder = Decoder::new(&config, &mut weights).unwrap();
    let kv = KvPool::new(&config, 16).unwrap();
    let tokens = random.tokens(len, config.vocab_size);
    let batch = one_row(0, &tokens, &blocks(0..16), len);
    let found: Vec<Vec<f32>> = decoder.forward(&batch, &kv).unwrap().unwrap().logits.to_vec2().unwrap();
    let expected = expected(config_json, safetensors, &tokens);
    let mut spread = 0f32;
    for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
        for (found, expected) in found.iter().zip(expected) {
            let difference = (found - expected).abs();
            let bound = TOLERANCE * expected.abs().max(1.0);
            assert!(
                difference <= bound,
                "seed {}, position {at}: {found}, expected {expected}",
                random.seed
            );
            spread = spread.max(expected.abs());
        }
    }
    // Logits that are all near 0 would agree whatever the weights.
    assert!(spread > 0.5, "seed {}: the largest logit is {spread}", random.seed);
}

#[test]
fn logits_of_random_models_are_the_references() {
    for seed in 0..8 {
        let mut random = Random::new(seed);
        let model = RandomModel::new(if seed % 2 == 0 { ODD } else { EVEN }, seed % 4 < 2, &mut random);
        check(model.config_json.as_bytes(), &model.safetensors, 60, &mut random);
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
