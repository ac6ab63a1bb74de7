//! Schedule independence: an answer depends on its request alone. Not on the launch rule, on what else runs, in which
//! order it came, or on how tight the bounds of a step are.

use crate::common::{Answer, Problem, Server, deployment_file, not_hanging, problems};
use futures_util::future::join_all;
use serde_json::{Value, json};

/// Launch rules, and whether models write ahead.
const RULES: [[&str; 2]; 7] = [
    ["eager", "off"],
    ["threshold:1,3", "off"],
    ["lookahead", "off"],
    ["step-sync", "off"],
    ["model-sync", "off"],
    ["eager", "window:8"],
    ["lookahead", "auto"],
];
const REQUESTS: usize = 32;

/// Requests of all kinds: routed and not, greedy and sampled, short and long, with stop strings, penalties, biases, bans and
/// options of their own.
/// Deterministic: each is a function of its place.
fn mix(policy: &str, problems: &[Problem]) -> Vec<Value> {
    let models = [
        "tiny".to_owned(),
        format!("tiny@{policy}"),
        "tiny/large".to_owned(),
        "tiny".to_owned(),
        "tiny/small".to_owned(),
    ];
    let samplings = [
        json!({ "temperature": 0 }),
        json!({ "temperature": 0.7, "top_p": 0.9 }),
        json!({ "temperature": 1.2, "top_k": 5 }),
        json!({}),
        json!({ "temperature": 1.6, "top_k": 12, "top_p": 0.95, "min_p": 0.02 }),
        json!({ "temperature": 2 }),
        json!({ "temperature": 0.3, "min_p": 0.1 }),
    ];
    let stops = [
        json!(null),
        json!("A"),
        json!(["=4", ";1"]),
        json!(["5", "99;"]),
        json!(null),
    ];
    let lengths = [64, 5, 120, 1, 40, 17];
    let shapings = [
        json!({}),
        json!({ "presence_penalty": 1.1, "frequency_penalty": 0.2 }),
        json!({ "repetition_penalty": 1.15, "logit_bias": { "3": 2, "12": -100 } }),
        json!({ "min_tokens": 1, "stop_token_ids": [4], "include_stop_str_in_output": true }),
        json!({ "ignore_eos": true, "frequency_penalty": -0.3 }),
        json!({ "min_tokens": 1, "repetition_penalty": 0.9 }),
        json!({}),
    ];
    let options = match policy {
        "random" => [json!({ "share": 0.5 }), json!({ "share": 1 }), json!({})],
        _ => [json!({ "threshold": 0.002 }), json!({ "threshold": 0.05 }), json!({})],
    };
    let request = |index: usize| {
        let model = &models[index % models.len()];
        // Two prompts in one make a longer one, which the models never saw in training; any text will do here.
        let prompt = match index % 4 {
            3 => problems[index].prompt.repeat(6),
            _ => problems[index].prompt.clone(),
        };
        let mut request = json!({
            "model": model, "prompt": prompt, "seed": 7_919 * index, "stop": stops[index % stops.len()],
            "max_tokens": lengths[index % lengths.len()], "tokenrouter": { "attribution": true },
        });
        for fields in [
            &samplings[index % samplings.len()],
            &shapings[(index / 2) % shapings.len()],
        ] {
            for (name, value) in fields.as_object().expect("an object") {
                request[name] = value.clone();
            }
        }
        if !model.contains('/') {
            request["tokenrouter"]["options"] = options[index % options.len()].clone();
        }
        request
    };
    (0..REQUESTS).map(request).collect()
}

/// One at a time, none streamed.
async fn alone(server: &Server, requests: &[Value]) -> Vec<Answer> {
    let mut answers = Vec::new();
    for request in requests {
        answers.push(not_hanging("a request alone", server.answer(request)).await);
    }
    answers
}

