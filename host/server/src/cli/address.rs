//! The host that a command talks to: where it is, and the key that it may ask for.

use std::path::Path;

use anyhow::{Context as _, anyhow};

/// What commands know of a host that runs elsewhere.
#[derive(Debug)]
pub(super) struct Address {
    /// `HOST:PORT`
    pub(super) host: String,
    /// Sent as a bearer token.
    pub(super) key: Option<String>,
}

impl Address {
    /// Reads `--url`, of which `example` is a right one. The key is the first in the file or, without one, that of the environment
    /// variable.
    ///
    /// # Errors
    /// The URL is none, the file cannot be read, or it has no key.
    pub(super) fn read(url: &str, example: &str, key_file: Option<&Path>, variable: &str) -> anyhow::Result<Self> {
        let host = url.strip_prefix("http://").map(|host| host.trim_end_matches('/'));
        let host = host.filter(|host| !host.is_empty() && !host.contains('/'));
        let host = host.ok_or_else(|| anyhow!("--url is {url:?}; it is http://HOST:PORT, as in {example}"))?;
        let key = match key_file {
            None => std::env::var(variable).ok(),
            Some(path) => Some(first_key(path)?),
        };
        Ok(Self {
            host: host.to_owned(),
            key: key.map(|key| key.trim().to_owned()),
        })
    }
}

fn first_key(path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read the key file {shown}"))?;
    let mut lines = text.lines().map(str::trim);
    let line = lines.find(|line| !line.is_empty() && !line.starts_with('#'));
    let key = line.and_then(|line| line.split_whitespace().last());
    key.map(str::to_owned)
        .with_context(|| format!("{shown} has no key; write it in a line, as KEY or as NAME KEY"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_http_urls_are_taken() {
        let read = |url| Address::read(url, "http://127.0.0.1:30001", None, "TOKENROUTER_NO_KEY");
        assert_eq!(read("http://localhost:1/").unwrap().host, "localhost:1");
        for url in ["localhost:1", "https://localhost:1", "http://", "http://a/b"] {
            let error = read(url).unwrap_err().to_string();
            let expected = format!("--url is {url:?}; it is http://HOST:PORT, as in http://127.0.0.1:30001");
            assert_eq!(error, expected);
        }
    }
}
