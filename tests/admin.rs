//! The admin API as its users meet it: keys, errors, the description, the command line, the audit log, and a state that
//! survives the end of the process.

use std::path::Path;
use std::process::{Command, Output};

use crate::common::admin::{KEY, generation, key_file, shipped, start, wait_for};
use crate::common::{Server, not_hanging, problems, run_to_end};
use serde_json::{Value, json};

/// Every route with a body that is not JSON, and whether the route reads JSON.
const ROUTES: [(&str, &str, bool); 12] = [
    ("GET", "/admin/policies", false),
    ("GET", "/admin/policies/r-stitch", false),
    ("PUT", "/admin/policies/new", false),
    ("DELETE", "/admin/policies/other", false),
    ("POST", "/admin/policies/r-stitch/activate", true),
    ("POST", "/admin/policies/r-stitch/canary", true),
    ("POST", "/admin/policies/r-stitch/shadow", true),
    ("POST", "/admin/policies/r-stitch/rollback", true),
    ("GET", "/admin/generations", false),
    ("GET", "/admin/subservers", false),
    ("GET", "/admin/openapi.json", false),
    ("POST", "/admin/drain", false),
];

fn body() -> Value {
    json!({ "model": "tiny", "prompt": problems()[0].prompt, "max_tokens": 64, "temperature": 0, "seed": 1 })
}

