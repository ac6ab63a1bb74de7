//! The API's description is true: what the server sends is as it says.

use serde_json::{Value, json};

use super::schema::validate;
use crate::common::{Server, not_hanging};

const ERROR: &str = "#/components/schemas/Error";

/// The schema of a response. Status `default` is for errors.
fn response<'a>(document: &'a Value, path: &str, method: &str, status: &str, kind: &str) -> &'a Value {
    let schema = &document["paths"][path][method]["responses"][status]["content"][kind]["schema"];
    assert!(schema.is_object(), "{method} {path} says nothing of {kind} at {status}");
    schema
}

#[tokio::test]
async fn answers_are_as_the_document_says() {
    let server = Server::start(&[]);
    let document = server.get("/openapi.json").await.json();
    assert_eq!(document["openapi"], "3.1.0");
    let paths: Vec<&String> = document["paths"].as_object().expect("paths").keys().collect();
    for path in [
        "/v1/completions",
        "/v1/models",
        "/health",
        "/health/live",
        "/health/ready",
        "/info",
        "/metrics",
        "/timeline",
        "/",
        "/openapi.json",
    ] {
        assert!(
            paths.iter().any(|known| *known == path),
            "{path} is not described: {paths:?}"
        );
    }
    // What can be asked for without a body.
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("methods") {
            assert!(
                operation["summary"].as_str().is_some_and(|text| !text.is_empty()),
                "{method} {path}"
            );
            assert_eq!(
                operation["responses"]["default"]["content"]["application/json"]["schema"]["$ref"],
                ERROR
            );
            if method != "get" || operation["responses"]["200"]["content"]["application/json"].is_null() {
                continue;
            }
            let reply = server.get(path).await;
            assert_eq!(reply.status, 200, "{path}");
            let schema = response(&document, path, method, "200", "application/json");
            assert_eq!(validate(&document, schema, &reply.json(), path), Ok(()));
        }
    }
    // Completions, whole and streamed, and what their requests may hold.
    let mut body = json!({
        "model": "tiny", "prompt": "12+34=", "max_tokens": 8, "temperature": 0.5, "top_p": 0.9, "top_k": 5, "min_p": 0.0,
        "seed": 7, "stop": ["A"], "n": 2, "logit_bias": { "3": 0.5 }, "presence_penalty": 0.1, "logprobs": 2, "return_token_ids": true,
        "tokenrouter": { "options": { "threshold": 0.1 }, "steps": true },
    });
    let path = "/v1/completions";
    let request = &document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"];
    assert_eq!(validate(&document, request, &body, "request"), Ok(()));
    let reply = server.complete(&body).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    let schema = response(&document, path, "post", "200", "application/json");
    assert_eq!(validate(&document, schema, &reply.json(), "answer"), Ok(()));
    body["stream_options"] = json!({ "include_usage": true, "continuous_usage_stats": true });
    let mut events = server.events(&body).await;
    let schema = response(&document, path, "post", "200", "text/event-stream");
    let mut chunks = 0;
    while let Some(data) = not_hanging("a stream", events.next()).await {
        if data != "[DONE]" {
            let chunk: Value = serde_json::from_str(&data).expect("JSON");
            assert_eq!(validate(&document, schema, &chunk, "chunk"), Ok(()));
            chunks += 1;
        }
    }
    assert!(chunks >= 3, "{chunks}");
    // An error.
    let reply = server.complete(&json!({})).await;
    let schema = response(&document, path, "post", "default", "application/json");
    assert_eq!(
        (reply.status, validate(&document, schema, &reply.json(), "error")),
        (400, Ok(()))
    );
}

/// The fields that the description offers are those that the server knows: each is refused with a value of a wrong type.
#[tokio::test]
async fn fields_of_a_request_that_are_described_are_read() {
    let server = Server::start(&[]);
    let document = server.get("/openapi.json").await.json();
    let fields = document["components"]["schemas"]["CompletionRequest"]["properties"]
        .as_object()
        .expect("fields");
    for name in fields.keys() {
        let mut body = json!({ "prompt": "12+34=", "max_tokens": 1 });
        body[name] = json!([[{}]]);
        let reply = server.complete(&body).await;
        let error = reply.error();
        let param = error["param"].as_str().unwrap_or_default();
        assert!(
            reply.status == 400 && param.starts_with(name.as_str()),
            "{name}: {} {error}",
            reply.status
        );
    }
}
