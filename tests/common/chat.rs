//! An answer in a conversation, whole or streamed, with every rule of its shape checked as it is read.

use serde_json::{Value, json};

use super::Server;
use super::answer::cost;

/// What the choices of a request come down to, and what they have cost.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatAnswer {
    /// Text and finish_reason of each choice.
    pub choices: Vec<(String, String)>,
    /// The entries of `logprobs.content` of each choice.
    pub logprobs: Vec<Vec<Value>>,
    /// Null for a stream without `include_usage`.
    pub usage: Value,
}

impl ChatAnswer {
    fn of_whole(body: &Value) -> Self {
        assert_eq!(body["object"], "chat.completion");
        assert!(
            body["id"].as_str().is_some_and(|id| id.starts_with("chatcmpl-")),
            "{body}"
        );
        let choices = body["choices"].as_array().expect("choices");
        let read = |(index, choice): (usize, &Value)| {
            assert_eq!(choice["index"], index);
            let message = &choice["message"];
            assert_eq!(message["role"], "assistant");
            let (text, reason) = (message["content"].as_str(), choice["finish_reason"].as_str());
            (
                text.expect("a content").to_owned(),
                reason.expect("a reason").to_owned(),
            )
        };
        Self {
            choices: choices.iter().enumerate().map(read).collect(),
            logprobs: choices.iter().map(logprobs).collect(),
            usage: cost(&body["usage"]),
        }
    }

    /// A role first, then pieces, one finish_reason, perhaps the usage, `[DONE]`, the end.
    fn of_stream(body: &str, count: usize) -> Self {
        let mut events = body
            .split("\n\n")
            .filter(|event| !event.is_empty() && !event.starts_with(':'));
        let mut choices = vec![(None, String::new()); count];
        let mut entries = vec![Vec::new(); count];
        let mut usage = Value::Null;
        assert!(body.ends_with("data: [DONE]\n\n"), "{body}");
        for event in events.by_ref().map(|event| event.strip_prefix("data: ").expect("data")) {
            if event == "[DONE]" {
                break;
            }
            let chunk: Value = serde_json::from_str(event).expect("JSON");
            assert_eq!(chunk["object"], "chat.completion.chunk", "{chunk}");
            let parts = chunk["choices"].as_array().expect("choices are always there");
            let Some(choice) = parts.first() else {
                assert!(usage.is_null() && choices.iter().all(|(_, reason): &(_, String)| !reason.is_empty()));
                usage = cost(&chunk["usage"]);
                continue;
            };
            assert_eq!(parts.len(), 1);
            let index = choice["index"].as_u64().expect("an index") as usize;
            let (text, reason) = &mut choices[index];
            assert!(reason.is_empty(), "a choice goes on after its finish_reason: {event}");
            let content = choice["delta"]["content"].as_str().unwrap_or_default();
            match text {
                None => {
                    assert_eq!(
                        choice["delta"],
                        json!({"role": "assistant", "content": ""}),
                        "the role comes first"
                    );
                    *text = Some(String::new());
                }
                Some(text) => {
                    assert!(choice["delta"]["role"].is_null(), "the role comes once: {event}");
                    text.push_str(content);
                }
            }
            entries[index].extend(logprobs(choice));
            choice["finish_reason"].as_str().unwrap_or_default().clone_into(reason);
        }
        assert_eq!(events.next(), None, "nothing follows [DONE]");
        let choice = |(text, reason): (Option<String>, String)| {
            assert!(!reason.is_empty(), "[DONE] before a finish_reason");
            (text.expect("a role"), reason)
        };
        Self {
            choices: choices.into_iter().map(choice).collect(),
            logprobs: entries,
            usage,
        }
    }
}

fn logprobs(choice: &Value) -> Vec<Value> {
    choice["logprobs"]["content"].as_array().cloned().unwrap_or_default()
}

impl Server {
    /// `POST /v1/chat/completions` with a good answer, streamed if the body says so.
    pub async fn chat(&self, body: &Value) -> ChatAnswer {
        let reply = self.send("POST", "/v1/chat/completions", body.to_string()).await;
        assert_eq!(reply.status, 200, "{body}: {}", reply.body);
        if body["stream"] == true {
            let count = body["n"].as_u64().unwrap_or(1) as usize;
            return ChatAnswer::of_stream(&reply.body, count);
        }
        ChatAnswer::of_whole(&reply.json())
    }

    /// The message of a request that is refused with 400, and the field it names.
    pub async fn refusal(&self, path: &str, body: &Value) -> (String, Value) {
        let reply = self.send("POST", path, body.to_string()).await;
        assert_eq!(reply.status, 400, "{path} {body}: {}", reply.body);
        let error = reply.error();
        (
            error["message"].as_str().expect("a message").to_owned(),
            error["param"].clone(),
        )
    }
}
