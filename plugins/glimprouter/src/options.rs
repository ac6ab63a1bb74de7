//! Options, with the published values as defaults.

use tokenrouter_sdk::prelude::*;

/// Option `threshold`.
pub const THRESHOLD: Number = Number {
    name: "threshold",
    summary: "entropy of the 20 likeliest first tokens of a step, in nats, from which the large model writes the step; 0 to \
              20, and at most ln 20 = 2.996 is ever reached",
    default: 1.0,
    min: 0.0,
    max: 20.0,
    per_request: true,
};

/// Option `step-tokens-max`.
pub const STEP_TOKENS: Number = Number {
    name: "step-tokens-max",
    summary: "tokens after which a step ends without a blank line, 1 to 1000000",
    default: 512.0,
    min: 1.0,
    max: 1e6,
    per_request: false,
};

/// Option `thinking-tokens-max`.
pub const BUDGET: Number = Number {
    name: "thinking-tokens-max",
    summary: "tokens of the answer after which reasoning ends with the step, 0 to 1000000000; 0: the large model writes all",
    default: 8192.0,
    min: 0.0,
    max: 1e9,
    per_request: true,
};

/// Option `large-steps`.
pub const LARGE_STEPS: Number = Number {
    name: "large-steps",
    summary: "steps at the beginning that the large model writes in any case, 0 to 1000000",
    default: 0.0,
    min: 0.0,
    max: 1e6,
    per_request: false,
};

/// A value that counts something.
///
/// # Errors
/// If it is not whole.
pub fn whole(option: &Number, value: f64) -> Result<u32, String> {
    if value == value.floor() {
        return Ok(value as u32);
    }
    Err(format!(
        "option \"{}\" is {}; it must be a whole number",
        option.name,
        decimal(value)
    ))
}
