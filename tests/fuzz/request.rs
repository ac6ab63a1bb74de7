//! The parser of completion requests: whatever the body, it gives jobs within the bounds or an error that names a field.

use std::sync::LazyLock;

use tokenrouter_host::http::{ApiError, ModelNames, completion_jobs};
use tokenrouter_model::text::Tokenizer;
use tokenrouter_model::{Embedded, Source};

const ANSWERS_MAX: usize = 8;
const LENGTH_MAX: u32 = 512;

pub const WORDS: [&str; 48] = [
    "null",
    "true",
    "false",
    "[]",
    "{}",
    "\"\"",
    "prompt",
    "model",
    "max_tokens",
    "max_completion_tokens",
    "min_tokens",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "n",
    "best_of",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "logit_bias",
    "logprobs",
    "echo",
    "stop",
    "stop_token_ids",
    "include_stop_str_in_output",
    "ignore_eos",
    "return_token_ids",
    "stream",
    "stream_options",
    "include_usage",
    "user",
    "cache_salt",
    "prefix_cache",
    "tokenrouter",
    "options",
    "attribution",
    "steps",
    "assumed",
    "suffix",
    "tools",
    "tiny/large",
    "tiny@r-stitch",
    "\\ud83d\\ude00",
    "\\u0000",
    "[[3],[4]]",
    "1+1=",
];

static NAMES: LazyLock<ModelNames> = LazyLock::new(|| ModelNames {
    deployment: "tiny".to_owned(),
    policies: vec!["r-stitch".to_owned()],
    members: vec!["small".to_owned(), "large".to_owned()],
});

static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| {
    let source = Source::Embedded(Embedded::Small);
    let config = source.config().expect("a configuration");
    let file = source.tokenizer().expect("a tokenizer");
    Tokenizer::from_bytes(&file, config.bos_token_id, &config.eos_token_id).expect("a tokenizer")
});

pub fn try_input(body: &[u8]) -> bool {
    match completion_jobs(body, &NAMES, &TOKENIZER, ANSWERS_MAX, LENGTH_MAX) {
        Ok(jobs) => {
            assert!((1..=ANSWERS_MAX).contains(&jobs.len()), "{} answers", jobs.len());
            for job in jobs {
                assert!(!job.prompt.is_empty() && job.min_tokens <= job.max_tokens);
                assert!((0.0..=2.0).contains(&job.sampling.temperature) && (0.0..=1.0).contains(&job.sampling.top_p));
                assert!((0.1..=10.0).contains(&job.penalties.repetition));
                assert!(job.stop.len() <= 4 && job.stop.iter().all(|stop| !stop.is_empty()));
                let ids = job.logit_bias.iter().map(|(id, _)| *id).chain(job.stop_tokens);
                assert!(TOKENIZER.check_ids(&ids.collect::<Vec<_>>()).is_ok());
                assert!(job.logit_bias.iter().all(|(_, bias)| bias.abs() <= 100.0));
            }
            true
        }
        Err(error) => {
            let status = error.status().as_u16();
            assert!(status == 400 || status == 404, "{status}: {error}");
            match &error {
                ApiError::Field { param, message } => {
                    assert!(message.starts_with(param.as_str()), "{param}: {message}");
                }
                ApiError::Json(_) | ApiError::NotUtf8 { .. } => return false,
                _ => {}
            }
            let shown = error.to_json().to_string();
            assert!(shown.len() < 20_000, "an error of {} bytes", shown.len());
            true
        }
    }
}
