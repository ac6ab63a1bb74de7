//! Bounds of a request's fields that no deployment changes. `/info` shows them.

use std::ops::RangeInclusive;

use serde_json::{Value, json};

/// Most messages of a conversation.
pub(super) const MESSAGES_MAX: usize = 4_096;
/// Most stop strings, as in OpenAI's API.
pub(super) const STOP_STRINGS_MAX: usize = 4;
/// Longest stop string.
pub(super) const STOP_STRING_BYTES_MAX: usize = 1_024;
/// Most token ids in `stop_token_ids`.
pub(super) const STOP_TOKENS_MAX: usize = 64;
/// Most tokens with a bias.
pub(super) const LOGIT_BIAS_TOKENS_MAX: usize = 1_024;
/// A bias.
pub(super) const LOGIT_BIAS: RangeInclusive<f64> = -100.0..=100.0;
/// Presence and frequency penalty.
pub(super) const PENALTY: RangeInclusive<f64> = -2.0..=2.0;
/// Repetition penalty.
pub(super) const REPETITION_PENALTY: RangeInclusive<f64> = 0.1..=10.0;
/// Sampling temperature; tiny ones are greedy.
pub(super) const TEMPERATURE: RangeInclusive<f64> = 0.0..=2.0;
/// Probabilities: `top_p` and `min_p`.
pub(super) const PROBABILITY: RangeInclusive<f64> = 0.0..=1.0;
/// Most alternatives to a token, with log-probabilities.
pub(super) const LOGPROBS_MAX: u32 = 20;
/// Longest `cache_salt`.
pub(super) const CACHE_SALT_BYTES_MAX: usize = 256;
/// Most names of unknown fields that are counted each by itself.
pub(super) const UNKNOWN_FIELDS_MAX: usize = 64;

/// All of them, by name.
pub(super) fn to_json() -> Value {
    let range = |range: RangeInclusive<f64>| json!([range.start(), range.end()]);
    json!({
        "messages_max": MESSAGES_MAX,
        "stop_strings_max": STOP_STRINGS_MAX,
        "stop_string_bytes_max": STOP_STRING_BYTES_MAX,
        "stop_tokens_max": STOP_TOKENS_MAX,
        "logit_bias_tokens_max": LOGIT_BIAS_TOKENS_MAX,
        "logprobs_max": LOGPROBS_MAX,
        "cache_salt_bytes_max": CACHE_SALT_BYTES_MAX,
        "logit_bias": range(LOGIT_BIAS),
        "penalty": range(PENALTY),
        "repetition_penalty": range(REPETITION_PENALTY),
        "temperature": range(TEMPERATURE),
        "probability": range(PROBABILITY),
    })
}
