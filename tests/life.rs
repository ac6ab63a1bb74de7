//! From the first byte of a request to the last of the process: clients that leave, bounds that are reached, and the end.

use std::io::Write as _;
use std::path::PathBuf;

use crate::common::component::Policy;
use crate::common::{Problem, Server, deployment_file, file, not_hanging, problems, wait_for_info};
use futures_util::future::join_all;
use serde_json::{Value, json};

/// Every call of `route` counts to 40 million and the request stays at the first model: some ten tokens a second, however
/// fast the machine is. (A policy that runs into its deadline would soon be left alone, and no longer be slow.)
fn slow(limits: &str) -> PathBuf {
    let counts = "(global.set $turns (i32.const 40000000))
        (loop $turn
          (global.set $turns (i32.sub (global.get $turns) (i32.const 1)))
          (br_if $turn (global.get $turns)))
        (memory.fill (local.get $candidates) (i32.const 0) (i32.mul (local.get $rows) (i32.const 4)))";
    let policy = Policy::new()
        .with("declarations", "(global $turns (mut i32) (i32.const 0))")
        .with("route", counts);
    let plugin = file("slow.wasm", policy.bytes());
    let limits = format!("[policy.limits]\ncall_ms_max = 60000\n{limits}");
    deployment_file(&format!("plugin = {plugin:?}"), &limits)
}

/// The small model goes on to the last token it may write: the digit 3 without end.
fn long() -> Value {
    json!({ "model": "tiny", "prompt": "1", "max_tokens": LONG_TOKENS, "temperature": 0, "ignore_eos": true })
}

const LONG_TOKENS: u64 = 480;

fn greedy(problem: &Problem) -> Value {
    json!({ "model": "tiny", "prompt": problem.prompt, "max_tokens": 64, "temperature": 0 })
}

fn sum(info: &Value, counter: &str) -> u64 {
    let models = info["stats"]["models"].as_array().expect("models");
    models
        .iter()
        .map(|model| model[counter].as_u64().unwrap_or_else(|| panic!("no {counter}")))
        .sum()
}

/// Nothing runs, nothing waits, and no model keeps anything.
fn is_idle(info: &Value) -> bool {
    let kept = ["kv_blocks_used", "seats_taken", "waiting", "running"].map(|counter| sum(info, counter));
    info["stats"]["requests_running"] == 0 && info["stats"]["requests_waiting"] == 0 && kept == [0; 4]
}

fn runs(count: u64) -> impl Fn(&Value) -> bool {
    move |info| info["stats"]["requests_running"] == count
}

/// Sends a whole request and closes the connection without reading anything.
fn send_and_leave(server: &Server, body: &Value) {
    let address = server.url.strip_prefix("http://").expect("a URL");
    let mut connection = std::net::TcpStream::connect(address).expect("the server listens");
    let body = body.to_string();
    let head = "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length:";
    write!(connection, "{head} {}\r\n\r\n{body}", body.len()).expect("the server reads");
}

#[tokio::test]
async fn a_client_that_leaves_frees_its_place() {
    let server = Server::with_file(&slow(""));
    let mut in_time = 0;
    // In the middle of a stream.
    let mut events = server.events(&long()).await;
    for _ in 0..3 {
        assert!(not_hanging("a stream", events.next()).await.is_some());
    }
    drop(events);
    wait_for_info(&server, "idle after a stream was left", is_idle).await;
    in_time += 1;
    // Between the headers and the first event.
    drop(server.events(&long()).await);
    wait_for_info(&server, "idle after a stream was left at once", is_idle).await;
    in_time += 1;
    // While a whole answer is being written.
    let body = long();
    tokio::select! {
        reply = server.complete(&body) => panic!("answered within no time: {}", reply.body),
        () = wait_for_info(&server, "running", runs(1)) => {}
    }
    wait_for_info(&server, "idle after a whole answer was left", is_idle).await;
    in_time += 1;
    // Before anything is read.
    for stream in [false, true] {
        let mut body = long();
        body["stream"] = stream.into();
        send_and_leave(&server, &body);
        wait_for_info(&server, "idle after a client that only sent", is_idle).await;
        in_time += 1;
    }
    // Had they been answered to the end, these would be all their tokens.
    let written = sum(&server.info().await, "tokens_written");
    assert!(
        written < in_time * LONG_TOKENS / 2,
        "{written} tokens were written for nobody"
    );
}

