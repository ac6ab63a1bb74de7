//! Policies that should not be served: each is refused, or contained while it serves, with an error of its own, and the policy
//! that serves is untouched.

use std::io::Write as _;
use std::path::PathBuf;

use crate::common::admin::{KEY, SEED, escaped, failing_for_the_seed, generation, shipped, start};
use crate::common::component::Policy;
use crate::common::{Answer, Server, deployment_file, file, not_hanging, problems};
use ed25519_dalek::{Signer as _, SigningKey};
use serde_json::{Value, json};
use tokenrouter_policy::Digest;

const FOREVER: &str = "(loop $forever (br $forever))";

fn body(model: &str) -> Value {
    json!({ "model": model, "prompt": problems()[0].prompt, "max_tokens": 64, "temperature": 0, "seed": SEED })
}

async fn answer(server: &Server, model: &str) -> String {
    not_hanging(model, server.answer(&body(model))).await.text
}

/// A server with R-Stitch, and what it answers.
async fn served(rest: &str) -> (Server, String) {
    let plugin = "plugin = \"r-stitch\"\noptions = { threshold = 0.2, unit = \"nats\" }\non_failure = \"stay\"";
    let path = deployment_file(plugin, rest);
    let server = start(&["--config", path.to_str().expect("UTF-8")]);
    let expected = answer(&server, "tiny").await;
    (server, expected)
}

fn wat(text: &str) -> Vec<u8> {
    wat::parse_str(text).expect("it is well-formed")
}

/// All rows go on at the first model.
const TO_THE_FIRST: &str =
    "(memory.fill (local.get $candidates) (i32.const 0) (i32.mul (local.get $rows) (i32.const 4)))";

