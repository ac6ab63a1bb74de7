//! Mistakes of clients: each gets its status and an OpenAI error object that names what is wrong and what would be right,
//! and does not hurt the next request.

use crate::common::{Server, not_hanging};
use serde_json::{Value, json};

const PROMPT: &str = "67-95-32-35-09=";
const ANSWER: &str = "67-95=72;72-32=40;40-35=05;05-09=96;A96";

fn good() -> Value {
    json!({ "model": "tiny", "prompt": PROMPT, "max_tokens": 64, "temperature": 0 })
}

/// The good request with some fields changed.
fn with(fields: &Value) -> Value {
    let mut body = good();
    for (name, value) in fields.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

fn without(field: &str) -> Value {
    let mut body = good();
    body.as_object_mut().expect("an object").remove(field);
    body
}

/// What an error must be. Every part must be in the message.
struct Expected<'a> {
    status: u16,
    kind: &'a str,
    code: Value,
    param: Value,
    parts: &'a [&'a str],
}

impl<'a> Expected<'a> {
    fn bad_request(param: &str, parts: &'a [&'a str]) -> Self {
        Self {
            status: 400,
            kind: "invalid_request_error",
            code: json!(null),
            param: json!(param),
            parts,
        }
    }

    fn code(self, status: u16, code: &str) -> Self {
        Self {
            status,
            code: json!(code),
            ..self
        }
    }

    fn no_param(self) -> Self {
        Self {
            param: json!(null),
            ..self
        }
    }
}

