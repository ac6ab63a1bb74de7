//! A server at a URL: any that has OpenAI's completions and streams them.

use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use futures_util::StreamExt as _;
use serde_json::{Value, json};

use super::{Answered, Question};

/// Longest event that is read, in bytes.
const EVENT_BYTES_MAX: usize = 1 << 20;

/// Most of a refusal that is shown, in characters.
const REFUSAL_SHOWN: usize = 400;

/// A server, and the model that it is asked for.
pub(in crate::cli) struct Remote {
    client: reqwest::Client,
    url: String,
    model: String,
    key: Option<String>,
}

impl Remote {
    /// `url` is `http://HOST:PORT`, perhaps with `/v1`; `key` is sent as a bearer token.
    pub(in crate::cli) fn new(url: &str, model: &str, key: Option<String>) -> anyhow::Result<Self> {
        ensure!(
            url.starts_with("http://"),
            "the URL is \"{url}\"; it is http://HOST:PORT, as in http://127.0.0.1:30000"
        );
        let url = url.trim_end_matches('/');
        Ok(Self {
            client: reqwest::Client::builder().build()?,
            url: url.strip_suffix("/v1").unwrap_or(url).to_owned(),
            model: model.to_owned(),
            key,
        })
    }

    /// Sends a completion and returns the response, which is no refusal.
    pub(in crate::cli) async fn send(&self, mut body: Value) -> anyhow::Result<reqwest::Response> {
        body["model"] = self.model.as_str().into();
        let mut request = self.client.post(format!("{}/v1/completions", self.url)).json(&body);
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        let response = request
            .send()
            .await
            .with_context(|| format!("cannot ask {}", self.url))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let refusal: String = response.text().await?.chars().take(REFUSAL_SHOWN).collect();
        bail!("{} answers {status}: {refusal}", self.url);
    }

    pub(super) async fn ask(&self, question: &Question) -> anyhow::Result<Answered> {
        let mut body = json!({
            "prompt": question.prompt, "max_tokens": question.max_tokens, "temperature": question.temperature,
            "seed": question.seed, "stream": true, "stream_options": {"include_usage": true},
        });
        if question.full_length {
            body["ignore_eos"] = true.into();
        }
        let started = Instant::now();
        let mut bytes = self.send(body).await?.bytes_stream();
        let (mut answered, mut last) = (Answered::default(), None);
        let mut buffer: Vec<u8> = Vec::new();
        let mut pieces = 0;
        while let Some(chunk) = bytes.next().await {
            buffer.extend_from_slice(&chunk?);
            while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = buffer.drain(..=end).collect();
                let Some(data) = data(&line)? else { continue };
                if read(&data, &mut answered)? {
                    pieces += 1;
                    answered.piece(started.elapsed(), &mut last);
                }
            }
            ensure!(
                buffer.len() <= EVENT_BYTES_MAX,
                "an event is longer than {EVENT_BYTES_MAX} bytes"
            );
        }
        answered.total = started.elapsed();
        if answered.tokens == 0 {
            // A server that does not tell its usage: nearly all send an event a token.
            answered.tokens = pieces;
        }
        Ok(answered)
    }
}

/// The JSON of a line of an event stream; `None` for other lines and for the last event.
fn data(line: &[u8]) -> anyhow::Result<Option<Value>> {
    let line = std::str::from_utf8(line).context("an event is not UTF-8")?;
    match line.trim_end().strip_prefix("data:").map(str::trim_start) {
        None | Some("[DONE]") => Ok(None),
        Some(json) => Ok(Some(serde_json::from_str(json).context("an event is not JSON")?)),
    }
}

/// Takes an event into the answer. Returns whether it has text.
fn read(event: &Value, answered: &mut Answered) -> anyhow::Result<bool> {
    if let Some(error) = event.get("error").filter(|error| !error.is_null()) {
        bail!("the server ends the answer: {error}");
    }
    let count = |value: &Value| value.as_u64().map(|count| count as u32);
    if let Some(tokens) = count(&event["usage"]["completion_tokens"]) {
        answered.tokens = tokens;
    }
    let own = &event["usage"]["tokenrouter"];
    answered.handoffs = count(&own["handoffs"]).unwrap_or(answered.handoffs);
    let text = event["choices"][0]["text"].as_str().unwrap_or("");
    answered.text += text;
    Ok(!text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_become_an_answer() {
        let mut answered = Answered::default();
        let mut with_text = Vec::new();
        for line in [
            ": a comment\n",
            "data: {\"choices\":[{\"text\":\"6\"}],\"usage\":null}\r\n",
            "data: {\"choices\":[{\"text\":\"9\"}]}\n",
            "\n",
            "data: {\"choices\":[],\"usage\":{\"completion_tokens\":3}}\n",
            "data: [DONE]\n",
        ] {
            if let Some(event) = data(line.as_bytes()).unwrap() {
                with_text.push(read(&event, &mut answered).unwrap());
            }
        }
        assert_eq!((answered.text.as_str(), answered.tokens), ("69", 3));
        assert_eq!(with_text, [true, true, false]);
        let error = read(&json!({"error": {"message": "no"}}), &mut answered).unwrap_err();
        assert!(error.to_string().contains("no"));
        assert!(data(b"data: {").is_err());
    }

    #[test]
    fn a_url_is_http() {
        let error = Remote::new("127.0.0.1:1", "m", None).err().unwrap().to_string();
        assert!(error.contains("http://HOST:PORT"), "{error}");
        assert_eq!(Remote::new("http://h:1/v1/", "m", None).unwrap().url, "http://h:1");
    }
}
