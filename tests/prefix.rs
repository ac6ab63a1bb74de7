//! Prefix reuse as clients meet it: later turns find what earlier ones have computed, answers stay the same, nobody finds what
//! another key has asked, and memory comes back under pressure.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::common::{HANG, Server, deployment_file, file, not_hanging, wait_for_info};

const KEYS: [&str; 2] = ["sk-alice-0123456789", "sk-bob-0123456789ab"];

/// `length` token ids of the tiny models' vocabulary, behind their first token.
fn ids(length: usize, kind: usize) -> Vec<u64> {
    let ids = (0..length).map(|at| 3 + ((at * at + 7 * at * kind + kind) % 15) as u64);
    std::iter::once(2).chain(ids.skip(1)).collect()
}

fn body(prompt: &[u64], max_tokens: u32) -> Value {
    json!({
        "model": "tiny", "prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "seed": 1, "ignore_eos": true,
        "return_token_ids": true,
    })
}

fn off(mut body: Value) -> Value {
    body["tokenrouter"] = json!({ "prefix_cache": false });
    body
}

/// What an answer comes down to here.
#[derive(Debug, PartialEq)]
struct Answered {
    tokens: Vec<u64>,
    cached: u64,
    /// At the models small and large.
    cached_by_model: [u64; 2],
}

impl Answered {
    fn of(reply: &Value) -> Self {
        let usage = &reply["usage"];
        let by_model = &usage["tokenrouter"]["cached_tokens_by_model"];
        let count = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("no count in {usage}"));
        let tokens = reply["choices"][0]["token_ids"].as_array().expect("token ids");
        let answered = Self {
            tokens: tokens.iter().map(count).collect(),
            cached: count(&usage["prompt_tokens_details"]["cached_tokens"]),
            cached_by_model: ["small", "large"].map(|name| count(&by_model[name])),
        };
        assert!(answered.cached < count(&usage["prompt_tokens"]), "{usage}");
        answered
    }
}

async fn ask(server: &Server, body: &Value) -> Answered {
    let reply = server.complete(body).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    Answered::of(&reply.json())
}

async fn ask_as(server: &Server, key: &str, body: &Value) -> Answered {
    let request = reqwest::Client::new().post(format!("{}/v1/completions", server.url));
    let request = request.bearer_auth(key).timeout(HANG).json(body);
    let reply = request.send().await.expect("a response").text().await.expect("a body");
    Answered::of(&serde_json::from_str(&reply).unwrap_or_else(|error| panic!("{error} in {reply}")))
}

/// Each turn has the one before it, the answer to it and something new. Random routing has both models write.
#[tokio::test]
async fn later_turns_of_a_conversation_reuse_prompt_and_answer_at_both_models() {
    let policy = "plugin = \"random\"\noptions = { share = 0.3 }";
    let server = Server::with_file(&deployment_file(policy, ""));
    let never = Server::with_file(&file(
        "off.toml",
        format!(
            "prefix_cache = false\n{}",
            std::fs::read_to_string(deployment_file(policy, "")).expect("it was written")
        ),
    ));
    let mut prompt = ids(70, 0);
    let mut held = 0_u64;
    for turn in 0..3 {
        let asked = body(&prompt, 40);
        let answered = ask(&server, &asked).await;
        let expected = ask(&never, &asked).await;
        assert_eq!((expected.cached, expected.cached_by_model), (0, [0, 0]));
        assert_eq!(answered.tokens, expected.tokens, "turn {turn}");
        assert_eq!(answered.cached, answered.cached_by_model[0], "the small model begins");
        // Each held the whole sequence but for what it had not been fed at the end, and whole blocks are found.
        let least = [16, 32].map(|lacks| (held / 16 * 16).saturating_sub(lacks));
        for (cached, least) in answered.cached_by_model.into_iter().zip(least) {
            assert!(
                cached % 16 == 0 && cached >= least && cached <= held,
                "turn {turn}: {cached}, {least} to {held}"
            );
        }
        assert_eq!(
            ask(&server, &off(asked)).await,
            expected,
            "who stays out of it finds nothing"
        );
        held = prompt.len() as u64 + answered.tokens.len() as u64 - 1;
        prompt.extend(answered.tokens);
        prompt.extend(ids(9, turn + 1));
    }
    let metrics = server.get("/metrics").await.body;
    for name in ["hits_total", "tokens_total", "blocks_retained"] {
        let line = metrics.lines().find(|line| {
            line.starts_with(&format!("tokenrouter_prefix_{name}{{"))
                && line.contains("/small\"")
                && !line.ends_with(" 0")
        });
        assert!(line.is_some(), "{name}: {metrics}");
    }
}

