//! Models that panic or hang: their requests end with an error that says so, everybody else's go on, and readiness tells.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::faulty::FaultyServer;
use crate::common::{Problem, not_hanging, problems};

/// Longer than any test takes: nothing counts as stalled.
const NEVER_US: u64 = 3_600_000_000;

fn greedy(problem: &Problem) -> Value {
    json!({ "model": "tiny", "prompt": problem.prompt, "max_tokens": 64, "temperature": 0 })
}

async fn all(server: &FaultyServer, problems: &[Problem]) -> Vec<(u16, Value)> {
    let one = async |problem| server.complete(&greedy(problem)).await;
    join_all(problems.iter().map(one)).await
}

fn text(answer: &(u16, Value)) -> Option<&str> {
    answer.1["choices"][0]["text"].as_str()
}

fn is_idle(info: &Value) -> bool {
    let models = info["stats"]["models"].as_array().expect("models");
    let kept = ["kv_blocks_used", "seats_taken", "waiting", "running"];
    info["stats"]["requests_running"] == 0
        && models
            .iter()
            .all(|model| kept.iter().all(|counter| model[counter] == 0))
}

/// One panic after another at either model, in the middle of work: requests of the step that panicked fail and say why; all
/// others are answered as if nothing had happened, those that had KV at the model too; and nothing is left behind.
#[tokio::test]
async fn a_panic_fails_one_step_and_the_model_starts_anew() {
    let problems = &problems()[..24];
    let server = FaultyServer::start("r-stitch", NEVER_US).await;
    let whole = all(&server, problems).await;
    let expected: Vec<&str> = whole.iter().map(|answer| text(answer).expect("an answer")).collect();
    let mut failed = 0;
    for (round, steps) in [3, 2, 11, 1].into_iter().enumerate() {
        let (model, name) = if round % 2 == 0 {
            (&server.small, "small")
        } else {
            (&server.large, "large")
        };
        model.panic_after(steps, 1);
        for (answer, expected) in all(&server, problems).await.iter().zip(&expected) {
            if answer.0 == 200 {
                assert_eq!(text(answer), Some(*expected), "round {round}");
                continue;
            }
            let error = &answer.1["error"];
            assert_eq!(
                (answer.0, error["code"].as_str()),
                (500, Some("answer_failed")),
                "{answer:?}"
            );
            let message = error["message"].as_str().expect("a message");
            assert!(message.contains(name) && message.contains("sent again"), "{message}");
            failed += 1;
        }
        server.wait("idle", is_idle).await;
        server.wait("ready", |info| info["ready"] == true).await;
        assert_eq!(server.get("/health/ready").await.0, 200, "round {round}");
    }
    assert!((4..24 * 4).contains(&failed), "{failed} requests failed");
    let (_, info) = server.get("/info").await;
    let restarts = info["stats"]["models"]
        .as_array()
        .expect("models")
        .iter()
        .map(|model| model["restarts"].as_u64());
    assert_eq!(restarts.collect::<Vec<_>>(), [Some(2), Some(2)]);
    let after = all(&server, problems).await;
    assert_eq!(
        after
            .iter()
            .map(|answer| text(answer).expect("an answer"))
            .collect::<Vec<_>>(),
        expected
    );
}

/// mistral.rs#1874, vllm-mlx#101: a stream that fails late has one error event, then `[DONE]`, then its end.
#[tokio::test]
async fn mistralrs_1874_vllm_mlx_101_a_stream_that_fails_ends() {
    let server = FaultyServer::start("none", NEVER_US).await;
    server.small.panic_after(5, 1);
    let mut body = greedy(&problems()[0]);
    body["stream"] = true.into();
    let client = reqwest::Client::new();
    let request = client.post(format!("{}/v1/completions", server.url)).json(&body);
    let response = request.send().await.expect("a response");
    let text = not_hanging("the end of the stream", response.text())
        .await
        .expect("text");
    let events: Vec<&str> = text
        .split("\n\n")
        .filter_map(|event| event.strip_prefix("data: "))
        .collect();
    let errors = events.iter().filter(|event| event.contains("\"error\"")).count();
    assert_eq!((errors, events.last()), (1, Some(&"[DONE]")), "{text}");
    assert!(
        events.len() >= 3 && events[events.len() - 2].contains("\"error\""),
        "{text}"
    );
}

/// A model that panics whatever it is given is not started for ever: the engine stops and says so.
#[tokio::test]
async fn a_model_that_keeps_panicking_stops_the_engine() {
    let server = FaultyServer::start("none", NEVER_US).await;
    server.small.panic_after(0, u32::MAX);
    let mut statuses = Vec::new();
    let stopped = async {
        while server.get("/health/live").await.0 == 200 {
            let (status, body) = server.complete(&greedy(&problems()[0])).await;
            assert!(status >= 500, "{body}");
            statuses.push(status);
        }
    };
    not_hanging("the end of the engine", stopped).await;
    for path in ["/health/live", "/health/ready"] {
        let (status, body) = server.get(path).await;
        let reason = body["reason"].as_str().unwrap_or_default();
        assert!(
            status == 503 && reason.contains("small") && reason.contains("a scripted panic"),
            "{path}: {body}"
        );
    }
    let (status, body) = server.complete(&greedy(&problems()[0])).await;
    assert_eq!(status, 503, "{body}");
}

/// A step that does not come back: whoever is there is told, whoever needs the model is refused, whoever does not is
/// answered, and when it comes back all is as before.
#[tokio::test]
async fn a_stalled_model_is_told_and_comes_back() {
    let server = FaultyServer::start("random", 300_000).await;
    server.large.hang(true);
    let alone = |model: &str| json!({ "model": model, "prompt": "12+34=", "max_tokens": 8, "seed": 1 });
    let (status, body) = server.complete(&alone("tiny/large")).await;
    let message = body["error"]["message"].as_str().unwrap_or_default();
    assert!(
        status == 500 && message.contains("\"large\" does not answer"),
        "{status} {body}"
    );
    let (status, body) = server.get("/health/ready").await;
    assert!(
        status == 503 && body["reason"].as_str().is_some_and(|reason| reason.contains("large")),
        "{body}"
    );
    assert_eq!(server.get("/health/live").await.0, 200);
    let (_, models) = server.get("/v1/models").await;
    let status_of = |id: &str| {
        let models = models["data"].as_array().expect("models");
        models.iter().find(|model| model["id"] == id).expect("the model")["status"].clone()
    };
    assert_eq!(
        (status_of("tiny/large"), status_of("tiny/small"), status_of("tiny")),
        (json!("stalled"), json!("ready"), json!("stalled"))
    );
    for (model, expected) in [("tiny/small", 200), ("tiny/large", 503), ("tiny", 503)] {
        let (status, body) = server.complete(&alone(model)).await;
        assert_eq!(status, expected, "{model}: {body}");
    }
    server.large.hang(false);
    let back = async {
        while server.get("/health/ready").await.0 != 200 || server.complete(&alone("tiny")).await.0 != 200 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    not_hanging("the model's return", back).await;
    server.wait("idle", is_idle).await;
}
