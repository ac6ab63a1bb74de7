//! From loading to the end, as a load balancer sees it.

use serde_json::{Value, json};
use tokenrouter_host::deployment::DeploymentFile;
use tokenrouter_host::http::{Access, Server as Listener};

use super::faulty::{get, start};
use crate::common::{Server, deployment_file, file, not_hanging, wait_for_info};

/// While models are loaded the process lives and says that it is not ready. Then it is.
#[tokio::test]
async fn gpustack_6203_ready_is_no_before_models_are_loaded() {
    let mut deployment = DeploymentFile::built_in().expect("the built-in deployment");
    deployment.server.listen = "127.0.0.1:0".to_owned();
    let listener = Listener::bind(deployment.server.clone(), Access::default())
        .await
        .expect("an address");
    let (gate, url) = (listener.gate(), format!("http://{}", listener.local_addr()));
    let serving = tokio::spawn(listener.run(std::future::pending(), std::future::pending()));
    assert_eq!(get(&url, "/health/live").await.0, 200);
    for path in ["/health", "/health/ready"] {
        let (status, body) = get(&url, path).await;
        assert_eq!(
            (status, body["reason"].as_str()),
            (503, Some("the models are being loaded")),
            "{path}"
        );
    }
    let (status, body) = get(&url, "/v1/models").await;
    assert_eq!((status, body["error"]["code"].as_str()), (503, Some("loading")));
    let loaded = deployment.load().expect("models");
    gate.open(start(&deployment, loaded), &Access::default());
    assert_eq!(get(&url, "/health/ready").await, (200, json!({ "status": "ready" })));
    serving.abort();
}

/// After the first signal readiness says no over new connections, new requests are refused, and the one that runs is finished.
#[tokio::test]
async fn vllm_24885_after_sigterm_running_requests_finish_while_readiness_says_no() {
    let model = "[[models]]\nname = \"small\"\nsource = \"simulated:40\"\n";
    let config = file("deployment.toml", format!("name = \"tiny\"\n{model}"));
    let mut server = Server::start(&["--config", config.to_str().expect("UTF-8"), "--drain", "200"]);
    let body = json!({ "prompt": "12+34=", "max_tokens": 60, "stream": true });
    let mut events = server.events(&body).await;
    assert!(not_hanging("a stream", events.next()).await.is_some());
    server.signal("TERM");
    let reply = loop {
        let reply = server.get("/health/ready").await;
        if reply.status == 503 {
            break reply.json();
        }
    };
    assert_eq!(reply["status"], "not ready");
    assert!(
        reply["reason"].as_str().is_some_and(|reason| reason.contains("ending")),
        "{reply}"
    );
    assert_eq!(
        server.get("/health/live").await.status,
        200,
        "whoever is alive is not to be killed"
    );
    let refused = server.complete(&body).await;
    assert_eq!(
        (refused.status, refused.error()["code"].as_str()),
        (503, Some("shutting_down"))
    );
    assert_eq!(refused.headers["retry-after"], "1");
    let models = server.get("/v1/models").await.json();
    assert!(
        models["data"]
            .as_array()
            .expect("models")
            .iter()
            .all(|model| model["status"] == "draining"),
        "{models}"
    );
    let answer = not_hanging("the rest", crate::common::Answer::of_stream(events)).await;
    assert_eq!(answer.finish, "length", "the answer is whole");
    assert_eq!(server.ended().await.code(), Some(0));
}

/// One line a request, with everything that one looks for after the fact.
#[tokio::test]
async fn a_request_leaves_one_line_in_the_log() {
    let server = Server::start(&["--log-format", "json"]);
    let answer = server
        .answer(&json!({ "prompt": "12+34=", "max_tokens": 7, "seed": 3 }))
        .await;
    wait_for_info(&server, "idle", |info| info["stats"]["requests_running"] == 0).await;
    let log = server.log();
    let lines = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}")));
    let lines: Vec<Value> = lines.filter(|line| line["message"] == "answered").collect();
    let [line] = &lines[..] else {
        panic!("one line: {lines:?}")
    };
    assert_eq!(line["completion_tokens"], answer.completion_tokens());
    assert_eq!(line["handoffs"], answer.handoffs());
    for field in [
        "request",
        "model",
        "by_model",
        "finish",
        "prompt_tokens",
        "queue_ms",
        "first_token_ms",
        "token_ms",
        "duration_ms",
    ] {
        assert!(!line[field].is_null(), "{field} is missing: {line}");
    }
}

#[tokio::test]
async fn bounds_of_the_listener_are_shown_as_they_are_in_force() {
    let server = Server::with_file(&deployment_file(
        "",
        "[limits]\nstall_s_max = 7\n[server]\nwrite_s_max = 9",
    ));
    let limits = server.info().await["limits"].take();
    assert_eq!(
        (limits["stall_s_max"].as_u64(), limits["write_s_max"].as_u64()),
        (Some(7), Some(9))
    );
}
