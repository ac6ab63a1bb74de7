//! What was asked, to be asked again; kept in a file if one is named.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, bail};

/// Questions that are kept.
const KEPT_MAX: usize = 1_000;

/// The questions, oldest first.
#[derive(Debug, Default)]
pub(super) struct History {
    questions: Vec<String>,
    file: Option<File>,
}

impl History {
    /// Those of the file, one a line, and room for more. A file that is not there is made with the first question.
    pub(super) fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = path else {
            return Ok(Self::default());
        };
        let place = || format!("the history {}", path.display());
        let file = OpenOptions::new().create(true).read(true).append(true).open(path);
        let file = file.with_context(|| format!("cannot open {}", place()))?;
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", place()))?;
        let lines: Vec<&str> = text.lines().collect();
        let kept = &lines[lines.len().saturating_sub(KEPT_MAX)..];
        Ok(Self {
            questions: kept.iter().map(|&line| line.to_owned()).collect(),
            file: Some(file),
        })
    }

    /// Adds a question.
    pub(super) fn push(&mut self, question: &str) -> anyhow::Result<()> {
        if let Some(file) = &mut self.file {
            writeln!(file, "{question}").context("the history cannot be written")?;
        }
        if self.questions.len() == KEPT_MAX {
            self.questions.remove(0);
        }
        self.questions.push(question.to_owned());
        Ok(())
    }

    /// The question of a number that [`fmt::Display`] shows, or the last one.
    pub(super) fn get(&self, number: Option<usize>) -> anyhow::Result<&str> {
        let count = self.questions.len();
        let number = number.unwrap_or(count);
        match number.checked_sub(1).and_then(|index| self.questions.get(index)) {
            Some(question) => Ok(question),
            None if count == 0 => bail!("nothing was asked yet"),
            None => bail!("there is no question {number}; the last is {count}"),
        }
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut numbered = self.questions.iter().zip(1..);
        numbered.try_for_each(|(question, number)| writeln!(f, "{number:4}  {question}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_numbered_and_found_again_in_the_next_call() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        let mut history = History::open(Some(&path)).unwrap();
        assert_eq!(history.get(None).unwrap_err().to_string(), "nothing was asked yet");
        history.push("first").unwrap();
        history.push("second").unwrap();
        drop(history);
        let mut history = History::open(Some(&path)).unwrap();
        assert_eq!(history.to_string(), "   1  first\n   2  second\n");
        assert_eq!(
            (history.get(None).unwrap(), history.get(Some(1)).unwrap()),
            ("second", "first")
        );
        for wrong in [0, 3] {
            let error = history.get(Some(wrong)).unwrap_err().to_string();
            assert_eq!(error, format!("there is no question {wrong}; the last is 2"));
        }
        for number in 0..KEPT_MAX {
            history.push(&number.to_string()).unwrap();
        }
        assert_eq!(history.get(Some(1)).unwrap(), "0", "the oldest are gone");
    }
}