/// Requests that are pending at one model while another writes must be freed at both.
#[tokio::test]
async fn clients_that_leave_amid_handoffs_free_every_model() {
    let server = Server::start(&["--plugin", "random", "--plugin-config", "share=0.5"]);
    for round in 0..4 {
        let mut body = long();
        body["seed"] = round.into();
        let mut streams = join_all((0..12).map(|_| server.events(&body))).await;
        for events in &mut streams {
            for _ in 0..=round {
                assert!(not_hanging("a stream", events.next()).await.is_some());
            }
        }
        drop(streams);
        wait_for_info(&server, "idle after 12 streams were left", is_idle).await;
    }
    let info = server.info().await;
    assert!(sum(&info, "handoffs_out") > 0, "there were no handoffs: {info}");
    let answer = not_hanging("a good request", server.answer(&long())).await;
    assert_eq!(answer.completion_tokens(), LONG_TOKENS);
}

#[tokio::test]
async fn a_client_that_leaves_the_queue_is_taken_out_of_it() {
    let server = Server::with_file(&slow("[limits]\nrequests_running_max = 1"));
    let running = server.events(&long()).await;
    wait_for_info(&server, "running", runs(1)).await;
    let waiting = server.events(&long()).await;
    wait_for_info(&server, "waiting", |info| info["stats"]["requests_waiting"] == 1).await;
    drop(waiting);
    wait_for_info(&server, "rid of the one that waited", |info| {
        info["stats"]["requests_waiting"] == 0
    })
    .await;
    assert_eq!(
        server.info().await["stats"]["requests_running"],
        1,
        "the one that runs goes on"
    );
    drop(running);
    wait_for_info(&server, "idle", is_idle).await;
}

#[tokio::test]
async fn one_request_too_many_is_told_to_come_back() {
    let server = Server::with_file(&slow("[limits]\nrequests_running_max = 1\nrequests_waiting_max = 2"));
    let problems = &problems()[..3];
    let taken = join_all(problems.iter().map(|problem| {
        let (server, body) = (&server, greedy(problem));
        async move { server.answer(&body).await }
    }));
    let refused = async {
        let full = |info: &Value| info["stats"]["requests_running"] == 1 && info["stats"]["requests_waiting"] == 2;
        wait_for_info(&server, "full", full).await;
        let whole = server.complete(&greedy(&problems[0])).await;
        let mut body = greedy(&problems[0]);
        body["stream"] = true.into();
        [whole, server.complete(&body).await]
    };
    let (taken, refused) = not_hanging("a full server", async { tokio::join!(taken, refused) }).await;
    for reply in refused {
        assert_eq!(reply.status, 429, "{}", reply.body);
        assert_eq!(reply.headers["retry-after"], "1");
        let error = reply.error();
        assert_eq!(
            (error["type"].as_str(), error["code"].as_str()),
            (Some("rate_limit_error"), Some("rate_limit_exceeded"))
        );
        assert_eq!(error["message"], "2 requests are waiting already; try again later");
    }
    for (problem, answer) in problems.iter().zip(taken) {
        assert_eq!(answer.text, problem.greedy_small, "who was taken is answered");
    }
    wait_for_info(&server, "idle", is_idle).await;
}

/// However many are refused while a model is busy with one long step, it takes no harm: nothing of them may pile up in its inbox.
#[tokio::test]
async fn a_storm_of_refused_requests_changes_nothing() {
    let server = Server::with_file(&slow("[limits]\nrequests_running_max = 1\nrequests_waiting_max = 0"));
    let problem = &problems()[0];
    let body = greedy(problem);
    let taken = server.answer(&body);
    let storm = async {
        wait_for_info(&server, "full", |info| info["stats"]["requests_running"] == 1).await;
        for _ in 0..10 {
            let replies = join_all((0..32).map(|_| server.complete(&body))).await;
            assert!(
                replies.iter().all(|reply| reply.status == 429),
                "all are refused while one runs"
            );
        }
    };
    let (answer, ()) = not_hanging("a storm", async { tokio::join!(taken, storm) }).await;
    assert_eq!(answer.text, problem.greedy_small);
    wait_for_info(&server, "idle", is_idle).await;
}

/// The answers to all problems, asked at once.
async fn texts(server: &Server, problems: &[Problem]) -> Vec<String> {
    let answer = async |problem| server.answer(&greedy(problem)).await.text;
    join_all(problems.iter().map(answer)).await
}

