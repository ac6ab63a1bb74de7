//! Every path of the API's description, asked in every wrong way.

use serde_json::Value;

use crate::common::{HANG, Reply, Server, deployment_file, file, not_hanging};

const KEY: &str = "sk-table-0123456789";

/// Path and methods of everything that is described, and whether it says that no key is needed.
async fn described(server: &Server) -> Vec<(String, Vec<String>, bool)> {
    let document = send(server, "GET", "/openapi.json", Some(KEY), Vec::new()).await.json();
    let paths = document["paths"].as_object().expect("paths");
    let methods = |item: &Value| {
        item.as_object()
            .expect("methods")
            .keys()
            .map(|name| name.to_uppercase())
            .collect()
    };
    let is_open = |item: &Value| {
        let mut operations = item.as_object().expect("methods").values();
        operations.all(|operation| operation["security"].as_array().is_some_and(Vec::is_empty))
    };
    let paths: Vec<_> = paths
        .iter()
        .map(|(path, item)| (path.clone(), methods(item), is_open(item)))
        .collect();
    let mut open: Vec<&str> = paths.iter().filter(|path| path.2).map(|path| path.0.as_str()).collect();
    open.sort_unstable();
    let expected = ["/", "/app.js", "/health", "/health/live", "/health/ready", "/style.css"];
    assert_eq!(open, expected, "nothing else is for everybody");
    assert!(paths.len() >= 8, "{paths:?}");
    paths
}

async fn send(server: &Server, method: &str, path: &str, key: Option<&str>, body: Vec<u8>) -> Reply {
    let client = reqwest::Client::builder().timeout(HANG).build().expect("a client");
    let mut request = client
        .request(method.parse().expect("a method"), format!("{}{path}", server.url))
        .body(body);
    if let Some(key) = key {
        request = request.bearer_auth(key);
    }
    let response = not_hanging(path, request.send()).await.expect("a response");
    Reply {
        status: response.status().as_u16(),
        headers: response.headers().clone(),
        body: response.text().await.expect("a body"),
    }
}

#[tokio::test]
async fn every_path_asked_in_every_wrong_way() {
    let keys = file("keys.txt", KEY);
    let limits = format!("[limits]\nbody_bytes_max = 1024\n[server]\napi_key_file = {keys:?}");
    let server = Server::with_file(&deployment_file("", &limits));
    let mut asked = 0;
    for (path, methods, is_open) in described(&server).await {
        let posts = methods.iter().any(|method| method == "POST");
        let method = if posts { "POST" } else { "GET" };
        let other = if posts { "GET" } else { "POST" };
        let mut cases = vec![
            (other, Some(KEY), Vec::new(), 405, "method_not_allowed"),
            ("DELETE", Some(KEY), Vec::new(), 405, "method_not_allowed"),
        ];
        if !is_open {
            cases.push((method, None, Vec::new(), 401, "invalid_api_key"));
            cases.push((method, Some("sk-wrong-0123456789"), Vec::new(), 401, "invalid_api_key"));
        }
        if posts {
            cases.push((method, Some(KEY), b"{\"prompt\": ".to_vec(), 400, ""));
            cases.push((method, Some(KEY), b"[1]".to_vec(), 400, ""));
            cases.push((method, Some(KEY), b"{\"prompt\": \"\xff\"}".to_vec(), 400, ""));
            cases.push((method, Some(KEY), vec![b' '; 2_000], 413, "body_too_large"));
        }
        for (method, key, body, status, code) in cases {
            let what = format!("{method} {path} {key:?} {}", String::from_utf8_lossy(&body).trim());
            let reply = send(&server, method, &path, key, body).await;
            assert_eq!(reply.status, status, "{what}: {}", reply.body);
            let error = reply.error();
            assert_eq!(error["code"].as_str().unwrap_or_default(), code, "{what}: {error}");
            assert!(
                error["message"].as_str().is_some_and(|message| !message.is_empty()),
                "{what}"
            );
            assert!(reply.headers.contains_key("x-request-id"), "{what}");
            asked += 1;
        }
        let unknown = send(&server, method, &format!("{path}x"), Some(KEY), Vec::new()).await;
        assert_eq!(
            (unknown.status, unknown.error()["code"].as_str()),
            (404, Some("unknown_url")),
            "{path}x"
        );
    }
    assert!(asked >= 30, "{asked}");
    for path in ["/health/ready", "/", "/app.js", "/style.css"] {
        let reply = send(&server, "GET", path, None, Vec::new()).await;
        assert_eq!(reply.status, 200, "{path}");
        // The page may load nothing from elsewhere, and no other page may frame it.
        let policy = reply.headers.get("content-security-policy");
        assert_eq!(policy.is_some(), !path.starts_with("/health"), "{path}");
        if let Some(policy) = policy {
            let policy = policy.to_str().expect("text");
            assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
            assert!(
                policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"),
                "{policy}"
            );
        }
    }
}
