//! What holding weights in fewer bits costs: the perplexity of a model on a text, per way to hold them.
//!
//!     cargo run --release --example perplexity -- MODEL.gguf|FOLDER TEXT [--threads 2] [--weights f32,q8_0,q4]
//!
//! The text is cut into windows of 512 tokens; of each, every token but the first counts.
#![expect(clippy::print_stdout, reason = "a measurement shows its figures")]

use std::path::Path;
use std::time::Instant;

use tokenrouter_core::limits::KV_BLOCK_TOKENS;
use tokenrouter_core::step::{StepBatch, StepRow};
use tokenrouter_core::{BlockId, RequestId, TokenId};
use tokenrouter_model::decoder::{Decoder, KvPool};
use tokenrouter_model::text::Tokenizer;
use tokenrouter_model::{CpuOptions, Source};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

const WINDOW: usize = 512;
/// Positions whose logits are held at a time.
const CHUNK: usize = 64;

/// Minus the logarithms of the probabilities of all tokens but the first.
fn loss(decoder: &mut Decoder, kv: &mut KvPool, tokens: &[TokenId]) -> f64 {
    let mut loss = 0.0;
    for (index, chunk) in tokens.chunks(CHUNK).enumerate() {
        let first = index * CHUNK;
        let batch = StepBatch {
            tokens: chunk.to_vec(),
            rows: vec![StepRow {
                request: RequestId(0),
                first: 0,
                len: chunk.len() as u32,
                position: first as u32,
                logits: chunk.len() as u32,
                blocks: 0..(WINDOW / KV_BLOCK_TOKENS) as u32,
                shared: 0,
            }],
            blocks: (0..(WINDOW / KV_BLOCK_TOKENS) as u32).map(BlockId).collect(),
        };
        let logits = decoder.forward(&batch, kv).logits;
        let rows = logits.chunks_exact(logits.len() / chunk.len());
        for (row, next) in rows.zip(&tokens[first + 1..]) {
            let largest = row.iter().fold(f32::NEG_INFINITY, |max, v| max.max(*v));
            let sum: f64 = row.iter().map(|v| f64::from(v - largest).exp()).sum();
            loss += sum.ln() - f64::from(row[*next as usize] - largest);
        }
    }
    loss
}

fn main() -> Fallible<()> {
    let (mut files, mut threads, mut formats) = (Vec::new(), 1, "f32,q8_0,q4".to_owned());
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--threads" => threads = args.next().ok_or("--threads needs a number")?.parse()?,
            "--weights" => formats = args.next().ok_or("--weights needs a list")?,
            _ => files.push(arg),
        }
    }
    let [model, text] = files.as_slice() else {
        return Err("name a model (a GGUF file or a folder) and a text".into());
    };
    let source = match model.ends_with(".gguf") {
        true => Source::Gguf(Path::new(model).to_owned()),
        false => Source::Folder(Path::new(model).to_owned()),
    };
    let config = source.config()?;
    let tokenizer = Tokenizer::from_bytes(&source.tokenizer()?, config.bos_token_id, &config.eos_token_id)?;
    let tokens = tokenizer.encode(&std::fs::read_to_string(text)?)?;
    println!("weights         MB  perplexity  loaded in  ({} tokens)", tokens.len());
    for name in formats.split(',') {
        let weights = name.parse()?;
        let start = Instant::now();
        let options = CpuOptions { threads, weights };
        let mut decoder = Decoder::with_options(&config, &mut source.weights()?, options)?;
        let loaded = start.elapsed().as_secs_f64();
        let mut kv = KvPool::new(&config, WINDOW / KV_BLOCK_TOKENS)?;
        let windows = tokens.chunks(WINDOW).filter(|window| window.len() > 1);
        let (mut total, mut counted) = (0.0, 0);
        for window in windows {
            total += loss(&mut decoder, &mut kv, window);
            counted += window.len() - 1;
        }
        let (bytes, held) = decoder.held();
        let perplexity = (total / f64::from(counted as u32)).exp();
        println!(
            "{held:<12} {:>5.0}  {perplexity:>10.4}  {loaded:>7.2} s",
            bytes as f64 / 1e6
        );
    }
    Ok(())
}
