//! What is assumed behind a chunk of a stream: what `"tokenrouter": {"assumed": true}` adds to its choices. It is for display only,
//! and whatever a chunk says replaces what the one before it said.

use serde::Serialize;
use tokenrouter_core::TokenId;
use tokenrouter_engine::stream::{Assumed, Written};
use tokenrouter_model::text::{Detokenizer, Tokenizer};

use super::Part;
use crate::http::App;

/// All that is assumed.
#[derive(Serialize)]
pub(super) struct Behind<'a> {
    text: &'a str,
    tokens: Vec<Token<'a>>,
}

#[derive(Serialize)]
struct Token<'a> {
    id: TokenId,
    token: String,
    bytes: Vec<u8>,
    model: &'a str,
    /// The model that is asked about it.
    asked: Option<&'a str>,
}

/// What is assumed behind a part; `None` if nothing is.
pub(super) fn behind<'a>(app: &'a App, part: &'a Part) -> Option<Behind<'a>> {
    let tokenizer = app.engine.tokenizer();
    let token = |assumed: &Assumed| Token {
        id: assumed.token,
        token: tokenizer.token_text(assumed.token),
        bytes: tokenizer.token_bytes(assumed.token),
        model: &app.models[assumed.model.index()].name,
        asked: assumed.asked.map(|model| app.models[model.index()].name.as_str()),
    };
    (!part.assumed.is_empty()).then(|| Behind {
        text: &part.assumed_text,
        tokens: part.assumed.iter().map(token).collect(),
    })
}

/// An answer's place between tokens and text, beside the one that writes it: what is assumed is read with a copy of it.
#[derive(Clone, Debug, Default)]
pub(super) struct AssumedText {
    detokenizer: Detokenizer,
    /// Text of committed tokens that is held back, because a stop string may begin in it.
    held: String,
}

impl AssumedText {
    /// Tokens were committed, and so much text was sent.
    pub(super) fn wrote(&mut self, tokenizer: &Tokenizer, tokens: &[Written], sent: &str) {
        for written in tokens {
            self.detokenizer.push(tokenizer, written.token, &mut self.held);
        }
        // At its end an answer may have text that no token completed.
        self.held = self.held.strip_prefix(sent).unwrap_or_default().to_owned();
    }

    /// The text that would follow what has been sent; empty if nothing is assumed.
    pub(super) fn text(&self, tokenizer: &Tokenizer, assumed: &[Assumed]) -> String {
        if assumed.is_empty() {
            return String::new();
        }
        let (mut detokenizer, mut text) = (self.detokenizer, self.held.clone());
        for assumed in assumed {
            detokenizer.push(tokenizer, assumed.token, &mut text);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use tokenrouter_core::ModelIndex;
    use tokenrouter_model::{Embedded, Source};

    use super::*;

    fn tokenizer() -> Tokenizer {
        let source = Source::Embedded(Embedded::Small);
        let config = source.config().unwrap();
        Tokenizer::from_bytes(&source.tokenizer().unwrap(), config.bos_token_id, &config.eos_token_id).unwrap()
    }

    fn written(token: TokenId) -> Written {
        Written {
            token,
            model: ModelIndex(0),
            text_offset: 0,
            after_handoff: false,
            logprobs: None,
            steps: Vec::new(),
        }
    }

    fn assumed(token: TokenId) -> Assumed {
        Assumed {
            token,
            model: ModelIndex(0),
            asked: None,
        }
    }

    /// Whatever is assumed in between and however much is held back, what was sent and what is assumed are together the text of all
    /// tokens.
    #[test]
    fn sent_and_assumed_text_are_the_text_of_all_tokens() {
        let tokenizer = tokenizer();
        let text = "23*03=69;69-98=71";
        let tokens = tokenizer.encode(text).unwrap();
        assert_eq!(tokens.len(), text.len(), "every character is a token of these models");
        for held_back in 0..4 {
            let (mut behind, mut sent) = (AssumedText::default(), 0);
            for committed in 1..tokens.len() {
                let wrong = [assumed(tokens[0]), assumed(tokens[3])];
                assert!(behind.text(&tokenizer, &wrong).ends_with("20"));
                let now = committed.saturating_sub(held_back);
                behind.wrote(&tokenizer, &[written(tokens[committed - 1])], &text[sent..now]);
                sent = now;
                let rest: Vec<Assumed> = tokens[committed..].iter().copied().map(assumed).collect();
                assert_eq!(behind.text(&tokenizer, &rest), text[sent..], "{committed} committed");
                assert_eq!(behind.text(&tokenizer, &[]), "", "nothing is assumed");
            }
        }
    }
}