/// A bad request as a whole, for no field.
fn plain<'a>(parts: &'a [&'a str]) -> Expected<'a> {
    Expected::bad_request("", parts).no_param()
}

async fn check(server: &Server, method: &str, path: &str, body: String, expected: Expected<'_>) {
    let shown: String = body.chars().take(200).collect();
    let what = format!("{method} {path} {shown}");
    let reply = not_hanging(&what, server.send(method, path, body)).await;
    assert_eq!(reply.status, expected.status, "{what}: {}", reply.body);
    let error = reply.error();
    assert_eq!(error["type"], expected.kind, "{what}: {error}");
    assert_eq!(error["code"], expected.code, "{what}: {error}");
    assert_eq!(error["param"], expected.param, "{what}: {error}");
    let message = error["message"].as_str().expect("a message");
    for part in expected.parts {
        assert!(message.contains(part), "{what}: {part:?} is not in {message:?}");
    }
    let answer = not_hanging("a good request", server.answer(&good())).await;
    assert_eq!(answer.text, ANSWER, "after {what}");
}

async fn completion(server: &Server, body: &Value, expected: Expected<'_>) {
    check(server, "POST", "/v1/completions", body.to_string(), expected).await;
}

#[tokio::test]
async fn fields_of_a_wrong_type_are_named_with_what_was_expected_and_found() {
    let server = Server::start(&[]);
    let (string, boolean, integer, number) = ("a string", "a boolean", "an integer", "a number");
    for (param, value, expected, found) in [
        ("model", json!(7), string, "the number 7"),
        (
            "prompt",
            json!({}),
            "a string, an array of token ids, or an array of these",
            "an object",
        ),
        (
            "prompt",
            json!(true),
            "a string, an array of token ids, or an array of these",
            "the boolean true",
        ),
        (
            "prompt",
            json!(["67-95=", 4]),
            "a string, an array of token ids, or an array of these",
            "the number 4",
        ),
        ("prompt", json!([3, "4"]), "token ids from 0 to 4294967295", "a string"),
        (
            "prompt",
            json!([3, -4]),
            "token ids from 0 to 4294967295",
            "the number -4",
        ),
        (
            "prompt",
            json!([3, 4.5]),
            "token ids from 0 to 4294967295",
            "the number 4.5",
        ),
        ("max_tokens", json!("64"), integer, "a string"),
        ("max_tokens", json!(6.5), integer, "the number 6.5"),
        ("temperature", json!("hot"), number, "a string"),
        ("temperature", json!([0]), number, "an array"),
        ("top_p", json!("1"), number, "a string"),
        ("top_k", json!(2.5), integer, "the number 2.5"),
        ("min_p", json!(false), number, "the boolean false"),
        ("seed", json!("7"), integer, "a string"),
        ("seed", json!(0.5), integer, "the number 0.5"),
        ("stop", json!(9), "a string or an array of strings", "the number 9"),
        (
            "stop",
            json!(["A", 9]),
            "a string or an array of strings",
            "the number 9",
        ),
        ("stream", json!("yes"), boolean, "a string"),
        ("stream", json!(1), boolean, "the number 1"),
        ("stream_options", json!(true), "an object", "the boolean true"),
        ("stream_options", json!({ "include_usage": "yes" }), boolean, "a string"),
        ("tokenrouter", json!([]), "an object", "an array"),
        ("tokenrouter", json!({ "options": 1 }), "an object", "the number 1"),
        ("tokenrouter", json!({ "attribution": "on" }), boolean, "a string"),
    ] {
        let full = match &value {
            Value::Object(inner) if !inner.is_empty() => format!("{param}.{}", inner.keys().next().expect("a key")),
            _ => param.to_owned(),
        };
        let sentence = format!("{full} must be {expected}, found {found}");
        completion(
            &server,
            &with(&json!({ param: value })),
            Expected::bad_request(&full, &[&sentence]),
        )
        .await;
    }
}

#[tokio::test]
async fn values_out_of_range_are_told_with_the_range() {
    let server = Server::start(&[]);
    for (param, value, parts) in [
        ("max_tokens", json!(0), ["is 0", "must be 1 to"]),
        ("max_tokens", json!(-3), ["is -3", "must be 1 to"]),
        ("temperature", json!(-0.1), ["is -0.1", "must be 0 to 2"]),
        ("temperature", json!(2.1), ["is 2.1", "must be 0 to 2"]),
        ("top_p", json!(1.5), ["is 1.5", "must be 0 to 1"]),
        ("top_k", json!(-2), ["is -2", "must be -1 to"]),
        ("min_p", json!(-1), ["is -1", "must be 0 to 1"]),
        ("stop", json!(["1", "2", "3", "4", "5"]), ["has 5 strings", "at most 4"]),
        ("stop", json!([""]), ["empty string", "end every answer"]),
        ("prompt", json!(""), ["is empty", "at least one token"]),
        ("prompt", json!([]), ["is empty", "at least one token"]),
        ("prompt", json!([[]]), ["is empty", "at least one token"]),
        ("prompt", json!(["1+1=", ""]), ["is empty", "at least one token"]),
        ("prompt", json!(vec!["1"; 33]), ["has 33 prompts", "at most 32"]),
        ("prompt", json!("67-95x"), ["'x'", "knows only '0' '1' '2'"]),
        ("prompt", json!("67\u{1f600}"), ["U+1F600", "knows only"]),
        (
            "prompt",
            json!([3, 4, 21]),
            ["token id 21 at index 2", "21 ids (0 to 20)"],
        ),
        (
            "prompt",
            json!([4_294_967_295_u32]),
            ["token id 4294967295 at index 0", "21 ids (0 to 20)"],
        ),
    ] {
        completion(
            &server,
            &with(&json!({ param: value })),
            Expected::bad_request(param, &parts),
        )
        .await;
    }
    let no_prompt = Expected::bad_request("prompt", &["prompt", "is missing"]);
    completion(&server, &without("prompt"), no_prompt).await;
    let context = |parts| Expected::bad_request("prompt", parts).code(400, "context_length_exceeded");
    for stream in [false, true] {
        let body = with(&json!({ "max_tokens": 500, "stream": stream }));
        completion(
            &server,
            &body,
            context(&["context is 512 tokens", "516", "16 of the prompt", "500 of the answer"]),
        )
        .await;
        let body = with(&json!({ "prompt": PROMPT.repeat(40), "stream": stream }));
        completion(
            &server,
            &body,
            context(&["512", "601 of the prompt", "64 of the answer"]),
        )
        .await;
    }
}

#[tokio::test]
async fn names_that_lead_nowhere_are_told_with_those_that_do() {
    let server = Server::start(&[]);
    for model in ["", "gpt-4", "tiny/huge", "tiny@random", "small"] {
        let parts = ["no model", model, "tiny, tiny@r-stitch, tiny/small, tiny/large"];
        let expected = Expected::bad_request("model", &parts);
        completion(
            &server,
            &with(&json!({ "model": model })),
            expected.code(404, "model_not_found"),
        )
        .await;
    }
    let own = |fields: Value| with(&json!({ "tokenrouter": fields }));
    completion(
        &server,
        &own(json!({ "opitons": {} })),
        Expected::bad_request("tokenrouter.opitons", &["is not known", "options, attribution, steps"]),
    )
    .await;
    let refused = |parts| plain(parts).code(400, "policy_refused");
    completion(
        &server,
        &own(json!({ "options": { "treshold": 1 } })),
        refused(&["unknown option `treshold`", "threshold"]),
    )
    .await;
    completion(
        &server,
        &own(json!({ "options": { "unit": "nats" } })),
        refused(&["`unit` is set by the deployment", "a request may set threshold"]),
    )
    .await;
    completion(
        &server,
        &own(json!({ "options": { "threshold": -1 } })),
        refused(&["threshold", "-1"]),
    )
    .await;
    completion(
        &server,
        &own(json!({ "options": { "threshold": {} } })),
        Expected::bad_request(
            "tokenrouter.options.threshold",
            &["must be a boolean, a number, a string", "found an object"],
        ),
    )
    .await;
    let mut alone = own(json!({ "options": { "threshold": 0.1 } }));
    alone["model"] = "tiny/small".into();
    let parts = ["are for a routing policy", "tiny/small"];
    completion(&server, &alone, Expected::bad_request("tokenrouter.options", &parts)).await;
}

#[tokio::test]
async fn parameters_that_are_known_but_not_served_are_refused_unless_they_change_nothing() {
    let server = Server::start(&[]);
    for (param, value, neutral) in [
        ("suffix", json!("."), json!("")),
        ("bad_words", json!(["1"]), json!([])),
        ("allowed_token_ids", json!([1]), json!([])),
        ("truncate_prompt_tokens", json!(5), json!(null)),
    ] {
        let parts = [param, "is not supported", "leave it out or set it to"];
        let expected = Expected::bad_request(param, &parts);
        completion(
            &server,
            &with(&json!({ param: value })),
            expected.code(400, "unsupported_parameter"),
        )
        .await;
        let answer = not_hanging("a neutral value", server.answer(&with(&json!({ param: neutral })))).await;
        assert_eq!(answer.text, ANSWER, "{param}");
    }
}

/// Clients write null for what they do not set.
#[tokio::test]
async fn null_is_absent() {
    let server = Server::start(&[]);
    let nulls = json!({
        "seed": null, "stop": null, "stream": null, "stream_options": null, "tokenrouter": null, "top_p": null, "top_k": null,
        "min_p": null, "n": null, "logprobs": null, "echo": null, "suffix": null, "user": null, "best_of": null,
    });
    assert_eq!(not_hanging("nulls", server.answer(&with(&nulls))).await.text, ANSWER);
    let own = json!({ "tokenrouter": { "options": null, "attribution": null } });
    assert_eq!(not_hanging("nulls", server.answer(&with(&own))).await.text, ANSWER);
}

#[tokio::test]
async fn bodies_paths_and_methods_that_are_wrong() {
    let server = Server::start(&["--log", "warn"]);
    let path = "/v1/completions";
    for (body, parts) in [
        ("{\"model\": \"tiny\",", ["not valid JSON", "line 1"]),
        ("", ["not valid JSON", "line 1"]),
        ("[]", ["expected an object", "found an array"]),
        ("\"tiny\"", ["expected an object", "found a string"]),
        ("{\"temperature\": NaN}", ["not valid JSON", "line 1"]),
    ] {
        check(&server, "POST", path, body.to_owned(), plain(&parts)).await;
    }
    let reply = server.send("POST", path, b"{\"model\": \"\xff\"}".to_vec()).await;
    assert_eq!(reply.status, 400, "{}", reply.body);
    assert!(reply.body.contains("not UTF-8: byte 11 is wrong"), "{}", reply.body);

    let large = with(&json!({ "prompt": "1".repeat(1 << 20) })).to_string();
    check(
        &server,
        "POST",
        path,
        large,
        plain(&["larger than 1048576 bytes"]).code(413, "body_too_large"),
    )
    .await;
    // Without a length: the bound must hold for what comes, not for what is announced.
    let chunks = (0..40).map(|_| Ok::<_, std::io::Error>(vec![b' '; 64 << 10]));
    let body = reqwest::Body::wrap_stream(futures_util::stream::iter(chunks));
    let reply = not_hanging("a chunked body", server.send("POST", path, body)).await;
    assert_eq!(
        (reply.status, reply.error()["code"].as_str()),
        (413, Some("body_too_large"))
    );

    let unknown = plain(&["/v1/completion;", "/openapi.json"]).code(404, "unknown_url");
    check(&server, "POST", "/v1/completion", good().to_string(), unknown).await;
    let method = plain(&["/v1/completions does not take GET"]).code(405, "method_not_allowed");
    check(&server, "GET", path, String::new(), method).await;
    let method = plain(&["/v1/models does not take DELETE"]).code(405, "method_not_allowed");
    check(&server, "DELETE", "/v1/models", String::new(), method).await;
}