/// All at once, every second one streamed, sent in this order; the answers in the requests' order.
async fn together(server: &Server, requests: &[Value], backwards: bool) -> Vec<Answer> {
    let ask = |(index, request): (usize, &Value)| {
        let mut request = request.clone();
        if (index % 2 == 1) != backwards {
            request["stream"] = true.into();
            request["stream_options"] = json!({ "include_usage": true });
        }
        async move { server.answer(&request).await }
    };
    let mut asked: Vec<_> = requests.iter().enumerate().map(ask).collect();
    if backwards {
        asked.reverse();
    }
    let mut answers = not_hanging("requests together", join_all(asked)).await;
    if backwards {
        answers.reverse();
    }
    answers
}

fn assert_same(what: &str, requests: &[Value], expected: &[Answer], found: &[Answer]) {
    for ((request, expected), found) in requests.iter().zip(expected).zip(found) {
        assert_eq!(expected, found, "{what}: {request}");
    }
}

async fn check(policy: &str) {
    let requests = mix(policy, &problems());
    let expected = alone(&Server::start(&["--plugin", policy]), &requests).await;
    let handoffs: u64 = expected.iter().map(Answer::handoffs).sum();
    assert!(
        handoffs > 60,
        "only {handoffs} handoffs: these requests would show nothing"
    );
    for [rule, optimistic] in RULES {
        let server = Server::start(&["--plugin", policy, "--launch", rule, "--optimistic", optimistic]);
        for backwards in [false, true] {
            let found = together(&server, &requests, backwards).await;
            assert_same(
                &format!("{policy}, {rule}, optimistic {optimistic}, backwards: {backwards}"),
                &requests,
                &expected,
                &found,
            );
        }
    }
    // Steps of at most 3 rows, prompts in pieces of 5 tokens, 6 requests at a time.
    let cramped = deployment_file(
        &format!(
            "plugin = \"{policy}\"\n{}",
            if policy == "r-stitch" {
                "options = { threshold = 0.2, unit = \"nats\" }"
            } else {
                ""
            }
        ),
        "[limits]\nrows_max = 3\nlong_tokens_max = 5\nrequests_running_max = 6\nkv_tokens = 1024",
    );
    for [rule, optimistic] in [["eager", "off"], ["lookahead", "window:3"]] {
        let config = cramped.to_str().expect("UTF-8");
        let server = Server::start(&["--config", config, "--launch", rule, "--optimistic", optimistic]);
        let found = together(&server, &requests, false).await;
        let what = format!("{policy}, cramped, {rule}, optimistic {optimistic}");
        assert_same(&what, &requests, &expected, &found);
    }
}

#[tokio::test]
async fn schedule_independence_of_r_stitch() {
    check("r-stitch").await;
}

#[tokio::test]
async fn schedule_independence_of_random() {
    check("random").await;
}

/// Several prompts in one request are that many requests, each the same as alone.
#[tokio::test]
async fn prompts_of_one_request_do_not_meet() {
    let (server, problems) = (Server::start(&[]), problems());
    let prompts: Vec<&str> = problems[..32].iter().map(|problem| problem.prompt.as_str()).collect();
    let body =
        |prompt: Value| json!({ "model": "tiny", "prompt": prompt, "max_tokens": 48, "seed": 11, "temperature": 1.1 });
    let reply = not_hanging("32 prompts", server.complete(&body(json!(prompts)))).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    let body_of_all = reply.json();
    let choices = body_of_all["choices"].as_array().expect("choices");
    assert_eq!(choices.len(), prompts.len());
    let mut completion_tokens = 0;
    for ((index, prompt), choice) in prompts.iter().enumerate().zip(choices) {
        let one = not_hanging("one prompt", server.answer(&body(json!(prompt)))).await;
        assert_eq!(choice["index"], index);
        assert_eq!(
            (choice["text"].as_str(), choice["finish_reason"].as_str()),
            (Some(&*one.text), Some(&*one.finish))
        );
        completion_tokens += one.completion_tokens();
    }
    assert_eq!(body_of_all["usage"]["completion_tokens"], completion_tokens);
}