/// An upload that is refused: name, component, query, status, code, and a part of the message.
type Refused = (&'static str, Vec<u8>, String, u16, &'static str, &'static str);

fn refused() -> Vec<Refused> {
    let policy = Policy::new;
    let wasi = r#"(import "wasi:cli/environment@0.2.0" (instance))"#;
    let recursion = "(func $deeper (param i32) (result i32)
                       (i32.add (call $deeper (i32.add (local.get 0) (i32.const 1))) (i32.const 1)))";
    let deep = policy()
        .with("declarations", recursion)
        .with("init", "(drop (call $deeper (i32.const 0)))");
    let not_a_number =
        "(if (i32.and (i32.ne (local.get 4) (i32.const 0)) (f32.ne (f32.load (local.get 3)) (f32.load (local.get 3))))
                          (then (unreachable)))";
    let wrong_digest = format!("sha256={}", Digest::of(b"something else"));
    let none = String::new;
    vec![
        ("nothing", Vec::new(), none(), 422, "not_wasm", "it is empty"),
        ("a script", b"#!/bin/sh\n".to_vec(), none(), 422, "not_wasm", "23 21 2f"),
        (
            "a core module",
            wat("(module)"),
            none(),
            422,
            "core_module",
            "wasm-tools component new",
        ),
        (
            "another component",
            wat("(component)"),
            none(),
            422,
            "not_a_policy",
            "tokenrouter:policy@0.1.0",
        ),
        (
            "a torn component",
            policy().bytes()[..500].to_vec(),
            none(),
            422,
            "invalid_component",
            "not valid",
        ),
        (
            "another version",
            policy().with("version", "0.2.0").bytes(),
            none(),
            422,
            "contract_version",
            "expected tokenrouter:policy@0.1.0, found tokenrouter:policy@0.2.0",
        ),
        (
            "no send",
            policy().without("send").bytes(),
            none(),
            422,
            "missing_exports",
            "does not export send",
        ),
        (
            "WASI",
            policy().with("imports", wasi).bytes(),
            none(),
            422,
            "foreign_imports",
            "no WASI",
        ),
        (
            "a wrong type",
            policy().exporting("send", "receive").bytes(),
            none(),
            422,
            "wrong_type",
            "send",
        ),
        (
            "too large",
            vec![0; (4 << 20) + 1],
            none(),
            413,
            "body_too_large",
            "4194304",
        ),
        (
            "a wrong digest",
            policy().bytes(),
            wrong_digest,
            422,
            "digest_mismatch",
            "expected",
        ),
        (
            "an unknown option",
            policy().bytes(),
            format!("options={}", escaped(r#"{"speed": 1}"#)),
            422,
            "options_refused",
            "unknown option `speed`",
        ),
        (
            "too much memory",
            policy().with("memory pages", "257").bytes(),
            none(),
            422,
            "invalid_component",
            "memory",
        ),
        (
            "a trap in init",
            policy().with("init", "(unreachable)").bytes(),
            none(),
            422,
            "policy_fault",
            "`init` trapped",
        ),
        (
            "an endless init",
            policy().with("init", FOREVER).bytes(),
            none(),
            422,
            "policy_fault",
            "`init` took more than",
        ),
        (
            "an endless describe",
            policy().with("describe", FOREVER).bytes(),
            none(),
            422,
            "policy_fault",
            "`describe` took more than",
        ),
        (
            "a deep init",
            deep.bytes(),
            none(),
            422,
            "policy_fault",
            "bytes of stack",
        ),
        (
            "a trap in route",
            policy().with("route", "(unreachable)").bytes(),
            none(),
            422,
            "smoke_test_failed",
            "`route` trapped",
        ),
        (
            "an endless route",
            policy().with("route", FOREVER).bytes(),
            none(),
            422,
            "smoke_test_failed",
            "`route` took more than",
        ),
        (
            "an endless receive",
            policy().with("route", TO_THE_FIRST).with("receive", FOREVER).bytes(),
            none(),
            422,
            "smoke_test_failed",
            "`receive` took more than",
        ),
        (
            "signals that are not numbers",
            policy()
                .with("route", &format!("{not_a_number} {TO_THE_FIRST}"))
                .bytes(),
            none(),
            422,
            "smoke_test_failed",
            "`route` trapped",
        ),
    ]
}

#[tokio::test]
async fn what_cannot_serve_is_refused_and_what_serves_is_untouched() {
    let (server, expected) = served("").await;
    for (name, bytes, query, status, code, says) in refused() {
        let path = format!("/admin/policies/hostile?activate=true&{query}");
        let reply = not_hanging(name, server.admin("PUT", &path, bytes)).await;
        let error = reply.error();
        assert_eq!(
            (reply.status, error["code"].as_str()),
            (status, Some(code)),
            "{name}: {}",
            reply.body
        );
        assert!(
            error["message"].as_str().is_some_and(|text| text.contains(says)),
            "{name}: {error}"
        );
        let policies = server.admin_ok("GET", "/admin/policies", "").await;
        assert_eq!(
            policies["policies"].as_array().map(Vec::len),
            Some(1),
            "{name}: {policies}"
        );
        assert_eq!(answer(&server, "tiny").await, expected, "{name}");
    }
    assert_eq!(server.default_generation().await, 1);
}

/// An option that `init` refuses is a refusal with the policy's own words.
#[tokio::test]
async fn an_init_error_is_told_in_the_policys_words() {
    let (server, expected) = served("").await;
    let path = format!(
        "/admin/policies/random?activate=true&options={}",
        escaped(r#"{"share": 2}"#)
    );
    let reply = server.admin("PUT", &path, shipped("random")).await;
    assert_eq!(
        (reply.status, reply.error()["code"].as_str()),
        (422, Some("options_refused")),
        "{}",
        reply.body
    );
    assert!(reply.body.contains("between 0 and 1"), "{}", reply.body);
    assert_eq!(answer(&server, "tiny").await, expected);
}

/// Ways to misbehave that no check finds, because they begin with the first request.
#[tokio::test]
async fn what_misbehaves_while_it_serves_harms_nobody_else() {
    let (server, expected) = served("").await;
    let small = &problems()[0].greedy_small;
    let recursion = "(func $deeper (param i32) (result i32)
                       (i32.add (call $deeper (i32.add (local.get 0) (i32.const 1))) (i32.const 1)))";
    let policies = [
        ("trap", "(unreachable)", "`route` trapped"),
        ("loop", FOREVER, "`route` took more than 100 ms"),
        (
            "memory",
            "(loop $more (drop (memory.grow (i32.const 16))) (br $more))",
            "bytes of memory",
        ),
        ("stack", "(drop (call $deeper (i32.const 0)))", "bytes of stack"),
        (
            "length",
            "(local.set $rows (i32.sub (local.get $rows) (i32.const 1)))",
            "`route` returned 0 destinations, expected 1",
        ),
        // The hand-written policy names the candidate as the model.
        ("model", "", "`route` returned model"),
    ];
    for (name, code, says) in policies {
        let component = failing_for_the_seed(code).with("declarations", recursion);
        server.put(name, "activate=true&default=false", component.bytes()).await;
        let model = format!("tiny@{name}");
        let (hostile, other) = tokio::join!(answer(&server, &model), answer(&server, "tiny"));
        assert_eq!(&hostile, small, "{name}: the failure mode is `stay`");
        assert_eq!(other, expected, "{name}");
        let live = server.admin_ok("GET", "/admin/generations", "").await;
        let of_name = live["generations"]
            .as_array()
            .and_then(|all| all.iter().find(|one| one["policy"] == name).cloned());
        let of_name = of_name.unwrap_or_else(|| panic!("{name} is not loaded: {live}"));
        assert!(of_name["faults"].as_u64() > Some(0), "{of_name}");
        assert!(
            of_name["last_fault"].as_str().is_some_and(|text| text.contains(says)),
            "{name}: {of_name}"
        );
        server.admin_ok("DELETE", &format!("/admin/policies/{name}"), "").await;
    }
    assert_eq!(answer(&server, "tiny").await, expected);
}

/// Nearly a million instructions compile for longer than they may, and until then nothing else compiles.
#[tokio::test]
async fn a_compile_bomb_is_given_up() {
    let plugin = file("policy.wasm", Policy::new().bytes());
    let rest = "[policy.limits]\ncompile_ms_max = 300\n";
    let path = deployment_file(&format!("plugin = {plugin:?}\non_failure = \"stay\""), rest);
    let server = start(&["--config", path.to_str().expect("UTF-8")]);
    let work = "(i32.store (i32.const 8) (i32.mul (i32.load (i32.const 8)) (i32.load (i32.const 12))))";
    let bomb = Policy::new()
        .with("declarations", &format!("(func {})", work.repeat(150_000)))
        .bytes();
    let reply = not_hanging(
        "a bomb",
        server.admin("PUT", "/admin/policies/bomb?activate=true", bomb),
    )
    .await;
    assert_eq!(
        (reply.status, reply.error()["code"].as_str()),
        (422, Some("compile_time")),
        "{}",
        reply.body
    );
    // Requests are answered while the compiler is still at it.
    assert_eq!(generation(&server.complete(&body("tiny")).await), 1);
    assert_eq!(server.default_generation().await, 1);
}

#[tokio::test]
async fn of_two_uploads_with_the_same_expectation_one_is_made() {
    let (server, _) = served("").await;
    let put = |threshold: f64| {
        let options = escaped(&format!("{{\"threshold\": {threshold}}}"));
        let path = format!("/admin/policies/r-stitch?expected=1&options={options}");
        let server = &server;
        async move { server.admin("PUT", &path, shipped("r-stitch")).await }
    };
    let (one, other) = not_hanging("two uploads", async { tokio::join!(put(0.3), put(0.4)) }).await;
    let mut statuses = [one.status, other.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 412], "{} {}", one.body, other.body);
    let lost = if one.status == 412 { one } else { other };
    assert_eq!(lost.error()["code"], "expectation_failed");
    assert!(
        lost.body
            .contains("generation 1 was expected to be the newest of \\\"r-stitch\\\", found 2"),
        "{}",
        lost.body
    );
    // The same as a header, and for the traffic.
    let request = server
        .admin_request("POST", "/admin/policies/r-stitch/activate")
        .bearer_auth(KEY);
    let response = request.header("if-match", "\"7\"").send().await.expect("a response");
    assert_eq!(response.status().as_u16(), 412);
    assert_eq!(server.default_generation().await, 1);
}

