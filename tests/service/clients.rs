//! Clients that vanish, that do not read, and that do not write.

use futures_util::StreamExt as _;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::metrics::Metrics;
use super::raw::{address, connect, post, read_to_end, trickle};
use crate::common::{Server, file, not_hanging, wait_for_info};

/// Two clocks instead of models, so that answers are long and nothing has to be computed.
fn simulated(step_ms: f64, rest: &str) -> Server {
    let model = |name: &str| format!("[[models]]\nname = \"{name}\"\nsource = \"simulated:{step_ms}\"\n");
    let models = model("small") + &model("large");
    let policy = "[policy]\nplugin = \"random\"\noptions = { share = 0.2 }\n";
    Server::with_file(&file(
        "deployment.toml",
        format!("name = \"tiny\"\n{models}{policy}{rest}\n"),
    ))
}

fn kept(info: &Value, counter: &str) -> u64 {
    let models = info["stats"]["models"].as_array().expect("models");
    models
        .iter()
        .map(|model| model[counter].as_u64().expect("a count"))
        .sum()
}

pub fn is_idle(info: &Value) -> bool {
    let stats = &info["stats"];
    let at_models = ["kv_blocks_used", "seats_taken", "waiting", "running"].map(|counter| kept(info, counter));
    stats["requests_running"] == 0 && stats["requests_waiting"] == 0 && at_models == [0; 4]
}

/// A thousand clients connect, read a little, or nothing, and vanish. What they had is free again: as many connections as may be
/// would be stuck after a tenth of them, places and KV sooner.
#[tokio::test]
async fn pegainfer_215_sglang_35255_a_thousand_clients_that_vanish() {
    let limits = "[limits]\nrequests_running_max = 16\nrequests_waiting_max = 1000\n[server]\nconnections_max = 100";
    let server = simulated(1.0, limits);
    let one = async |number: usize| {
        let body = json!({ "prompt": "12+34=", "max_tokens": 400, "stream": number.is_multiple_of(2), "seed": number })
            .to_string();
        let mut connection = connect(address(&server)).await;
        connection
            .write_all(post("/v1/completions", &body).as_bytes())
            .await
            .expect("written");
        let mut read = vec![0; 40 * (number % 7) + 1];
        if number.is_multiple_of(4) {
            drop(not_hanging("the first bytes", connection.read(&mut read)).await);
        }
    };
    stream::iter(0..1_000)
        .map(one)
        .buffer_unordered(64)
        .collect::<Vec<()>>()
        .await;
    wait_for_info(&server, "idle after all have vanished", is_idle).await;
    let metrics = Metrics::of(&server).await;
    let ended = metrics.sum("tokenrouter_request_failure_total", &[("finished_reason", "cancelled")]);
    assert!(ended > 100.0, "{ended} requests were cancelled");
    let tokens = metrics.sum("tokenrouter_generation_tokens_total", &[]);
    assert!(
        tokens < 1_000.0 * 400.0 / 2.0,
        "{tokens} tokens were written for nobody"
    );
    let answer = server.answer(&json!({ "prompt": "12+34=", "max_tokens": 5 })).await;
    assert_eq!(answer.completion_tokens(), 5);
}

/// A client that reads nothing: what waits for it is bounded, and then its connection ends, and its request.
#[tokio::test]
async fn a_client_that_reads_nothing_is_cut_off() {
    let limits =
        "[limits]\nkv_tokens = 65536\nprompts_max = 400\nrequests_waiting_max = 400\n[server]\nwrite_s_max = 1";
    let server = simulated(1.0, limits);
    // More than the system's own buffers hold, although what is not read in time is joined.
    let prompts = vec!["12+34="; 400];
    let body = json!({ "prompt": prompts, "max_tokens": 480, "stream": true, "tokenrouter": { "attribution": true } });
    let mut connection = connect(address(&server)).await;
    connection
        .write_all(post("/v1/completions", &body.to_string()).as_bytes())
        .await
        .expect("written");
    wait_for_info(&server, "at work", |info| info["stats"]["requests_running"] == 64).await;
    wait_for_info(&server, "idle after it was cut off", is_idle).await;
    let said = read_to_end(&mut connection).await;
    assert!(said.starts_with("HTTP/1.1 200"), "{said:.100}");
    assert!(
        !said.contains("[DONE]"),
        "the answer was cut off, and a client must see that"
    );
    // The next one is served.
    let answer = server.answer(&json!({ "prompt": "12+34=", "max_tokens": 5 })).await;
    assert_eq!(answer.completion_tokens(), 5);
}

