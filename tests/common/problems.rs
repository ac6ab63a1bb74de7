//! The problems that the built-in models were trained to solve, with what each model must write.

use serde::Deserialize;

/// A problem: four steps of two-digit arithmetic modulo 100. Every character is one token.
#[derive(Clone, Debug, Deserialize)]
pub struct Problem {
    pub prompt: String,
    /// The right result, two digits.
    pub answer: String,
    /// The right answer in full, step by step.
    pub worked: String,
    /// What the small model writes, greedily.
    pub greedy_small: String,
    /// What the large model writes, greedily.
    pub greedy_large: String,
}

/// All 300 problems.
pub fn problems() -> Vec<Problem> {
    let problems: Vec<Problem> = include_str!("../../models/tiny/problems.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).expect("every line is a problem"))
        .collect();
    assert_eq!(problems.len(), 300);
    problems
}