#[tokio::test]
async fn what_serves_cannot_be_deleted() {
    let (server, expected) = served("").await;
    let reply = server.admin("DELETE", "/admin/policies/r-stitch", "").await;
    assert_eq!(
        (reply.status, reply.error()["code"].as_str()),
        (409, Some("policy_in_use")),
        "{}",
        reply.body
    );
    assert_eq!(answer(&server, "tiny").await, expected);
}

#[tokio::test]
async fn an_upload_that_is_cut_off_leaves_nothing() {
    let (server, expected) = served("").await;
    let bytes = shipped("random");
    let address = server
        .admin_url
        .as_ref()
        .and_then(|url| url.strip_prefix("http://"))
        .expect("an address");
    for length in [0, 1, bytes.len() / 2, bytes.len() - 1] {
        let mut stream = std::net::TcpStream::connect(address).expect("connects");
        let head = format!(
            "PUT /admin/policies/random?activate=true HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {KEY}\r\n\
             content-length: {}\r\n\r\n",
            bytes.len()
        );
        stream.write_all(head.as_bytes()).expect("writes");
        stream.write_all(&bytes[..length]).expect("writes");
    }
    // A good one behind them is numbered as if they had not been.
    let made = server.put("random", "", bytes).await;
    assert_eq!(made, 2);
    assert_eq!(server.default_generation().await, 1);
    assert_eq!(answer(&server, "tiny").await, expected);
}

