//! How a completion looks: its text, and with `logprobs` its tokens in four lists side by side.

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use tokenrouter_engine::stream::Written;
use tokenrouter_model::text::Tokenizer;

use crate::http::answer::{Part, Shape, shown_logprob};

/// The shape of `/v1/completions`.
pub(super) struct TextShape {
    tokenizer: Tokenizer,
    logprobs: bool,
    /// The prompts' texts, if answers begin with them.
    echo: Option<Vec<String>>,
    /// Answers to each prompt.
    n: usize,
}

/// The fields of a choice.
#[derive(Debug, Serialize)]
pub(super) struct TextBody {
    text: String,
    logprobs: Option<Logprobs>,
}

/// One entry a token in each list.
#[derive(Debug, Serialize)]
struct Logprobs {
    tokens: Vec<String>,
    token_logprobs: Vec<f32>,
    top_logprobs: Vec<Top>,
    /// Characters of the answer before the token.
    text_offset: Vec<u32>,
}

/// The most probable tokens, and always the token itself. Of tokens with one text the most probable stands for all.
#[derive(Debug)]
struct Top(Vec<(String, f32)>);

impl Serialize for Top {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (token, logprob) in &self.0 {
            map.serialize_entry(token, logprob)?;
        }
        map.end()
    }
}

impl TextShape {
    pub(super) fn new(tokenizer: Tokenizer, logprobs: bool, echo: Option<Vec<String>>, n: usize) -> Self {
        Self {
            tokenizer,
            logprobs,
            echo,
            n,
        }
    }

    fn prompt(&self, choice: usize) -> Option<&str> {
        self.echo.as_ref().map(|prompts| prompts[choice / self.n].as_str())
    }

    fn logprobs(&self, tokens: &[Written]) -> Option<Logprobs> {
        if !self.logprobs {
            return None;
        }
        let mut lists = Logprobs {
            tokens: Vec::with_capacity(tokens.len()),
            token_logprobs: Vec::with_capacity(tokens.len()),
            top_logprobs: Vec::with_capacity(tokens.len()),
            text_offset: Vec::with_capacity(tokens.len()),
        };
        for written in tokens {
            let Some(logprobs) = &written.logprobs else { continue };
            let token = self.tokenizer.token_text(written.token);
            let mut top: Vec<(String, f32)> = Vec::with_capacity(logprobs.top.len() + 1);
            let alternatives = logprobs.top.iter().map(|it| (it.token, it.logprob));
            for (id, logprob) in alternatives.chain([(written.token, logprobs.logprob)]) {
                let text = self.tokenizer.token_text(id);
                if top.iter().all(|(known, _)| *known != text) {
                    top.push((text, shown_logprob(logprob)));
                }
            }
            lists.tokens.push(token);
            lists.token_logprobs.push(shown_logprob(logprobs.logprob));
            lists.top_logprobs.push(Top(top));
            lists.text_offset.push(written.text_offset);
        }
        Some(lists)
    }
}

impl Shape for TextShape {
    type Body = TextBody;

    const ID_PREFIX: &'static str = "cmpl";
    const WHOLE: &'static str = "text_completion";
    const CHUNK: &'static str = "text_completion";

    fn opening(&mut self, choice: usize) -> Option<TextBody> {
        self.prompt(choice).map(|prompt| TextBody {
            text: prompt.to_owned(),
            logprobs: None,
        })
    }

    fn chunk(&mut self, _choice: usize, part: &Part) -> TextBody {
        TextBody {
            text: part.text.clone(),
            logprobs: self.logprobs(&part.tokens).filter(|lists| !lists.tokens.is_empty()),
        }
    }

    fn whole(&mut self, choice: usize, part: &Part) -> TextBody {
        TextBody {
            text: [self.prompt(choice).unwrap_or_default(), &part.text].concat(),
            logprobs: self.logprobs(&part.tokens),
        }
    }
}
