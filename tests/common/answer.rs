//! An answer to one prompt, whole or streamed, with every rule of its shape checked as it is read.

use serde_json::Value;

/// A token as a client sees it: its id, and the model that wrote it.
pub type Written = (u64, String);

/// What an answer comes down to.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub text: String,
    pub finish: String,
    /// Empty unless the request asked for attribution.
    pub tokens: Vec<Written>,
    /// Null for a stream without `include_usage`. Without what was found in the prefix cache, which depends on who came before.
    pub usage: Value,
}

/// A usage without what was found in the prefix cache.
pub fn cost(usage: &Value) -> Value {
    let mut usage = usage.clone();
    if let Some(usage) = usage.as_object_mut() {
        assert!(usage.remove("prompt_tokens_details").is_some(), "{usage:?}");
        if let Some(routed) = usage.get_mut("tokenrouter").and_then(Value::as_object_mut) {
            assert!(routed.remove("cached_tokens_by_model").is_some(), "{routed:?}");
        }
    }
    usage
}

impl Answer {
    pub fn of_whole(body: &Value) -> Self {
        assert_eq!(body["object"], "text_completion");
        let choice = only_choice(body);
        let usage = &body["usage"];
        assert_eq!(
            usage["total_tokens"].as_u64(),
            Some(number(&usage["prompt_tokens"]) + number(&usage["completion_tokens"]))
        );
        Self {
            text: text(choice).to_owned(),
            finish: choice["finish_reason"].as_str().expect("a finish_reason").to_owned(),
            tokens: written(choice),
            usage: cost(usage),
        }
    }

    /// Reads a stream of one choice: pieces, one chunk with a finish_reason, perhaps the usage, `[DONE]`, the end.
    pub async fn of_stream(mut events: Events) -> Self {
        let mut answer = Self {
            text: String::new(),
            finish: String::new(),
            tokens: Vec::new(),
            usage: Value::Null,
        };
        while let Some(data) = events.next().await {
            if data == "[DONE]" {
                assert!(!answer.finish.is_empty(), "[DONE] before a finish_reason");
                assert_eq!(events.next().await, None, "nothing follows [DONE]");
                return answer;
            }
            let chunk: Value = serde_json::from_str(&data).unwrap_or_else(|error| panic!("{error} in {data:?}"));
            assert!(chunk["error"].is_null(), "{data}");
            assert_eq!(chunk["object"], "text_completion");
            if chunk["choices"].as_array().is_some_and(Vec::is_empty) {
                assert!(
                    !answer.finish.is_empty() && answer.usage.is_null(),
                    "usage comes once, at the end"
                );
                answer.usage = cost(&chunk["usage"]);
                continue;
            }
            let choice = only_choice(&chunk);
            assert!(
                answer.finish.is_empty(),
                "a choice goes on after its finish_reason: {data}"
            );
            answer.text += text(choice);
            answer.tokens.extend(written(choice));
            answer.finish = choice["finish_reason"].as_str().unwrap_or_default().to_owned();
        }
        panic!("the stream ends without [DONE]");
    }

    /// Tokens of a model according to the usage.
    pub fn tokens_of(&self, model: &str) -> u64 {
        number(&self.usage["tokenrouter"]["tokens_by_model"][model])
    }

    pub fn completion_tokens(&self) -> u64 {
        number(&self.usage["completion_tokens"])
    }

    pub fn handoffs(&self) -> u64 {
        number(&self.usage["tokenrouter"]["handoffs"])
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no count"))
}

fn only_choice(body: &Value) -> &Value {
    let choices = body["choices"]
        .as_array()
        .unwrap_or_else(|| panic!("no choices in {body}"));
    assert_eq!(choices.len(), 1, "{body}");
    assert_eq!(choices[0]["index"], 0);
    &choices[0]
}

fn text(choice: &Value) -> &str {
    choice["text"].as_str().unwrap_or_else(|| panic!("no text in {choice}"))
}

fn written(choice: &Value) -> Vec<Written> {
    let tokens = choice["attribution"].as_array().map_or(&[][..], Vec::as_slice);
    let token = |token: &Value| {
        (
            number(&token["id"]),
            token["model"].as_str().expect("a model").to_owned(),
        )
    };
    tokens.iter().map(token).collect()
}

/// Server-sent events as they come in.
pub struct Events {
    response: reqwest::Response,
    received: Vec<u8>,
}

impl Events {
    pub fn new(response: reqwest::Response) -> Self {
        Self {
            response,
            received: Vec::new(),
        }
    }

    /// The data of the next event; `None` when the response is over.
    pub async fn next(&mut self) -> Option<String> {
        self.try_next().await.expect("the connection holds")
    }

    /// As [`Events::next`]; an error if the connection breaks.
    pub async fn try_next(&mut self) -> reqwest::Result<Option<String>> {
        loop {
            if let Some(end) = self.received.windows(2).position(|bytes| bytes == b"\n\n") {
                let event: Vec<u8> = self.received.drain(..end + 2).collect();
                let event = String::from_utf8(event).expect("events are UTF-8");
                // Comments keep a silent connection alive.
                if let Some(data) = event.trim_end().strip_prefix("data: ") {
                    return Ok(Some(data.to_owned()));
                }
                assert!(event.starts_with(':'), "neither data nor a comment: {event:?}");
                continue;
            }
            match self.response.chunk().await? {
                Some(bytes) => self.received.extend_from_slice(&bytes),
                None => {
                    assert!(self.received.is_empty(), "the response ends within an event");
                    return Ok(None);
                }
            }
        }
    }
}