#[tokio::test]
async fn every_route_needs_the_key_and_says_what_is_wrong() {
    let server = start(&[]);
    for (method, path, reads_json) in ROUTES {
        for key in [None, Some(""), Some("a-key-of-the-tests-012345678X"), Some("a-key")] {
            let mut request = server.admin_request(method, path);
            if let Some(key) = key {
                request = request.bearer_auth(key);
            }
            let response = request.send().await.expect("a response");
            assert_eq!(response.status().as_u16(), 401, "{method} {path} with key {key:?}");
            let error: Value = response.json().await.expect("JSON");
            assert_eq!(error["error"]["code"], "invalid_api_key", "{method} {path}");
        }
        let reply = server.admin("PATCH", path, "").await;
        assert_eq!(
            (reply.status, reply.error()["code"].as_str()),
            (405, Some("method_not_allowed")),
            "{path}"
        );
        if reads_json {
            for (bad, part) in [
                ("{", "the body is not valid JSON: EOF"),
                ("[]", "expected an object, found an array"),
                (
                    r#"{"generation": "1"}"#,
                    "generation must be a whole number of at least 0, found a string",
                ),
                (r#"{"speed": 1}"#, "unknown field `speed`"),
            ] {
                let reply = server.admin(method, path, bad).await;
                assert_eq!(reply.status, 400, "{method} {path} {bad}: {}", reply.body);
                assert!(reply.body.contains(part), "{method} {path} {bad}: {}", reply.body);
            }
        }
    }
    assert_eq!(server.admin("GET", "/admin/nothing", "").await.status, 404);
    for (method, path, status, code) in [
        ("GET", "/admin/policies/nobody", 404, "policy_not_found"),
        ("DELETE", "/admin/policies/nobody", 404, "policy_not_found"),
        ("POST", "/admin/policies/nobody/activate", 404, "policy_not_found"),
        ("POST", "/admin/policies/r-stitch/rollback", 409, "nothing_before"),
        ("PUT", "/admin/policies/a@b", 400, "policy_name"),
        ("PUT", "/admin/policies/a?activate=perhaps", 400, "invalid_request"),
        ("PUT", "/admin/policies/a?sha256=12", 400, "invalid_request"),
        ("PUT", "/admin/policies/a?speed=1", 400, "invalid_request"),
    ] {
        let reply = server.admin(method, path, "").await;
        assert_eq!(
            (reply.status, reply.error()["code"].as_str()),
            (status, Some(code)),
            "{method} {path}: {}",
            reply.body
        );
    }
    let reply = server
        .admin("POST", "/admin/policies/r-stitch/canary", r#"{"share": 2}"#)
        .await;
    assert_eq!(
        (reply.status, reply.error()["code"].as_str()),
        (400, Some("share")),
        "{}",
        reply.body
    );
    // The admin key opens nothing on the clients' side, and the other way round there is nothing of the admin's.
    assert_eq!(server.get("/admin/policies").await.status, 404);
}

#[tokio::test]
async fn the_description_names_every_route() {
    let server = start(&[]);
    let document = server.admin_ok("GET", "/admin/openapi.json", "").await;
    let paths = document["paths"].as_object().expect("paths");
    let mut described = 0;
    for methods in paths.values() {
        described += methods.as_object().expect("methods").len();
    }
    assert_eq!(described, ROUTES.len());
    for (method, path, _) in ROUTES {
        let path = ["r-stitch", "new", "other"]
            .iter()
            .fold(path.to_owned(), |path, name| path.replace(name, "{name}"));
        assert!(paths[&path][method.to_lowercase()].is_object(), "{method} {path}");
    }
}

#[test]
fn an_admin_api_that_others_could_use_is_not_offered() {
    for (args, part) in [
        (&["--admin-listen", "127.0.0.1:0"][..], "the admin API needs a key"),
        (
            &["--admin-listen", "0.0.0.0:0", "--admin-without-key"],
            "can be reached from other machines",
        ),
        (&["--admin-listen", "127.0.0.1"], "an address is HOST:PORT"),
        (&["--watch"], "--watch needs a policy's file"),
    ] {
        let args = [&["--listen", "127.0.0.1:0"], args].concat();
        let (code, stderr) = run_to_end(&args);
        assert_eq!(code, 2, "{args:?}: {stderr}");
        assert!(stderr.contains(part), "{args:?}: {stderr}");
    }
}

/// Without a key, whoever can connect from this machine may: so can web pages, and those may not.
#[tokio::test]
async fn without_a_key_web_pages_are_kept_out() {
    let server = Server::start(&["--admin-listen", "127.0.0.1:0", "--admin-without-key"]);
    let get = || server.admin_request("GET", "/admin/policies");
    assert_eq!(get().send().await.expect("a response").status().as_u16(), 200);
    for (name, value) in [
        ("origin", "http://evil.example"),
        ("origin", "http://127.0.0.1:1"),
        ("origin", "null"),
        ("host", "evil.example"),
        ("host", "evil.example:30001"),
    ] {
        let response = get().header(name, value).send().await.expect("a response");
        assert_eq!(response.status().as_u16(), 403, "{name}: {value}");
    }
    // The listener's own page, which anybody may load, asks at the address it came from.
    let own = server.admin_url.as_deref().expect("the admin API is offered");
    let response = get().header("origin", own).send().await.expect("a response");
    assert_eq!(response.status().as_u16(), 200);
    let page = server.admin_request("GET", "/").header("origin", "http://evil.example");
    let page = page.send().await.expect("a response");
    assert!(page.headers().contains_key("content-security-policy") && page.status().is_success());
}

fn cli(server: &Server, args: &[&str]) -> (i32, String, String) {
    let url = server.admin_url.as_deref().expect("the admin API is offered");
    let command = Command::new(env!("CARGO_BIN_EXE_tokenrouter-host"))
        .arg("admin")
        .args(args)
        .args(["--url", url])
        .env("TOKENROUTER_ADMIN_KEY", KEY)
        .output();
    let Output { status, stdout, stderr } = command.expect("the binary starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.code().expect("it ends by itself"), text(stdout), text(stderr))
}

#[tokio::test]
async fn the_command_line_does_all_of_it() {
    let server = start(&["--plugin", "r-stitch"]);
    let random = format!("{}/../../plugins/dist/random.wasm", env!("CARGO_MANIFEST_DIR"));
    let says = |args: &[&str], parts: &[&str]| {
        let (code, stdout, stderr) = cli(&server, args);
        assert_eq!(code, 0, "{args:?}: {stderr}");
        for part in parts {
            assert!(stdout.contains(part), "{args:?}: {part:?} is not in {stdout}");
        }
    };
    says(
        &["policy", "put", &random, "--option", "share=0.4"],
        &["random, generation 2, compiled in", "default: r-stitch, generation 1"],
    );
    says(&["policy", "list"], &["r-stitch", "default", r#"{"share":0.4}"#]);
    says(
        &["policy", "shadow", "random", "--share", "1"],
        &["random, generation 2"],
    );
    assert_eq!(server.complete(&body()).await.status, 200);
    says(
        &["policy", "status"],
        &[
            "shadow   random, generation 2, share 1",
            "would have gone elsewhere at",
            "does not survive a restart",
        ],
    );
    says(&["policy", "shadow", "random", "--share", "0"], &[]);
    says(
        &["policy", "canary", "random", "--share", "0.5", "--expect", "1"],
        &["random, generation 2"],
    );
    says(&["policy", "activate", "random"], &["default: random, generation 2"]);
    says(
        &["policy", "activate", "random", "--option", "share=0.9"],
        &["default: random, generation 3"],
    );
    says(
        &["policy", "rollback", "random"],
        &["random, generation 2", "default: random, generation 2"],
    );
    says(
        &["policy", "activate", "r-stitch"],
        &["default: r-stitch, generation 1"],
    );
    says(&["policy", "delete", "random"], &["default: r-stitch, generation 1"]);
    says(&["generations"], &["r-stitch", "default"]);
    says(&["subservers"], &["small", "large"]);
    let (code, stdout, _) = cli(&server, &["policy", "list", "--json"]);
    let listed: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!((code, &listed["default"]["policy"]), (0, &json!("r-stitch")));

    for (args, code, part) in [
        (
            &["policy", "activate", "nobody"][..],
            1,
            "there is no policy \"nobody\"; there are r-stitch",
        ),
        (&["policy", "put", "/nowhere.wasm"], 2, "cannot read /nowhere.wasm"),
        (&["policy", "activate", "r-stitch", "--expect", "9"], 1, "412"),
        (
            &["policy", "list", "--key-file", "/nowhere.key"],
            2,
            "cannot read the key file /nowhere.key",
        ),
    ] {
        let (found, _, stderr) = cli(&server, args);
        assert_eq!(found, code, "{args:?}: {stderr}");
        assert!(stderr.contains(part), "{args:?}: {stderr}");
    }
    says(&["drain"], &["no more requests are taken"]);
    assert_eq!(server.complete(&body()).await.status, 503);
}

fn state_dir() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn with_state(folder: &Path) -> Server {
    start(&["--plugin", "r-stitch", "--state-dir", folder.to_str().expect("UTF-8")])
}

fn audit(folder: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join("audit.jsonl")).expect("an audit log");
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

#[tokio::test]
async fn uploads_and_what_serves_survive_a_restart_and_everything_is_audited() {
    let folder = state_dir();
    let server = with_state(folder.path());
    let options = crate::common::admin::escaped(r#"{"share": 0.25}"#);
    let made = server
        .put("random", &format!("activate=true&options={options}"), shipped("random"))
        .await;
    server
        .admin_ok("POST", "/admin/policies/r-stitch/shadow", r#"{"share": 0.5}"#)
        .await;
    assert_eq!(
        server.admin("PUT", "/admin/policies/broken", "no policy").await.status,
        422
    );
    let before = server.admin_ok("GET", "/admin/policies", "").await;
    let expected = server.complete(&body()).await;
    server.signal("KILL");
    drop(server);

    let server = with_state(folder.path());
    let mut after = server.admin_ok("GET", "/admin/policies", "").await;
    assert_eq!(after["persists"], true);
    // The comparison is not part of what survives.
    after["shadow"]["comparison"] = before["shadow"]["comparison"].clone();
    assert_eq!(after, before);
    let reply = server.complete(&body()).await;
    assert_eq!(
        (generation(&reply), reply.json()["choices"].clone()),
        (made, expected.json()["choices"].clone())
    );
    server.admin_ok("POST", "/admin/policies/random/rollback", "").await;

    let entries = audit(folder.path());
    let short: Vec<(&str, &str, bool)> = entries
        .iter()
        .map(|entry| {
            (
                entry["action"].as_str().unwrap_or(""),
                entry["policy"].as_str().unwrap_or(""),
                entry["result"] == "ok",
            )
        })
        .collect();
    assert_eq!(
        short,
        [
            ("upload and activate", "random", true),
            ("shadow", "r-stitch", true),
            ("upload", "broken", false),
            ("roll back", "random", true)
        ]
    );
    assert!(
        entries
            .iter()
            .all(|entry| entry["who"] == "tester" && entry["time_ms"].is_u64()),
        "{entries:?}"
    );
    assert_eq!(entries[0]["sha256"].as_str().map(str::len), Some(64));
    assert!(
        !std::fs::read_to_string(folder.path().join("audit.jsonl"))
            .unwrap_or_default()
            .contains(KEY)
    );
}

#[tokio::test]
async fn a_component_that_was_tampered_with_is_refused_and_the_set_before_serves() {
    let folder = state_dir();
    let server = with_state(folder.path());
    server.put("r-stitch", "activate=true", shipped("r-stitch")).await;
    server.put("random", "activate=true", shipped("random")).await;
    assert_eq!(server.default_generation().await, 3);
    server.signal("KILL");
    drop(server);
    let digest = tokenrouter_policy::Digest::of(&shipped("random"));
    let path = folder.path().join("components").join(format!("{digest}.wasm"));
    let mut bytes = std::fs::read(&path).expect("the component");
    bytes[1000] ^= 1;
    std::fs::write(&path, bytes).expect("writes");
    let server = with_state(folder.path());
    assert_eq!(server.default_generation().await, 2);
    assert_eq!(generation(&server.complete(&body()).await), 2);
}

/// The process ends somewhere in the middle of uploads and activations, again and again.
#[tokio::test]
async fn kill_9_in_the_middle_of_changes_leaves_a_host_that_serves_the_last_good_set() {
    let folder = state_dir();
    let mut acknowledged = 1;
    for round in 0..6u64 {
        let server = with_state(folder.path());
        let found = not_hanging("a start", server.default_generation()).await;
        // A change that was made but not acknowledged may be there; one that was acknowledged must be.
        assert!(
            found >= acknowledged,
            "generation {found} after {acknowledged} was acknowledged"
        );
        assert_eq!(generation(&server.complete(&body()).await), found);
        let killer = async {
            tokio::time::sleep(std::time::Duration::from_millis(30 + 37 * round)).await;
            server.signal("KILL");
        };
        let changes = async {
            let mut last = found;
            for change in 0.. {
                let (name, option) = [("random", "share"), ("r-stitch", "threshold")][change % 2];
                let options = crate::common::admin::escaped(&format!("{{\"{option}\": 0.{}}}", 1 + change % 7));
                let path = format!("/admin/policies/{name}?activate=true&options={options}");
                let request = server.admin_request("PUT", &path).bearer_auth(KEY).body(shipped(name));
                let Ok(response) = request.send().await else { break };
                let Ok(reply) = response.json::<Value>().await else {
                    break;
                };
                last = reply["generation"].as_u64().unwrap_or(last);
            }
            last
        };
        let ((), last) = not_hanging("changes", async { tokio::join!(killer, changes) }).await;
        acknowledged = last;
    }
}

#[tokio::test]
async fn one_host_at_a_time_uses_a_state_directory() {
    let folder = state_dir();
    let _server = with_state(folder.path());
    let path = folder.path().to_str().expect("UTF-8");
    let (_, stderr) = run_to_end(&["--listen", "127.0.0.1:0", "--state-dir", path]);
    assert!(stderr.contains("is in use by another process"), "{stderr}");
}

#[tokio::test]
async fn keys_come_from_the_environment_too() {
    let key = key_file();
    let server = start(&[]);
    let url = server.admin_url.as_deref().expect("the admin API is offered");
    let list = |configure: &dyn Fn(&mut Command)| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tokenrouter-host"));
        command
            .args(["admin", "policy", "list", "--url", url])
            .env_remove("TOKENROUTER_ADMIN_KEY");
        configure(&mut command);
        command.output().expect("the binary starts").status.code()
    };
    assert_eq!(
        list(&|command| _ = command.env("TOKENROUTER_ADMIN_KEY", KEY).arg("--json")),
        Some(0)
    );
    assert_eq!(list(&|command| _ = command.arg("--key-file").arg(&key)), Some(0));
    assert_eq!(list(&|_| ()), Some(1));
    let seen = wait_for(&server, "/admin/subservers", "ready", |value| value["ready"] == true).await;
    assert!(seen["requests_running"].is_u64());
}
