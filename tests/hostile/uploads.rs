//! Uploads that are refused.

use std::io::Write as _;

use tokenrouter_policy::Digest;

use super::{FOREVER, answer, body, served};
use crate::common::admin::{KEY, escaped, generation, shipped, start};
use crate::common::component::Policy;
use crate::common::{deployment_file, file, not_hanging};

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
