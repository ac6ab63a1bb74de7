//! The hub's interface over HTTP, as far as a download needs it.

use std::io::Read;
use std::time::Duration;

use serde::Deserialize;
use ureq::http::{Response, header};
use ureq::{Agent, Body};

use super::repo::is_plain;
use super::{HubError, Repo, Settings};

/// Longest list of files that is read, bytes.
const LIST_BYTES_MAX: u64 = 32 << 20;
/// Redirects within the hub, as of repositories that were renamed.
const MOVES_MAX: usize = 5;

/// A connection to the hub.
pub(super) struct Client {
    agent: Agent,
    endpoint: String,
    token: Option<String>,
}

/// A repository at a moment.
#[derive(Deserialize)]
pub(super) struct Listing {
    /// The commit.
    #[serde(rename = "sha")]
    pub(super) commit: String,
    /// Its files.
    pub(super) siblings: Vec<Sibling>,
}

/// One of them.
#[derive(Deserialize)]
pub(super) struct Sibling {
    #[serde(rename = "rfilename")]
    pub(super) name: String,
}

/// What is known of a file before it is fetched.
#[derive(Debug)]
pub(super) struct Meta {
    /// The name of its blob.
    pub(super) etag: String,
    /// Bytes.
    pub(super) size: u64,
}

impl Client {
    pub(super) fn new(settings: &Settings) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(Duration::from_secs(15)))
            .timeout_recv_response(Some(Duration::from_secs(60)))
            .timeout_per_read(Some(Duration::from_secs(60)))
            .redirect_auth_headers(ureq::config::RedirectAuthHeaders::SameHost)
            .user_agent(concat!("tokenrouter-host/", env!("CARGO_PKG_VERSION")))
            .build();
        Self {
            agent: config.new_agent(),
            endpoint: settings.endpoint.clone(),
            token: settings.token.clone(),
        }
    }

    /// The commit and the files of a repository.
    pub(super) fn list(&self, repo: &Repo) -> Result<Listing, HubError> {
        let url = format!(
            "{}/api/models/{}/revision/{}",
            self.endpoint,
            repo.id(),
            repo.revision()
        );
        let mut response = self.send(self.agent.get(&url), &url)?;
        check(&response, &url, "repository")?;
        let body = response.body_mut().with_config().limit(LIST_BYTES_MAX).read_to_vec();
        let body = body.map_err(|error| transport(&url, error))?;
        let wrong = |what: String| HubError::Answer { url: url.clone(), what };
        let listing: Listing =
            serde_json::from_slice(&body).map_err(|error| wrong(format!("no list of files: {error}")))?;
        if !is_plain(&listing.commit) {
            return Err(wrong(format!("\"{}\" is no commit", listing.commit)));
        }
        Ok(listing)
    }

    /// Where a file of a repository is.
    pub(super) fn url(&self, repo: &Repo, commit: &str, file: &str) -> String {
        format!("{}/{}/resolve/{commit}/{file}", self.endpoint, repo.id())
    }

    /// The name and size of a file's blob. Large files are elsewhere, and the hub knows that of them which it says before it sends
    /// us there.
    pub(super) fn meta(&self, url: &str) -> Result<Meta, HubError> {
        let mut place = url.to_owned();
        for _ in 0..=MOVES_MAX {
            let request = self.agent.head(&place).config().max_redirects(0).build();
            let response = self.send(request, &place)?;
            let text = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
            let moved = text("location").filter(|to| to.starts_with('/') && text("x-linked-etag").is_none());
            if let Some(to) = moved.filter(|_| response.status().is_redirection()) {
                place = format!("{}{to}", self.origin());
                continue;
            }
            if !response.status().is_redirection() {
                check(&response, &place, "file")?;
            }
            let etag = text("x-linked-etag").or_else(|| text("etag")).unwrap_or_default();
            let etag = etag.trim_start_matches("W/").trim_matches('"').to_owned();
            let size = text("x-linked-size").or_else(|| text("content-length"));
            return match size.and_then(|size| size.parse().ok()) {
                Some(size) if is_plain(&etag) => Ok(Meta { etag, size }),
                _ => Err(HubError::Answer {
                    url: place,
                    what: "the answer has no usable ETag and size".to_owned(),
                }),
            };
        }
        Err(HubError::Answer {
            url: url.to_owned(),
            what: format!("moved more than {MOVES_MAX} times"),
        })
    }

    /// The bytes of a file from `start` on, and where they really start: some servers begin anew.
    pub(super) fn bytes(&self, url: &str, start: u64) -> Result<(u64, impl Read + use<>), HubError> {
        let mut request = self.agent.get(url);
        if start > 0 {
            request = request.header(header::RANGE, format!("bytes={start}-"));
        }
        let response = self.send(request, url)?;
        if response.status().as_u16() == 416 {
            return Err(HubError::Corrupt {
                file: url.to_owned(),
                what: format!("it has no byte {start}"),
            });
        }
        check(&response, url, "file")?;
        let starts = match response.status().as_u16() {
            206 => start,
            _ => 0,
        };
        let reader = response.into_body().into_with_config().limit(u64::MAX).reader();
        Ok((starts, reader))
    }

    /// Scheme and host of the endpoint, which may have a path.
    fn origin(&self) -> &str {
        let host = self.endpoint.find("://").map_or(0, |at| at + 3);
        let end = self.endpoint[host..]
            .find('/')
            .map_or(self.endpoint.len(), |at| host + at);
        &self.endpoint[..end]
    }

    fn send(
        &self,
        request: ureq::RequestBuilder<ureq::typestate::WithoutBody>,
        url: &str,
    ) -> Result<Response<Body>, HubError> {
        // Sizes and ranges are those of the file itself.
        let mut request = request.header(header::ACCEPT_ENCODING, "identity");
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        request.call().map_err(|error| transport(url, error))
    }
}

fn transport(url: &str, error: ureq::Error) -> HubError {
    HubError::Transport {
        url: url.to_owned(),
        source: error.into_io(),
    }
}

/// Whether an answer is what was asked for.
fn check(response: &Response<Body>, url: &str, what: &'static str) -> Result<(), HubError> {
    let url = url.to_owned();
    let code = response
        .headers()
        .get("x-error-code")
        .and_then(|value| value.to_str().ok());
    match response.status().as_u16() {
        200..=299 => Ok(()),
        status @ (401 | 403) => Err(HubError::NotAllowed { url, status }),
        404 => {
            let what = match code {
                Some("RepoNotFound") => "repository",
                Some("RevisionNotFound") => "revision",
                Some("EntryNotFound") => "file",
                _ => what,
            };
            Err(HubError::NotThere { url, what })
        }
        status @ (408 | 429 | 500..=599) => Err(HubError::Transport {
            url,
            source: std::io::Error::other(format!("status {status}")),
        }),
        status => Err(HubError::Answer {
            url,
            what: format!("status {status}"),
        }),
    }
}