/// Headers and bodies that come byte by byte. As many such clients as there may be connections, and one more gets in.
#[tokio::test]
async fn slowloris_on_headers_and_on_bodies() {
    let limits = "[server]\nheader_s_max = 1\nbody_s_max = 1\nconnections_max = 3";
    let server = simulated(0.0, limits);
    let headers = format!("GET /health HTTP/1.1\r\nhost: x\r\nx-slow: {}", "a".repeat(4_000));
    let body = format!(
        "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 5000\r\n\r\n{}",
        " ".repeat(4_000)
    );
    let connections = [
        connect(address(&server)).await,
        connect(address(&server)).await,
        connect(address(&server)).await,
    ];
    let [first, second, third] = connections;
    let silent = async {
        let mut silent = first;
        read_to_end(&mut silent).await
    };
    let body_at_once = body.find("\r\n\r\n").expect("headers") + 4;
    let slow_body = async {
        let mut third = third;
        third
            .write_all(&body.as_bytes()[..body_at_once])
            .await
            .expect("written");
        trickle(third, &body.as_bytes()[body_at_once..]).await
    };
    let next = async { not_hanging("the next client", server.get("/health")).await.status };
    let (silent, slow_headers, slow_body, next) =
        tokio::join!(silent, trickle(second, headers.as_bytes()), slow_body, next);
    assert!(silent.is_empty() || silent.starts_with("HTTP/1.1 408"), "{silent}");
    assert!(
        slow_headers.is_empty() || slow_headers.starts_with("HTTP/1.1 408"),
        "{slow_headers}"
    );
    assert!(
        slow_body.starts_with("HTTP/1.1 408") && slow_body.contains("body_timeout"),
        "{slow_body}"
    );
    assert_eq!(next, 200);
}

#[tokio::test]
async fn headers_that_are_too_large_or_too_many_are_refused() {
    let server = simulated(0.0, "[server]\nheader_bytes_max = 8192");
    for headers in [
        format!("x-large: {}\r\n", "a".repeat(9_000)),
        "x-many: 1\r\n".repeat(200),
    ] {
        let mut connection = connect(address(&server)).await;
        let request = format!("GET /health HTTP/1.1\r\nhost: x\r\n{headers}\r\n");
        connection.write_all(request.as_bytes()).await.expect("written");
        let said = read_to_end(&mut connection).await;
        assert!(said.starts_with("HTTP/1.1 431"), "{said}");
    }
    assert!(server.says_ready().await);
}

/// Silence of a model is told apart from silence of a connection.
#[tokio::test]
async fn a_stream_without_tokens_is_kept_alive() {
    let server = simulated(2_500.0, "[server]\nevent_silence_s_max = 1");
    let body = json!({ "prompt": "12+34=", "max_tokens": 1, "stream": true }).to_string();
    let mut connection = connect(address(&server)).await;
    let request = post("/v1/completions", &body).replace("host: x\r\n", "host: x\r\nconnection: close\r\n");
    connection.write_all(request.as_bytes()).await.expect("written");
    let said = read_to_end(&mut connection).await;
    assert!(said.contains("\n:\n\n") && said.contains("data: [DONE]"), "{said}");
}

/// Whoever is refused for load is told at once, streaming or not.
#[tokio::test]
async fn vllm_18826_the_queue_is_bounded_and_says_when_to_come_back() {
    let server = simulated(50.0, "[limits]\nrequests_running_max = 1\nrequests_waiting_max = 1");
    let body = json!({ "prompt": "12+34=", "max_tokens": 400 });
    let running = server.events(&body).await;
    let waiting = server.events(&body).await;
    wait_for_info(&server, "full", |info| info["stats"]["requests_waiting"] == 1).await;
    for stream in [false, true] {
        let mut body = body.clone();
        body["stream"] = stream.into();
        let reply = server.complete(&body).await;
        assert_eq!(reply.status, 429, "{}", reply.body);
        assert_eq!(reply.headers["retry-after"], "1");
    }
    drop((running, waiting));
    wait_for_info(&server, "idle", is_idle).await;
}
