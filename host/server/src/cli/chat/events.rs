//! The events of a stream, as a client reads them.

use anyhow::{Context as _, bail};
use axum::body::{Body, BodyDataStream};
use futures_util::StreamExt as _;
use serde_json::Value;

/// A response's events.
pub(super) struct EventReader {
    body: BodyDataStream,
    rest: Vec<u8>,
}

impl EventReader {
    pub(super) fn new(body: Body) -> Self {
        Self {
            body: body.into_data_stream(),
            rest: Vec::new(),
        }
    }

    /// The next object; `None` after `[DONE]`. An error of the API is one here.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<Value>> {
        loop {
            while let Some(event) = self.take() {
                let Some(data) = event.strip_prefix("data: ") else {
                    // A comment, which only shows that the connection is alive.
                    continue;
                };
                if data == "[DONE]" {
                    return Ok(None);
                }
                let object: Value = serde_json::from_str(data).context("an event is not JSON")?;
                if let Some(message) = object["error"]["message"].as_str() {
                    bail!("{message}");
                }
                return Ok(Some(object));
            }
            match self.body.next().await {
                Some(piece) => self.rest.extend_from_slice(&piece?),
                None => bail!("the connection ended before the answer did"),
            }
        }
    }

    /// The next event that has come whole.
    fn take(&mut self) -> Option<String> {
        let end = self.rest.windows(2).position(|pair| pair == b"\n\n")?;
        let event = String::from_utf8_lossy(&self.rest[..end]).into_owned();
        self.rest.drain(..end + 2);
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(pieces: &[&'static str]) -> anyhow::Result<Vec<Value>> {
        let pieces: Vec<_> = pieces.iter().map(|piece| Ok::<_, std::io::Error>(*piece)).collect();
        let mut reader = EventReader::new(Body::from_stream(futures_util::stream::iter(pieces)));
        let mut found = Vec::new();
        while let Some(object) = reader.next().await? {
            found.push(object);
        }
        Ok(found)
    }

    #[tokio::test]
    async fn events_are_the_same_wherever_the_stream_is_cut() {
        let stream = "data: {\"a\":1}\n\n:\n\ndata: {\"b\":2}\n\ndata: [DONE]\n\n";
        for cut in 0..=stream.len() {
            let found = read(&[&stream[..cut], &stream[cut..]]).await.unwrap();
            assert_eq!(
                found,
                [serde_json::json!({ "a": 1 }), serde_json::json!({ "b": 2 })],
                "{cut}"
            );
        }
    }

    #[tokio::test]
    async fn errors_and_early_ends_are_told() {
        let error = read(&["data: {\"error\":{\"message\":\"no\"}}\n\ndata: [DONE]\n\n"]).await;
        assert_eq!(error.unwrap_err().to_string(), "no");
        let error = read(&["data: {\"a\":1}\n\n"]).await;
        assert!(error.unwrap_err().to_string().contains("ended before the answer"));
    }
}
