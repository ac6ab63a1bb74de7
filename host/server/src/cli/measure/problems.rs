//! Files of problems: one JSON object a line.
//!
//! Three forms are known by their keys, so that published files load as they are:
//!
//! | keys | what it is | where the answer is looked for |
//! |---|---|---|
//! | `prompt`, perhaps `answer`, perhaps `regex` | ours | the end of the text, or the last match of `regex` |
//! | `question`, `answer` with `####` | GSM8K | the last number |
//! | `problem` or `Problem`, `answer` or `Answer` | AIME | the last `\boxed{...}`, or the last number |

use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use regex::Regex;
use serde_json::{Map, Value};

use super::judge::Judge;

/// The problems that the built-in models were not trained on.
const BUILT_IN: &str = include_str!("../../../../../models/tiny/problems.jsonl");

/// A prompt, and its answer if that is known.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Problem {
    /// As the file has it.
    pub(in crate::cli) prompt: String,
    /// The right answer.
    pub(in crate::cli) answer: Option<String>,
    judge: Judge,
}

impl Problem {
    /// The problems of a file, or those that come with the built-in models.
    ///
    /// # Errors
    /// Names the file and the line.
    pub(in crate::cli) fn read(path: Option<&Path>) -> anyhow::Result<Vec<Self>> {
        let Some(path) = path else {
            return Self::parse(BUILT_IN);
        };
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    /// One object a line; empty lines count for nothing.
    fn parse(text: &str) -> anyhow::Result<Vec<Self>> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let problems: Vec<Self> = lines
            .map(|(index, line)| Self::parse_line(line).with_context(|| format!("line {}", index + 1)))
            .collect::<anyhow::Result<_>>()?;
        ensure!(!problems.is_empty(), "the file has no problems");
        Ok(problems)
    }

    fn parse_line(line: &str) -> anyhow::Result<Self> {
        let object: Map<String, Value> = serde_json::from_str(line)
            .context("not a JSON object, as in {\"prompt\": \"...\", \"answer\": \"...\"}")?;
        let text = |names: &[&str]| names.iter().find_map(|name| object.get(*name)).map(plain).transpose();
        if let Some(prompt) = text(&["prompt"])? {
            let judge = match text(&["regex"])? {
                None => Judge::Ends,
                Some(pattern) => Judge::Pattern(Regex::new(&pattern).context("regex")?),
            };
            return Ok(Self {
                prompt,
                answer: text(&["answer"])?,
                judge,
            });
        }
        if let Some(prompt) = text(&["question"])? {
            let worked = text(&["answer"])?.context("a \"question\" without an \"answer\"")?;
            let (_, answer) = worked
                .rsplit_once("####")
                .context("\"answer\" has no \"####\" before its last number, as GSM8K's have")?;
            return Ok(Self {
                prompt,
                answer: Some(answer.trim().to_owned()),
                judge: Judge::Number,
            });
        }
        if let Some(prompt) = text(&["problem", "Problem"])? {
            return Ok(Self {
                prompt,
                answer: text(&["answer", "Answer"])?,
                judge: Judge::Boxed,
            });
        }
        bail!("neither \"prompt\" nor \"question\" (GSM8K) nor \"problem\" (AIME) among the keys");
    }

    /// Whether a text gives the right answer; `None` if that is not known.
    pub(in crate::cli) fn is_right(&self, text: &str) -> Option<bool> {
        let answer = self.answer.as_deref()?;
        Some(self.judge.is_right(text, answer))
    }
}

/// A text, or a number written as one.
fn plain(value: &Value) -> anyhow::Result<String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        other => bail!("{other} is neither a text nor a number"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_forms_are_known_by_their_keys() {
        let lines = concat!(
            r#"{"prompt": "1+1=", "answer": 2}"#,
            "\n\n",
            r#"{"prompt": "x", "answer": "12", "regex": "A([0-9]+)"}"#,
            "\n",
            r#"{"question": "Tom has 3 boxes of 600 nails. How many?", "answer": "3*600 = <<3*600=1800>>1800\n#### 1,800"}"#,
            "\n",
            r#"{"ID": "2024-I-0", "Problem": "Find $n$.", "Solution": "...", "Answer": 73}"#,
            "\n",
            r#"{"id": 1, "problem": "Find $m$.", "solution": "...", "answer": "073"}"#,
        );
        let problems = Problem::parse(lines).unwrap();
        let answers: Vec<_> = problems.iter().map(|it| it.answer.as_deref().unwrap()).collect();
        assert_eq!(answers, ["2", "12", "1,800", "73", "073"]);
        let right = ["so 2", "A12 ", "1800 nails", "\\boxed{73}", "thus $m = 73$"];
        for (problem, text) in problems.iter().zip(right) {
            assert_eq!(problem.is_right(text), Some(true), "{text}");
            assert_eq!(problem.is_right("no"), Some(false), "{text}");
        }
        assert_eq!(Problem::parse(r#"{"prompt": "x"}"#).unwrap()[0].is_right("y"), None);
    }

    #[test]
    fn what_is_no_problem_is_refused_with_its_line() {
        for (lines, expected) in [
            ("", "the file has no problems"),
            ("{\"prompt\": \"a\"}\n[]", "line 2: not a JSON object"),
            (r#"{"text": "a"}"#, "line 1: neither \"prompt\" nor \"question\""),
            (
                r#"{"question": "a", "answer": "7"}"#,
                "line 1: \"answer\" has no \"####\"",
            ),
            (r#"{"prompt": "a", "regex": "("}"#, "line 1: regex"),
            (r#"{"prompt": ["a"]}"#, "line 1: [\"a\"] is neither a text nor a number"),
        ] {
            let error = format!("{:#}", Problem::parse(lines).unwrap_err());
            assert!(error.starts_with(expected), "{lines}: {error}");
        }
    }

    #[test]
    fn the_built_in_problems_are_answered_by_their_own_work() {
        let problems = Problem::read(None).unwrap();
        assert!(problems.len() >= 300);
        assert!(problems.iter().all(|it| it.answer.is_some()));
    }
}
