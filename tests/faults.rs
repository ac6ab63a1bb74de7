//! Policies that fail while requests run: the deployment's failure mode decides what becomes of the request, every time,
//! and nothing else is touched.

use crate::common::component::Policy;
use crate::common::{Problem, Server, deployment_file, file, not_hanging, problems};
use futures_util::future::join_all;
use serde_json::{Value, json};

const FOREVER: &str = "(loop $forever (br $forever))";

/// Ways to fail in `route`, and what the error says of each.
const FAULTS: [(&str, &str); 4] = [
    ("(unreachable)", "the policy's `route` trapped: "),
    (FOREVER, "the policy's `route` took more than 100 ms"),
    // All rows of the step but the last.
    (
        "(local.set $rows (i32.sub (local.get $rows) (i32.const 1)))",
        "the policy's `route` returned ",
    ),
    // The hand-written policy names the candidate's id as the model, and the deployment has two.
    ("", "the policy's `route` returned "),
];

fn server(route: &str, on_failure: &str) -> Server {
    let plugin = file("policy.wasm", Policy::new().with("route", route).bytes());
    let policy = format!("plugin = {plugin:?}\non_failure = {on_failure}");
    Server::with_file(&deployment_file(&policy, ""))
}

fn greedy(model: &str, problem: &Problem) -> Value {
    json!({ "model": model, "prompt": problem.prompt, "max_tokens": 64, "temperature": 0 })
}

async fn faults_counted(server: &Server) -> u64 {
    let info = server.info().await;
    let models = info["stats"]["models"].as_array().expect("models");
    models.iter().filter_map(|model| model["policy_faults"].as_u64()).sum()
}

async fn assert_models_alone_answer(server: &Server, problem: &Problem) {
    for (model, expected) in [
        ("tiny/small", &problem.greedy_small),
        ("tiny/large", &problem.greedy_large),
    ] {
        let answer = not_hanging("a model alone", server.answer(&greedy(model, problem))).await;
        assert_eq!(&answer.text, expected, "{model}");
    }
}

#[tokio::test]
async fn fail_ends_the_request_with_one_error_whole_or_streamed() {
    let problem = &problems()[0];
    for (route, says) in FAULTS {
        let server = server(route, "\"fail\"");
        let reply = not_hanging(route, server.complete(&greedy("tiny", problem))).await;
        assert_eq!(reply.status, 500, "{route}: {}", reply.body);
        let error = reply.error();
        assert_eq!(
            (error["type"].as_str(), error["code"].as_str()),
            (Some("server_error"), Some("answer_failed"))
        );
        let message = error["message"].as_str().expect("a message");
        assert!(
            message.starts_with("the routing policy failed: ") && message.contains(says),
            "{route}: {message}"
        );

        let mut events = server.events(&greedy("tiny", problem)).await;
        let mut seen = Vec::new();
        while let Some(event) = not_hanging(route, events.next()).await {
            seen.push(event);
        }
        assert_eq!(seen.len(), 2, "{route}: one error, then the end: {seen:?}");
        let error: Value = serde_json::from_str(&seen[0]).expect("JSON");
        assert_eq!(error["error"]["code"], "answer_failed", "{route}: {error}");
        assert!(
            error["error"]["message"]
                .as_str()
                .is_some_and(|message| message.contains(says)),
            "{route}: {error}"
        );
        assert_eq!(seen[1], "[DONE]");

        assert_eq!(faults_counted(&server).await, 2, "{route}");
        assert_models_alone_answer(&server, problem).await;
    }
}

#[tokio::test]
async fn stay_lets_the_small_model_answer() {
    let problem = &problems()[0];
    for (route, _) in FAULTS {
        let server = server(route, "\"stay\"");
        for stream in [false, true] {
            let mut body = greedy("tiny", problem);
            body["stream"] = stream.into();
            let answer = not_hanging(route, server.answer(&body)).await;
            assert_eq!(
                (answer.text, &*answer.finish),
                (problem.greedy_small.clone(), "stop"),
                "{route}"
            );
        }
        assert!(faults_counted(&server).await > 0, "{route}");
        assert_models_alone_answer(&server, problem).await;
    }
}

#[tokio::test]
async fn fallback_lets_the_large_model_answer() {
    let problems = &problems()[..4];
    for (route, _) in FAULTS {
        let server = server(route, "{ fallback = \"large\" }");
        let server = &server;
        let ask = |problem| async move { (problem, server.answer(&greedy("tiny", problem)).await) };
        let requests = problems.iter().map(ask);
        for (problem, answer) in not_hanging(route, join_all(requests)).await {
            assert_eq!(answer.text, problem.greedy_large, "{route}");
            assert_eq!(
                (answer.tokens_of("small"), answer.handoffs()),
                (0, 1),
                "{route}: it leaves at the first step"
            );
        }
        assert_models_alone_answer(server, &problems[0]).await;
    }
}

/// Requests that no policy routes share steps with requests whose policy fails at every one.
#[tokio::test]
async fn requests_without_the_policy_never_notice() {
    let problems = &problems()[..24];
    let server = server(FAULTS[0].0, "\"fail\"");
    let requests = problems.iter().enumerate().map(|(index, problem)| {
        let (server, model) = (&server, ["tiny", "tiny/small", "tiny/large"][index % 3]);
        async move { (model, problem, server.complete(&greedy(model, problem)).await) }
    });
    for (model, problem, reply) in not_hanging("a mix", join_all(requests)).await {
        let expected = match model {
            "tiny/small" => &problem.greedy_small,
            "tiny/large" => &problem.greedy_large,
            _ => {
                assert_eq!(reply.status, 500, "{}", reply.body);
                continue;
            }
        };
        assert_eq!(reply.json()["choices"][0]["text"], **expected, "{model}");
    }
}

#[tokio::test]
async fn a_fault_at_admission_follows_the_failure_mode() {
    let problem = &problems()[0];
    // `route` without code would fail, too; this one stays at the small model.
    let stay = "(memory.fill (local.get $candidates) (i32.const 0) (i32.mul (local.get $rows) (i32.const 4)))";
    for (on_failure, expected) in [("\"fail\"", None), ("\"stay\"", Some(&problem.greedy_small))] {
        let plugin = Policy::new().with("admit", "(unreachable)").with("route", stay);
        let plugin = file("policy.wasm", plugin.bytes());
        let policy = format!("plugin = {plugin:?}\non_failure = {on_failure}");
        let server = Server::with_file(&deployment_file(&policy, ""));
        let reply = not_hanging("a fault at admission", server.complete(&greedy("tiny", problem))).await;
        match expected {
            None => {
                assert_eq!(
                    (reply.status, reply.error()["code"].as_str()),
                    (500, Some("policy_fault")),
                    "{}",
                    reply.body
                );
                assert!(reply.body.contains("`admit` trapped"), "{}", reply.body);
            }
            Some(text) => assert_eq!(reply.json()["choices"][0]["text"], **text),
        }
        assert_models_alone_answer(&server, problem).await;
    }
}
