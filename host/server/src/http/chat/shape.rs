//! How an answer in a conversation looks: a message, or deltas of one, and with `logprobs` its tokens one by one.

use serde::Serialize;
use tokenrouter_core::TokenId;
use tokenrouter_engine::stream::Written;
use tokenrouter_model::text::Tokenizer;

use crate::http::answer::{Part, Shape, shown_logprob};

/// The shape of `/v1/chat/completions`.
pub(super) struct ChatShape {
    tokenizer: Tokenizer,
    logprobs: bool,
}

/// The fields of a choice.
#[derive(Debug, Serialize)]
pub(super) struct ChatBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Message>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delta: Option<Delta>,
    logprobs: Option<Logprobs>,
}

#[derive(Debug, Serialize)]
struct Message {
    role: &'static str,
    content: String,
    /// Always null: models here say what they say as content.
    refusal: Option<()>,
}

/// More of a message; the last may have nothing.
#[derive(Debug, Serialize)]
struct Delta {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
}

#[derive(Debug, Serialize)]
struct Logprobs {
    content: Vec<Token>,
}

/// A token of the text. The bytes of all of them are the text's, up to where a stop string cut it.
#[derive(Debug, Serialize)]
struct Token {
    #[serde(flatten)]
    alternative: Alternative,
    top_logprobs: Vec<Alternative>,
}

#[derive(Debug, Serialize)]
struct Alternative {
    token: String,
    logprob: f32,
    bytes: Vec<u8>,
}

impl ChatShape {
    pub(super) fn new(tokenizer: Tokenizer, logprobs: bool) -> Self {
        Self { tokenizer, logprobs }
    }

    fn logprobs(&self, tokens: &[Written]) -> Option<Logprobs> {
        if !self.logprobs {
            return None;
        }
        let token = |written: &Written| {
            let logprobs = written.logprobs.as_ref()?;
            // A token that ends the answer is no part of its text.
            (!self.tokenizer.is_special(written.token)).then(|| Token {
                alternative: self.alternative(written.token, logprobs.logprob),
                top_logprobs: (logprobs.top.iter())
                    .map(|top| self.alternative(top.token, top.logprob))
                    .collect(),
            })
        };
        Some(Logprobs {
            content: tokens.iter().filter_map(token).collect(),
        })
    }

    fn alternative(&self, token: TokenId, logprob: f32) -> Alternative {
        Alternative {
            token: self.tokenizer.token_text(token),
            logprob: shown_logprob(logprob),
            bytes: self.tokenizer.token_bytes(token),
        }
    }
}

impl Shape for ChatShape {
    type Body = ChatBody;

    const ID_PREFIX: &'static str = "chatcmpl";
    const WHOLE: &'static str = "chat.completion";
    const CHUNK: &'static str = "chat.completion.chunk";

    fn opening(&mut self, _choice: usize) -> Option<ChatBody> {
        Some(ChatBody {
            message: None,
            delta: Some(Delta {
                role: Some("assistant"),
                content: Some(String::new()),
            }),
            logprobs: None,
        })
    }

    fn chunk(&mut self, _choice: usize, part: &Part) -> ChatBody {
        ChatBody {
            message: None,
            delta: Some(Delta {
                role: None,
                content: (!part.text.is_empty()).then(|| part.text.clone()),
            }),
            logprobs: self.logprobs(&part.tokens).filter(|it| !it.content.is_empty()),
        }
    }

    fn whole(&mut self, _choice: usize, part: &Part) -> ChatBody {
        ChatBody {
            message: Some(Message {
                role: "assistant",
                content: part.text.clone(),
                refusal: None,
            }),
            delta: None,
            logprobs: self.logprobs(&part.tokens),
        }
    }
}
