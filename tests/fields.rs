//! Every field of a completion request: absent, null, right, of a wrong type, out of range; on the real server.

use crate::common::{Server, not_hanging};
use serde_json::{Value, json};

const PROMPT: &str = "67-95-32-35-09=";
const ANSWER: &str = "67-95=72;72-32=40;40-35=05;05-09=96;A96";

/// A field with values that are right, of a wrong type, and out of range or otherwise impossible.
struct Field {
    name: &'static str,
    right: Vec<Value>,
    wrong: Vec<Value>,
    impossible: Vec<Value>,
    /// What the field needs beside itself.
    with: Value,
}

fn field(name: &'static str, right: Value, wrong: Value, impossible: Value) -> Field {
    let list = |value: Value| value.as_array().expect("a list").clone();
    Field {
        name,
        right: list(right),
        wrong: list(wrong),
        impossible: list(impossible),
        with: json!({}),
    }
}

impl Field {
    fn with(self, with: Value) -> Self {
        Self { with, ..self }
    }
}

fn fields() -> Vec<Field> {
    let five = json!(["1", "2", "3", "4", "5"]);
    let many = |count: usize| Value::Object((0..count).map(|i| (format!("{i}"), json!(0))).collect());
    vec![
        field(
            "model",
            json!(["tiny", "tiny/large"]),
            json!([1, ["tiny"], {}]),
            json!([]),
        ),
        field(
            "max_tokens",
            json!([1, 496]),
            json!(["9", 1.5, true, [1]]),
            json!([0, -1, 4_294_967_296_u64, u64::MAX]),
        ),
        field(
            "max_completion_tokens",
            json!([64]),
            json!(["9", 1.5, true]),
            json!([0, -1, 7, 4_294_967_296_u64]),
        ),
        field("min_tokens", json!([0, 5, 64]), json!(["1", 0.5]), json!([-1, 65])),
        field(
            "temperature",
            json!([0, 1e-30, 1, 2]),
            json!(["1", true, {}]),
            json!([-0.1, 2.1, 1e300]),
        )
        .with(json!({ "seed": 7 })),
        field("top_p", json!([0, 0.5, 1]), json!(["1", [1]]), json!([-0.1, 1.1])),
        field(
            "top_k",
            json!([-1, 0, 1, 1_000_000]),
            json!(["1", 1.5]),
            json!([-2, 4_294_967_296_u64]),
        ),
        field("min_p", json!([0, 0.5, 1]), json!(["1"]), json!([-0.1, 1.1])),
        field(
            "seed",
            json!([0, -1, i64::MIN, u64::MAX]),
            json!(["1", 0.5, true, 1e30]),
            json!([]),
        ),
        field("n", json!([1, 3, 32]), json!(["1", 1.5]), json!([0, -1, 33, u64::MAX])),
        field("best_of", json!([1]), json!(["1", 1.5]), json!([0, 2])),
        field("presence_penalty", json!([-2, 0, 2]), json!(["0"]), json!([-2.1, 2.1])),
        field("frequency_penalty", json!([-2, 0, 2]), json!(["0"]), json!([-2.1, 2.1])),
        field(
            "repetition_penalty",
            json!([0.1, 1, 10]),
            json!(["1"]),
            json!([0, -1, 10.1]),
        ),
        field(
            "logit_bias",
            json!([{}, { "0": -100 }, { "3": 0.5, "20": 100 }]),
            json!([1, [1], "5", { "3": "1" }, { "3": null }]),
            json!([{ "21": 1 }, { "-1": 1 }, { "a": 1 }, { "3": 100.5 }, { "4294967296": 1 }, many(1_025)]),
        ),
        field("logprobs", json!([0, 1, 20]), json!(["1", true, 1.5]), json!([-1, 21])),
        field("echo", json!([true, false]), json!(["true", 1]), json!([])),
        field(
            "stop",
            json!(["A", ["A", "="], []]),
            json!([1, true, {}, ["A", 1], [null]]),
            json!(["", ["A", ""], five, "1".repeat(1_025)]),
        ),
        field(
            "stop_token_ids",
            json!([[], [3], [0, 20]]),
            json!([3, "3", ["3"], [1.5], [-1]]),
            json!([[21], [4_294_967_296_u64], vec![3; 65]]),
        ),
        field(
            "include_stop_str_in_output",
            json!([true, false]),
            json!(["true", 1]),
            json!([]),
        ),
        field("ignore_eos", json!([true, false]), json!(["true", 1]), json!([])),
        field("return_token_ids", json!([true, false]), json!(["true", 1]), json!([])),
        field("stream", json!([true, false]), json!(["true", 1]), json!([])),
        field(
            "stream_options",
            json!([{}, { "include_usage": true }, { "include_usage": true, "continuous_usage_stats": true }]),
            json!([true, [], { "include_usage": 1 }, { "continuous_usage_stats": "yes" }]),
            json!([]),
        )
        .with(json!({ "stream": true })),
        field("user", json!(["someone"]), json!([1, {}]), json!([])),
        field("cache_salt", json!(["a"]), json!([1, {}]), json!(["", "1".repeat(257)])),
        field(
            "tokenrouter",
            json!([{}, { "attribution": true }, { "prefix_cache": false }, { "options": { "threshold": 0.1 } }, { "options": { "threshold": null } }]),
            json!([1, [], { "options": 1 }, { "attribution": "on" }, { "options": { "threshold": {} } }]),
            json!([{ "unheard_of": 1 }]),
        ),
        // Known, and served only where it changes nothing.
        field("suffix", json!([""]), json!([]), json!(["end", 1])),
        field("prompt_logprobs", json!([false]), json!([]), json!([0, 1, true])),
        field("length_penalty", json!([1, 1.0]), json!([]), json!([0.5, "1"])),
        field("use_beam_search", json!([false]), json!([]), json!([true])),
        field(
            "response_format",
            json!([{ "type": "text" }]),
            json!([]),
            json!([{ "type": "json_object" }, 1]),
        ),
        field("tools", json!([[]]), json!([]), json!([[{ "type": "function" }]])),
        field(
            "messages",
            json!([[]]),
            json!([]),
            json!([[{ "role": "user", "content": "1" }]]),
        ),
        field("guided_regex", json!([""]), json!([5]), json!(["(", "x+"])),
        field("guided_grammar", json!([""]), json!([]), json!(["start: \"1\""])),
    ]
}

