//! An answer in a terminal: tokens as they come, each in the colour of the model that wrote it.

use std::io::Write;

use serde::Deserialize;

/// The colours of models, in the deployment's order: what terminals have in light and in dark. The first model, which writes most,
/// has the terminal's own.
const COLOURS: [&str; 8] = [
    "", "\x1b[33m", "\x1b[36m", "\x1b[35m", "\x1b[32m", "\x1b[34m", "\x1b[31m", "\x1b[90m",
];
const PLAIN: &str = "\x1b[0m";

/// A token as the API tells it.
#[derive(Debug, Deserialize)]
pub(super) struct Token {
    pub(super) bytes: Vec<u8>,
    pub(super) model: String,
}

/// How a model's name or token begins and ends in its colour.
pub(super) fn paint(place: usize, coloured: bool) -> (&'static str, &'static str) {
    match COLOURS[place % COLOURS.len()] {
        colour if coloured && !colour.is_empty() => (colour, PLAIN),
        _ => ("", ""),
    }
}

/// Writes tokens. The last one is held back: where it ended the answer it is no part of it.
pub(super) struct AnswerWriter<'a, W> {
    out: W,
    models: &'a [String],
    coloured: bool,
    held: Option<Token>,
    /// Bytes of a character that is not complete.
    open: Vec<u8>,
    text: String,
}

impl<'a, W: Write> AnswerWriter<'a, W> {
    /// `models` are those of the deployment, in order.
    pub(super) fn new(out: W, models: &'a [String], coloured: bool) -> Self {
        Self {
            out,
            models,
            coloured,
            held: None,
            open: Vec::new(),
            text: String::new(),
        }
    }

    /// Writes what is certain to be a part of the answer.
    pub(super) fn push(&mut self, tokens: Vec<Token>) -> std::io::Result<()> {
        for token in tokens {
            if let Some(held) = self.held.replace(token) {
                self.write(&held)?;
            }
        }
        self.out.flush()
    }

    /// Writes the rest and returns the whole text. `stopped`: the last token ended the answer.
    pub(super) fn end(mut self, stopped: bool) -> std::io::Result<String> {
        if let Some(held) = self.held.take().filter(|_| !stopped) {
            self.write(&held)?;
        }
        self.out.flush()?;
        Ok(self.text)
    }

    fn write(&mut self, token: &Token) -> std::io::Result<()> {
        self.open.extend_from_slice(&token.bytes);
        let complete = match std::str::from_utf8(&self.open) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.open.len(),
        };
        let piece = String::from_utf8_lossy(&self.open[..complete]).into_owned();
        self.open.drain(..complete);
        let place = self.models.iter().position(|name| *name == token.model).unwrap_or(0);
        let (begin, end) = paint(place, self.coloured);
        // What a model writes must not steer the terminal.
        let shown: String = piece
            .chars()
            .map(|it| {
                if it.is_control() && !"\n\t".contains(it) {
                    '\u{fffd}'
                } else {
                    it
                }
            })
            .collect();
        self.text.push_str(&piece);
        write!(self.out, "{begin}{shown}{end}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(bytes: &[u8], model: &str) -> Token {
        Token {
            bytes: bytes.to_vec(),
            model: model.to_owned(),
        }
    }

    fn written(tokens: Vec<Token>, coloured: bool, stopped: bool) -> (String, String) {
        let models = ["small".to_owned(), "large".to_owned()];
        let mut out = Vec::new();
        let mut writer = AnswerWriter::new(&mut out, &models, coloured);
        for token in tokens {
            writer.push(vec![token]).unwrap();
        }
        let text = writer.end(stopped).unwrap();
        (String::from_utf8(out).unwrap(), text)
    }

    #[test]
    fn a_character_of_two_tokens_is_written_once_and_the_end_token_never() {
        let tokens = || {
            vec![
                token(b"a", "small"),
                token(&[0xc3], "small"),
                token(&[0xa9], "large"),
                token(b"<eos>", "small"),
            ]
        };
        assert_eq!(written(tokens(), false, true), ("aé".to_owned(), "aé".to_owned()));
        assert_eq!(written(tokens(), true, true).0, "a\x1b[33mé\x1b[0m");
        assert_eq!(written(tokens(), false, false).0, "aé<eos>");
    }

    #[test]
    fn a_model_cannot_steer_the_terminal() {
        let (shown, text) = written(vec![token(b"\x1b[2Jx\n\t", "small")], true, false);
        assert_eq!((shown.as_str(), text.as_str()), ("\u{fffd}[2Jx\n\t", "\x1b[2Jx\n\t"));
    }
}
