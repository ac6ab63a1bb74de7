//! One request to the admin API.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use axum::body::Body;
use hyper::header;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use crate::cli::address::Address;

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
pub(super) struct Client(Address);

impl Client {
    pub(super) fn new(url: &str, key_file: Option<&Path>) -> anyhow::Result<Self> {
        Address::read(url, "http://127.0.0.1:30001", key_file, KEY_VARIABLE).map(Self)
    }

    /// Sends a request and returns the response's JSON; an error with the API's words if it is one.
    pub(super) fn send(&self, call: Call) -> anyhow::Result<Value> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let sent = tokio::time::timeout(TIME_MAX, self.exchange(call)).await;
            sent.with_context(|| format!("no answer from {} within {} s", self.0.host, TIME_MAX.as_secs()))?
        })
    }

    async fn exchange(&self, call: Call) -> anyhow::Result<Value> {
        let stream = TcpStream::connect(&self.0.host).await.with_context(|| {
            format!(
                "cannot connect to the admin API at {}; the host offers it with --admin-listen",
                self.0.host
            )
        })?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        // It ends with the response.
        tokio::spawn(connection);
        let mut request = hyper::Request::builder()
            .method(call.method)
            .uri(&call.path)
            .header(header::HOST, &self.0.host)
            .header(header::CONNECTION, "close");
        if let Some(key) = &self.0.key {
            request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
        }
        let response = sender.send_request(request.body(Body::from(call.body))?).await?;
        let status = response.status();
        let body = axum::body::to_bytes(Body::new(response.into_body()), RESPONSE_BYTES_MAX).await?;
        let reply: Value = serde_json::from_slice(&body)
            .with_context(|| format!("{} answers {status} with something that is not JSON", self.0.host))?;
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
}