/// 64 requests of 80 tokens (five blocks each) want 5,120; the pools hold a quarter of that.
#[tokio::test]
async fn with_a_quarter_of_the_kv_all_requests_are_answered_right() {
    let problems = &problems()[..64];
    let policy = "plugin = \"r-stitch\"\noptions = { threshold = 0.2, unit = \"nats\" }";
    let ample = Server::start(&[]);
    let expected = texts(&ample, problems).await;
    let small = deployment_file(policy, "[limits]\nkv_tokens = 1280");
    for rule in ["eager", "threshold:1,4", "step-sync"] {
        let server = Server::start(&["--config", small.to_str().expect("UTF-8"), "--launch", rule]);
        assert_eq!(not_hanging(rule, texts(&server, problems)).await, expected, "{rule}");
        wait_for_info(&server, "idle", is_idle).await;
    }
    // All at once in the same memory: requests take KV from each other, and still nobody loses a token.
    let promised = deployment_file(policy, "[limits]\nkv_tokens = 320\nkv_promised_percent = 1600");
    for rule in ["lookahead", "model-sync"] {
        let server = Server::start(&["--config", promised.to_str().expect("UTF-8"), "--launch", rule]);
        assert_eq!(not_hanging(rule, texts(&server, problems)).await, expected, "{rule}");
        wait_for_info(&server, "idle", is_idle).await;
        let evictions = server.info().await["stats"]["models"][0]["kv_evictions"].as_u64();
        assert!(
            evictions.is_some_and(|evictions| evictions > 0),
            "{rule}: {evictions:?} evictions"
        );
    }
    // One that could never be held is refused instead of waiting for ever.
    let tiny = Server::with_file(&deployment_file(policy, "[limits]\nkv_tokens = 64"));
    let reply = not_hanging("a request without hope", tiny.complete(&greedy(&problems[0]))).await;
    let error = reply.error();
    assert_eq!(
        (reply.status, error["code"].as_str()),
        (400, Some("context_length_exceeded"))
    );
    assert!(
        error["message"]
            .as_str()
            .is_some_and(|message| message.contains("80") && message.contains("64")),
        "{error}"
    );
}

#[tokio::test]
async fn after_a_signal_running_requests_finish_and_the_exit_code_is_0() {
    let problem = &problems()[0];
    for signal in ["INT", "TERM"] {
        let config = slow("");
        let mut server = Server::start(&["--config", config.to_str().expect("UTF-8"), "--drain", "200"]);
        assert!(server.says_ready().await);
        let mut events = server.events(&greedy(problem)).await;
        let first: Value =
            serde_json::from_str(&not_hanging("a stream", events.next()).await.expect("an event")).expect("JSON");
        let body = greedy(problem);
        let whole = server.complete(&body);
        let signalled = async {
            wait_for_info(&server, "running", runs(2)).await;
            server.signal(signal);
            // Whoever asks now must not send new requests here.
            while server.says_ready().await {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        let (whole, ()) = not_hanging("the end", async { tokio::join!(whole, signalled) }).await;
        assert_eq!(whole.json()["choices"][0]["text"], *problem.greedy_small, "SIG{signal}");
        let rest = not_hanging("the rest of the stream", crate::common::Answer::of_stream(events)).await;
        let text = first["choices"][0]["text"].as_str().expect("text").to_owned() + &rest.text;
        assert_eq!(
            (text, &*rest.finish),
            (problem.greedy_small.clone(), "stop"),
            "SIG{signal}"
        );
        assert_eq!(server.ended().await.code(), Some(0), "SIG{signal}");
    }
}

/// Neither a client nor an answer without end can keep the process from ending.
#[tokio::test]
async fn the_end_is_bounded_and_a_second_signal_is_obeyed_at_once() {
    for (drain_s, signals) in [("1", 1), ("200", 2)] {
        let config = slow("");
        let mut server = Server::start(&["--config", config.to_str().expect("UTF-8"), "--drain", drain_s]);
        let mut events = server.events(&long()).await;
        assert!(not_hanging("a stream", events.next()).await.is_some());
        for _ in 0..signals {
            server.signal("TERM");
            while server.says_ready().await {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        }
        assert_eq!(server.ended().await.code(), Some(0), "drain {drain_s}");
        let mut read = 1;
        while let Ok(Some(event)) = not_hanging("what is left of the stream", events.try_next()).await {
            assert_ne!(event, "[DONE]", "the answer is cut off, and a client must see that");
            read += 1;
        }
        assert!(read < LONG_TOKENS, "the answer was waited for");
    }
}
