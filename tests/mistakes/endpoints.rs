//! Paths: `endpoints.txt`, methods, and bodies that are no JSON.

use std::collections::BTreeSet;

use serde_json::Value;

use super::rows;
use crate::common::{Reply, Server, admin};

async fn ask(server: &Server, method: &str, path: &str, body: impl Into<reqwest::Body>) -> Reply {
    if path.starts_with("/admin") {
        server.admin(method, path, body).await
    } else {
        server.send(method, path, body).await
    }
}

/// Every path with its methods, as both descriptions of the API have them; `{name}` is the policy that is there.
async fn described(server: &Server) -> Vec<(String, BTreeSet<String>)> {
    let clients = server.get("/openapi.json").await.json();
    let of_the_admin = server.admin_ok("GET", "/admin/openapi.json", "").await;
    let paths = [&clients, &of_the_admin].map(|document| document["paths"].as_object().expect("paths").clone());
    let of = |(template, item): (String, Value)| {
        let methods = item.as_object().expect("methods").keys().map(|it| it.to_uppercase());
        (template.replace("{name}", "r-stitch"), methods.collect())
    };
    paths.into_iter().flatten().map(of).collect()
}

#[tokio::test]
async fn paths_say_what_is_wrong_where_and_what_would_be_right() {
    let server = admin::start(&["--log", "warn"]);
    let mut wrong = Vec::new();
    for row in rows(include_str!("endpoints.txt")) {
        let [status, asked, body, parts @ ..] = row.as_slice() else {
            panic!("a row has a status, a path and a body: {row:?}");
        };
        let (method, path) = asked.split_once(' ').expect("a method and a path");
        let reply = ask(&server, method, path, (*body).to_owned()).await;
        let error = reply.error();
        let message = error["message"].as_str().expect("a message");
        if reply.status.to_string() != *status || !parts.iter().all(|part| message.contains(part)) {
            wrong.push(format!(
                "{asked} {body}: expected {status}, {parts:?}\n    found {} {error}",
                reply.status
            ));
        }
    }
    assert!(wrong.is_empty(), "{} mistakes:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn every_path_tells_which_methods_it_takes() {
    let server = admin::start(&["--log", "warn"]);
    let mut asked = 0;
    for (path, takes) in described(&server).await {
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH"]
            .into_iter()
            .filter(|it| !takes.contains(*it))
        {
            let reply = ask(&server, method, &path, "").await;
            let error = reply.error();
            assert_eq!(
                (reply.status, error["code"].as_str()),
                (405, Some("method_not_allowed")),
                "{method} {path}"
            );
            let message = error["message"].as_str().expect("a message");
            let (said, told) = message.split_once("; it takes ").expect(message);
            assert_eq!(said, format!("{path} does not take {method}"));
            let told: BTreeSet<String> = told.split(", ").map(str::to_owned).collect();
            assert_eq!(told, takes, "{path}");
            // For programs: RFC 9110, 15.5.6.
            let header = reply.headers["allow"].to_str().expect("text");
            assert!(
                takes
                    .iter()
                    .all(|it| header.split(',').any(|allowed| allowed.trim() == it)),
                "{path}: {header}"
            );
            asked += 1;
        }
    }
    assert!(asked > 80, "only {asked} requests were refused");
}

/// Every path that takes JSON, with what is none, is no object, or is cut off in the middle of a character.
#[tokio::test]
async fn every_path_that_takes_json_tells_where_a_body_goes_wrong() {
    let server = admin::start(&["--log", "warn"]);
    let bodies: [(&[u8], &str); 4] = [
        (
            b"nonsense",
            "the body is not valid JSON: expected ident at line 1 column 2",
        ),
        (
            b"{\"a\": 1\n,,}",
            "the body is not valid JSON: key must be a string at line 2 column 2",
        ),
        (b"[]", "the body is not valid JSON: expected an object, found an array"),
        (b"{\"a\": \"\xc3\"}", "the body is not UTF-8: byte 7 is wrong"),
    ];
    let clients = ["/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"].map(str::to_owned);
    let changes = ["activate", "canary", "shadow", "rollback"].map(|it| format!("/admin/policies/r-stitch/{it}"));
    for path in clients.iter().chain(&changes) {
        for (body, message) in bodies {
            let reply = ask(&server, "POST", path, body.to_vec()).await;
            assert_eq!(
                (reply.status, reply.error()["message"].as_str()),
                (400, Some(message)),
                "{path}"
            );
        }
    }
}

/// A path that is added gets its rows, unless there is nothing to get wrong: it takes neither body, query nor name.
#[tokio::test]
async fn no_path_that_takes_something_is_left_out() {
    const TAKE_NOTHING: &str = "/ /app.js /style.css /openapi.json /health /health/live /health/ready /info /metrics /v1/models \
        /admin/policies /admin/openapi.json /admin/generations /admin/subservers /admin/drain";
    let server = admin::start(&["--log", "warn"]);
    let table: BTreeSet<String> = rows(include_str!("endpoints.txt"))
        .map(|row| {
            row[1]
                .split(['?', ' '])
                .take(2)
                .collect::<Vec<_>>()
                .join(" ")
                .replace("/nope", "/r-stitch")
        })
        .collect();
    for (path, methods) in described(&server).await {
        if TAKE_NOTHING.split(' ').any(|it| it == path) {
            continue;
        }
        for method in methods {
            assert!(
                table.contains(&format!("{method} {path}")),
                "no wrong input for {method} {path}"
            );
        }
    }
}
