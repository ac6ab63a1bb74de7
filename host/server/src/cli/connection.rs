//! Requests to a host: to one that runs elsewhere, over HTTP, or to one in this process, without a socket. Both are asked by the same
//! API.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use axum::Router;
use axum::body::Body;
use hyper::service::Service as _;
use hyper::{Response, header};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde_json::Value;
use tokio::net::TcpStream;

use super::address::Address;

/// Largest response that is read whole, in bytes.
const RESPONSE_BYTES_MAX: usize = 16 << 20;

/// How long a host may take to begin its response. Requests that wait for their turn are not answered before it comes.
const TIME_MAX: Duration = Duration::from_secs(600);

/// Where the key is looked for when no file is named.
const KEY_VARIABLE: &str = "TOKENROUTER_API_KEY";

/// A host that answers.
pub(super) enum Connection {
    /// In this process.
    Local(Router),
    /// At an address, with the key that it may ask for.
    Remote(Address),
}

impl Connection {
    /// To the host at `url`. The key is the first in the file or, without one, the environment's.
    pub(super) fn remote(url: &str, key_file: Option<&Path>) -> anyhow::Result<Self> {
        Address::read(url, "http://127.0.0.1:30000", key_file, KEY_VARIABLE).map(Self::Remote)
    }

    /// Sends a request, as `POST` if it has a body; an error in the API's words if that is what comes.
    pub(super) async fn send(&self, path: &str, body: Option<&Value>) -> anyhow::Result<Response<Body>> {
        let response = tokio::time::timeout(TIME_MAX, self.exchange(path, body)).await;
        let response = response.with_context(|| format!("no answer within {} s", TIME_MAX.as_secs()))??;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), RESPONSE_BYTES_MAX).await?;
        let reply: Value = serde_json::from_slice(&body).unwrap_or_default();
        match reply["error"]["message"].as_str() {
            Some(message) => bail!("{message} ({status})"),
            None => bail!("{status}, with something that is not an error of this API"),
        }
    }

    /// The same, read to its end as JSON.
    pub(super) async fn json(&self, path: &str) -> anyhow::Result<Value> {
        let response = self.send(path, None).await?;
        let body = axum::body::to_bytes(response.into_body(), RESPONSE_BYTES_MAX).await?;
        serde_json::from_slice(&body).with_context(|| format!("{path} is answered with something that is not JSON"))
    }

    async fn exchange(&self, path: &str, body: Option<&Value>) -> anyhow::Result<Response<Body>> {
        let method = if body.is_some() { "POST" } else { "GET" };
        let mut request = hyper::Request::builder().method(method).uri(path);
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        match self {
            Self::Local(router) => {
                let service = TowerToHyperService::new(router.clone());
                Ok(service.call(request.body(body)?).await?)
            }
            Self::Remote(Address { host, key }) => {
                let stream = TcpStream::connect(host);
                let stream = stream.await.with_context(|| {
                    format!("cannot connect to the host at {host}; tokenrouter-host starts one, --url names another")
                })?;
                let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
                // It ends with the response.
                tokio::spawn(connection);
                request = request.header(header::HOST, host).header(header::CONNECTION, "close");
                if let Some(key) = key {
                    request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
                }
                Ok(sender.send_request(request.body(body)?).await?.map(Body::new))
            }
        }
    }
}