fn body(field: &Field, value: &Value) -> Value {
    let mut body = json!({ "model": "tiny", "prompt": PROMPT, "max_tokens": 64, "temperature": 0 });
    for (name, value) in field.with.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body[field.name] = value.clone();
    body
}

async fn refused(server: &Server, body: &Value, name: &str) -> String {
    let reply = not_hanging("a refusal", server.complete(body)).await;
    assert_eq!(reply.status, 400, "{body}: {}", reply.body);
    assert_eq!(reply.headers["content-type"], "application/json", "no stream: {body}");
    let error = reply.error();
    let param = error["param"].as_str().unwrap_or_default();
    assert!(
        param == name || param.starts_with(&format!("{name}.")),
        "{body}: {error}"
    );
    let message = error["message"].as_str().expect("a message").to_owned();
    assert!(message.starts_with(param), "{body}: {error}");
    message
}

#[tokio::test]
async fn every_field_absent_null_right_of_a_wrong_type_and_out_of_range() {
    let server = Server::start(&[]);
    for field in fields() {
        // Null is absent: nothing of it shows, whatever the field.
        let null = body(&field, &Value::Null);
        let mut absent = null.clone();
        absent.as_object_mut().expect("an object").remove(field.name);
        let [null, absent] = [null, absent].map(|body| {
            let server = &server;
            async move { not_hanging("an answer", server.answer(&body)).await.text }
        });
        assert_eq!(null.await, absent.await, "{} is null", field.name);
        for value in &field.right {
            let body = body(&field, value);
            let reply = not_hanging("a right value", server.complete(&body)).await;
            assert_eq!(reply.status, 200, "{body}: {}", reply.body);
        }
        for value in &field.wrong {
            let message = refused(&server, &body(&field, value), field.name).await;
            assert!(
                message.contains(" must be ") && (message.contains("found ") || field.name == "logit_bias"),
                "{} = {value}: {message}",
                field.name
            );
        }
        for value in &field.impossible {
            refused(&server, &body(&field, value), field.name).await;
        }
    }
    let good = json!({ "model": "tiny", "prompt": PROMPT, "max_tokens": 64, "temperature": 0 });
    assert_eq!(server.answer(&good).await.text, ANSWER, "the server is unharmed");
}

/// Bounds are published, unknown fields are accepted and counted.
#[tokio::test]
async fn limits_and_unknown_fields_are_shown() {
    let server = Server::start(&[]);
    let body = json!({
        "model": "tiny", "prompt": PROMPT, "max_tokens": 64, "temperature": 0, "speculative": 3, "nothing": null,
    });
    for _ in 0..2 {
        assert_eq!(server.answer(&body).await.text, ANSWER);
    }
    let info = server.info().await;
    assert_eq!(info["stats"]["unknown_fields"], json!({ "speculative": 2 }));
    let limits = &info["limits"]["fields"];
    assert_eq!(
        (&limits["temperature"], &limits["logprobs_max"]),
        (&json!([0.0, 2.0]), &json!(20))
    );
    for name in [
        "stop_strings_max",
        "stop_tokens_max",
        "logit_bias_tokens_max",
        "penalty",
        "repetition_penalty",
    ] {
        assert!(!limits[name].is_null(), "{name} in {limits}");
    }
}
