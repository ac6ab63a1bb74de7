//! One request to the admin API.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use axum::body::Body;
use hyper::header;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// Largest response that is read, in bytes.
const RESPONSE_BYTES_MAX: usize = 16 << 20;

/// Far longer than a component may compile.
const TIME_MAX: Duration = Duration::from_secs(120);

/// Where the key is looked for when no file is named.
const KEY_VARIABLE: &str = "TOKENROUTER_ADMIN_KEY";

/// A request.
pub(super) struct Call {
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) body: Vec<u8>,
}

impl Call {
    pub(super) fn get(path: &str) -> Self {
        Self {
            method: "GET",
            path: path.to_owned(),
            body: Vec::new(),
        }
    }

    /// Null fields are left out.
    pub(super) fn post(path: &str, body: &Value) -> Self {
        let mut body = body.clone();
        if let Some(fields) = body.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
        let body = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        Self {
            method: "POST",
            path: path.to_owned(),
            body,
        }
    }
}

/// Where to send requests, and with which key.
pub(super) struct Client {
    host: String,
    key: Option<String>,
}

impl Client {
    pub(super) fn new(url: &str, key_file: Option<&Path>) -> anyhow::Result<Self> {
        let host = url.strip_prefix("http://").map(|host| host.trim_end_matches('/'));
        let host = host.filter(|host| !host.is_empty() && !host.contains('/'));
        let host =
            host.ok_or_else(|| anyhow!("--url is {url:?}; it is http://HOST:PORT, as in http://127.0.0.1:30001"))?;
        let key = match key_file {
            None => std::env::var(KEY_VARIABLE).ok(),
            Some(path) => {
                let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
                let lines = text.lines().map(str::trim);
                let line = lines
                    .into_iter()
                    .find(|line| !line.is_empty() && !line.starts_with('#'));
                let key = line.and_then(|line| line.split_whitespace().last()).map(str::to_owned);
                Some(key.with_context(|| format!("{} has no key", path.display()))?)
            }
        };
        Ok(Self {
            host: host.to_owned(),
            key: key.map(|key| key.trim().to_owned()),
        })
    }

    /// Sends a request and returns the response's JSON; an error with the API's words if it is one.
    pub(super) fn send(&self, call: Call) -> anyhow::Result<Value> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let sent = tokio::time::timeout(TIME_MAX, self.exchange(call)).await;
            sent.with_context(|| format!("no answer from {} within {} s", self.host, TIME_MAX.as_secs()))?
        })
    }

    async fn exchange(&self, call: Call) -> anyhow::Result<Value> {
        let stream = TcpStream::connect(&self.host).await.with_context(|| {
            format!(
                "cannot connect to the admin API at {}; the host offers it with --admin-listen",
                self.host
            )
        })?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        // It ends with the response.
        tokio::spawn(connection);
        let mut request = hyper::Request::builder()
            .method(call.method)
            .uri(&call.path)
            .header(header::HOST, &self.host)
            .header(header::CONNECTION, "close");
        if let Some(key) = &self.key {
            request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
        }
        let response = sender.send_request(request.body(Body::from(call.body))?).await?;
        let status = response.status();
        let body = axum::body::to_bytes(Body::new(response.into_body()), RESPONSE_BYTES_MAX).await?;
        let reply: Value = serde_json::from_slice(&body)
            .with_context(|| format!("{} answers {status} with something that is not JSON", self.host))?;
        if !status.is_success() {
            let message = reply["error"]["message"].as_str().unwrap_or("no reason given");
            bail!("{message} ({status})");
        }
        Ok(reply)
    }
}

/// A part of a path or query, with everything escaped that may mean something there.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(char::from(byte)),
            _ => encoded += &format!("%{byte:02X}"),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_means_something_is_escaped() {
        assert_eq!(encode("r-stitch_2.0"), "r-stitch_2.0");
        assert_eq!(encode("a/b?c&d=é"), "a%2Fb%3Fc%26d%3D%C3%A9");
    }

    #[test]
    fn only_plain_http_urls_are_taken() {
        assert_eq!(Client::new("http://localhost:1/", None).unwrap().host, "localhost:1");
        for url in ["localhost:1", "https://localhost:1", "http://", "http://a/b"] {
            assert!(Client::new(url, None).is_err(), "{url}");
        }
    }
}