fn signing(require: bool) -> (SigningKey, PathBuf) {
    let key = SigningKey::from_bytes(&[7; 32]);
    let public: String = key
        .verifying_key()
        .to_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let admin = format!("[admin]\nrequire_signature = {require}\nsigning_keys = {{ ci = \"{public}\" }}");
    (key, deployment_file("plugin = \"r-stitch\"", &admin))
}

fn signed(key: &SigningKey, bytes: &[u8]) -> String {
    let bytes = key.sign(bytes).to_bytes();
    format!(
        "signature={}",
        bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    )
}

#[tokio::test]
async fn only_what_is_signed_is_taken_where_signatures_are_required() {
    let (key, path) = signing(true);
    let server = start(&["--config", path.to_str().expect("UTF-8")]);
    let bytes = shipped("random");
    let put = |query: String, bytes: Vec<u8>| {
        let (server, path) = (&server, format!("/admin/policies/random?{query}"));
        async move { server.admin("PUT", &path, bytes).await }
    };
    let reply = put(String::new(), bytes.clone()).await;
    assert_eq!(
        (reply.status, reply.error()["code"].as_str()),
        (403, Some("unsigned")),
        "{}",
        reply.body
    );
    let stranger = SigningKey::from_bytes(&[8; 32]);
    for (query, bytes) in [
        (signed(&stranger, &bytes), bytes.clone()),
        (signed(&key, b"another component"), bytes.clone()),
        (signed(&key, &bytes), [&bytes[..], b"\0"].concat()),
    ] {
        let reply = put(query, bytes).await;
        assert_eq!(
            (reply.status, reply.error()["code"].as_str()),
            (403, Some("bad_signature")),
            "{}",
            reply.body
        );
        assert!(reply.body.contains("(ci)"), "{}", reply.body);
    }
    let reply = put("signature=00".to_owned(), bytes.clone()).await;
    assert_eq!(reply.status, 400, "{}", reply.body);
    assert!(reply.body.contains("128 hexadecimal digits"), "{}", reply.body);
    let reply = put(signed(&key, &bytes), bytes).await;
    assert_eq!(reply.status, 201, "{}", reply.body);
    let policy = server.admin_ok("GET", "/admin/policies/random", "").await;
    assert_eq!(policy["generations"][0]["signed_by"], "ci");
}

#[tokio::test]
async fn where_none_is_required_a_wrong_signature_is_still_wrong() {
    let (key, path) = signing(false);
    let server = start(&["--config", path.to_str().expect("UTF-8")]);
    let bytes = shipped("random");
    let path = format!("/admin/policies/random?{}", signed(&key, b"another component"));
    assert_eq!(server.admin("PUT", &path, bytes.clone()).await.status, 403);
    assert_eq!(server.admin("PUT", "/admin/policies/random", bytes).await.status, 201);
}

/// A hostile shadow is asked at every step of others' requests.
#[tokio::test]
async fn a_shadow_that_fails_harms_no_request_and_is_taken_out() {
    let (server, expected) = served("").await;
    server
        .put("failing", "", failing_for_the_seed("(unreachable)").bytes())
        .await;
    server
        .admin_ok("POST", "/admin/policies/failing/shadow", r#"{"share": 1}"#)
        .await;
    let mut rounds = 0;
    while !server.admin_ok("GET", "/admin/policies", "").await["shadow"].is_null() {
        let mut streamed = body("tiny");
        streamed["stream"] = true.into();
        let answer = Answer::of_stream(server.events(&streamed).await);
        assert_eq!(not_hanging("a request", answer).await.text, expected);
        rounds += 1;
        assert!(rounds < 10_000, "it is never taken out");
    }
    let info = server.info().await;
    let faults = info["stats"]["models"]
        .as_array()
        .map(|all| all.iter().filter_map(|one| one["policy_faults"].as_u64()).sum::<u64>());
    assert_eq!(
        faults,
        Some(0),
        "a shadow's faults are not those of the policy in force"
    );
}