/// Several answers to one prompt: the first computes it. A prompt counts once, and so does what was found of it.
#[tokio::test]
async fn of_several_answers_to_a_prompt_the_first_counts() {
    let server = Server::start(&[]);
    let mut asked = body(&ids(100, 0), 2);
    asked["n"] = 4.into();
    for cached in [0, 96] {
        assert_eq!(ask(&server, &asked).await.cached, cached);
    }
}

/// CVE-2025-46570: how fast an answer begins tells whether somebody has asked for its beginning. vllm#53347: and so it does where
/// a client may choose the salt of another.
#[tokio::test]
async fn nobody_finds_what_another_key_or_salt_has_asked() {
    let server = Server::start_with(&[], &[("TOKENROUTER_API_KEYS", KEYS.join(",").as_ref())]);
    let [alice, bob] = KEYS;
    let asked = body(&ids(100, 0), 2);
    let salted = |salt: &str| {
        let mut asked = asked.clone();
        asked["cache_salt"] = salt.into();
        asked
    };
    let expected = [
        (alice, asked.clone(), 0),
        (bob, asked.clone(), 0),
        (alice, asked.clone(), 96),
        (bob, asked.clone(), 96),
        (alice, salted("a"), 0),
        (bob, salted("a"), 0),
        (alice, salted("a"), 96),
        (alice, salted("b"), 0),
    ];
    let mut tokens = None;
    for (key, body, cached) in &expected {
        let answered = ask_as(&server, key, body).await;
        assert_eq!(answered.cached, *cached, "{key} {body}");
        assert_eq!(*tokens.get_or_insert_with(|| answered.tokens.clone()), answered.tokens);
    }
}

#[tokio::test]
async fn fields_that_say_nothing_are_refused_by_name() {
    let server = Server::start(&[]);
    for (salt, sentence) in [
        (json!(""), "is empty"),
        (json!(7), "must be a string"),
        (json!("x".repeat(257)), "257 bytes"),
    ] {
        let mut asked = body(&ids(20, 0), 1);
        asked["cache_salt"] = salt;
        let reply = server.complete(&asked).await;
        let error = reply.error();
        assert_eq!((reply.status, &error["param"]), (400, &json!("cache_salt")));
        assert!(
            error["message"].as_str().is_some_and(|said| said.contains(sentence)),
            "{error}"
        );
    }
    let mut asked = body(&ids(20, 0), 1);
    asked["tokenrouter"] = json!({ "prefix_cache": "no" });
    assert_eq!(
        server.complete(&asked).await.error()["param"],
        "tokenrouter.prefix_cache"
    );
}

/// Requests that share prefixes, take KV from each other and are left by their clients, in a pool of a few of them. Pairs of
/// optimistic handoff and rules, because drafts hold KV, too.
#[tokio::test]
async fn under_pressure_answers_are_right_and_all_memory_comes_back() {
    let ample = Server::start(&[]);
    let asked: Vec<Value> = (0..24)
        .map(|index| {
            let prompt = [ids(50, index % 3), ids(10 + index, index)].concat();
            body(&prompt, 24)
        })
        .collect();
    let expected: Vec<_> = join_all(
        asked
            .iter()
            .map(async |body| ask(&ample, &off(body.clone())).await.tokens),
    )
    .await;
    for (rule, optimistic) in [("lookahead", "window:4"), ("eager", "off")] {
        let limits = format!(
            "[launch]\nrule = \"{rule}\"\noptimistic = \"{optimistic}\"\n[limits]\nkv_tokens = 320\nkv_promised_percent = 1600"
        );
        let policy = "plugin = \"r-stitch\"\noptions = { threshold = 0.2, unit = \"nats\" }";
        let server = Server::with_file(&deployment_file(policy, &limits));
        for _ in 0..2 {
            let asked = asked.iter().enumerate().map(async |(index, body)| {
                if index % 4 == 3 {
                    // Leaves after the first piece, or without any.
                    let mut events = server.events(body).await;
                    if index % 8 == 3 {
                        events.next().await;
                    } else {
                        tokio::time::sleep(Duration::from_millis(index as u64)).await;
                    }
                    return None;
                }
                Some(ask(&server, body).await.tokens)
            });
            let answers = not_hanging(rule, join_all(asked)).await;
            for (index, tokens) in answers.into_iter().enumerate() {
                assert!(
                    tokens.is_none_or(|tokens| tokens == expected[index]),
                    "{rule}: request {index}"
                );
            }
        }
        wait_for_info(&server, "idle", |info| {
            let models = info["stats"]["models"].as_array().expect("models");
            let kept = models
                .iter()
                .all(|model| model["kv_blocks_used"] == 0 && model["seats_taken"] == 0);
            kept && info["stats"]["requests_running"] == 0
        })
        .await;
        let stats = &server.info().await["stats"]["models"][0];
        for count in ["prefix_tokens", "prefix_evictions", "kv_evictions"] {
            assert!(
                stats[count].as_u64().is_some_and(|count| count > 0),
                "{rule}: {count} in {stats}"
            );
        }
    }
}
