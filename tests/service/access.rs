//! Keys and origins.

use serde_json::json;

use crate::common::{HANG, Server, deployment_file, file};

const KEY: &str = "sk-client-0123456789";

fn client() -> reqwest::Client {
    reqwest::Client::builder().timeout(HANG).build().expect("a client")
}

#[tokio::test]
async fn one_of_several_keys_opens_and_health_needs_none() {
    let keys = file("keys.txt", format!("# two\nalice {KEY}\nsk-another-0123456789\n"));
    let server = Server::start(&["--api-key-file", keys.to_str().expect("UTF-8")]);
    let body = json!({ "prompt": "12+34=", "max_tokens": 4 });
    for (key, status) in [
        (Some(KEY), 200),
        (Some("sk-another-0123456789"), 200),
        (Some("sk-client-012345678"), 401),
        (Some("alice"), 401),
        (None, 401),
    ] {
        let mut request = client().post(format!("{}/v1/completions", server.url)).json(&body);
        if let Some(key) = key {
            request = request.bearer_auth(key);
        }
        let response = request.send().await.expect("a response");
        assert_eq!(response.status().as_u16(), status, "{key:?}");
        let challenge = response
            .headers()
            .get("www-authenticate")
            .map(|value| value.to_str().expect("text").to_owned());
        assert_eq!(
            challenge.as_deref(),
            (status == 401).then_some("Bearer realm=\"tokenrouter\"")
        );
    }
    for path in ["/health", "/health/live", "/health/ready"] {
        assert_eq!(server.get(path).await.status, 200, "{path}");
    }
    // Without a key nobody learns which paths there are.
    for path in ["/metrics", "/info", "/openapi.json", "/nothing"] {
        let reply = server.get(path).await;
        assert_eq!(
            (reply.status, reply.error()["code"].as_str()),
            (401, Some("invalid_api_key")),
            "{path}"
        );
    }
}

#[tokio::test]
async fn other_origins_are_told_nothing_by_default_and_those_of_the_deployment_all() {
    let closed = Server::start(&[]);
    let open = Server::with_file(&deployment_file(
        "",
        "[server]\ncors_origins = [\"https://example.org\"]",
    ));
    let allowed = |response: &reqwest::Response| {
        let header = response.headers().get("access-control-allow-origin");
        header.map(|value| value.to_str().expect("text").to_owned())
    };
    for (server, origin, expected) in [
        (&closed, "https://example.org", None),
        (&open, "https://example.org", Some("https://example.org")),
        (&open, "https://example.com", None),
    ] {
        let request = client()
            .get(format!("{}/v1/models", server.url))
            .header("origin", origin);
        let response = request.send().await.expect("a response");
        assert_eq!(allowed(&response).as_deref(), expected, "{origin}");
        let preflight = client()
            .request(reqwest::Method::OPTIONS, format!("{}/v1/completions", server.url))
            .header("origin", origin)
            .header("access-control-request-method", "POST");
        let response = preflight.send().await.expect("a response");
        assert_eq!(allowed(&response).as_deref(), expected, "{origin}, asked before");
    }
}

#[tokio::test]
async fn a_request_keeps_the_id_that_its_client_gave_it() {
    let server = Server::start(&[]);
    let request = client()
        .get(format!("{}/health", server.url))
        .header("x-request-id", "trace-7");
    let response = request.send().await.expect("a response");
    assert_eq!(response.headers()["x-request-id"], "trace-7");
    let ids =
        [server.get("/health").await, server.get("/nothing").await].map(|reply| reply.headers["x-request-id"].clone());
    assert_ne!(ids[0], ids[1], "every request has one of its own");
}
