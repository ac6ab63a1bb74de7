//! The author's command line, as it is run from a shell: a policy is written, built, looked into, checked and measured, and
//! what a server recorded is replayed.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::component::Policy;
use crate::common::{Server, file, not_hanging, problems};
use serde_json::{Value, json};

fn run(args: &[&str]) -> Output {
    let binary = env!("CARGO_BIN_EXE_tokenrouter-host");
    Command::new(binary)
        .args(args)
        .output()
        .unwrap_or_else(|error| panic!("cannot run {binary}: {error}"))
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a command prints that succeeds.
fn stdout(args: &[&str]) -> String {
    let output = run(args);
    assert!(
        output.status.success(),
        "{args:?}: {}: {}",
        output.status,
        stderr(&output)
    );
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn json(args: &[&str]) -> Value {
    let text = stdout(&[args, &["--json"]].concat());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{args:?}: {error} in {text}"))
}

/// That a command ends with this code and says all of this.
fn refuses(code: i32, args: &[&str], parts: &[&str]) {
    let output = run(args);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    for part in parts {
        assert!(said.contains(part), "{args:?}: {part:?} is not in {said:?}");
    }
    assert!(!said.contains("panicked"), "{args:?}: {said}");
}

fn text(path: &Path) -> &str {
    path.to_str().expect("paths of tests are UTF-8")
}

/// A new folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
    drop(std::fs::remove_dir_all(&path));
    std::fs::create_dir_all(&path).expect("a folder can be made");
    path
}

/// A policy's crate is written, compiled and served from, by these commands alone. Where no compiler for WebAssembly is, the
/// command must say which to get.
#[test]
fn a_new_policy_builds_and_keeps_the_contract() {
    let parent = folder("new");
    let said = stdout(&["policy", "new", "my-policy", "--dir", text(&parent)]);
    let crate_folder = parent.join("my-policy");
    assert!(said.contains("tokenrouter-host policy build"), "{said}");
    refuses(
        2,
        &["policy", "new", "my-policy", "--dir", text(&parent)],
        &["exists already"],
    );

    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let build = ["policy", "build", text(&crate_folder), "--cache", text(&cache)];
    let output = run(&build);
    let wasm = crate_folder.join("my-policy.wasm");
    if !output.status.success() {
        for part in [
            "rustup target add wasm32-unknown-unknown",
            "apt-get install",
            "rustc-web rust-web-src",
        ] {
            assert!(stderr(&output).contains(part), "{}", stderr(&output));
        }
        assert!(!wasm.exists());
        return;
    }
    let inspected = json(&["policy", "inspect", text(&wasm)]);
    assert_eq!(inspected["name"], "my-policy");
    assert_eq!(
        inspected["imports"].as_array().expect("a list").last(),
        Some(&json!("log"))
    );
    assert_eq!(inspected["plan"]["signals"][0]["signals"], json!(["max-probability"]));
    let checked = json(&["policy", "check", text(&wasm)]);
    assert_eq!(checked["passed"], true, "{checked}");
    std::fs::remove_dir_all(&parent).expect("the folder can be removed");
}

#[test]
fn what_is_no_policys_crate_is_told_what_is_missing() {
    let empty = folder("empty");
    refuses(2, &["policy", "build", text(&empty)], &["cannot read", "Cargo.toml"]);
    for (manifest, part) in [
        ("[workspace]\n", "no package.name"),
        ("[package]\nname = \"a\"\n", "crate-type = [\"cdylib\"]"),
        ("no TOML", "Cargo.toml"),
    ] {
        std::fs::write(empty.join("Cargo.toml"), manifest).expect("written");
        refuses(2, &["policy", "build", text(&empty)], &[part]);
    }
    refuses(
        2,
        &["policy", "new", "My_Policy", "--dir", text(&empty)],
        &["\"My_Policy\" cannot name a policy"],
    );
}

#[test]
fn inspect_tells_what_a_policy_is_and_what_it_asks_for() {
    let shown = json(&[
        "policy",
        "inspect",
        "r-stitch",
        "--option",
        "unit=nats",
        "--option",
        "threshold=0.2",
    ]);
    assert_eq!(shown["contract"], "tokenrouter:policy@0.1.0");
    assert_eq!(shown["sha256"].as_str().map(str::len), Some(64));
    assert_eq!(shown["plan"]["entry"], "small");
    assert_eq!(
        shown["plan"]["signals"][1],
        json!({ "model": "large", "columns": 1, "signals": ["entropy"] })
    );
    let options = shown["options"].as_array().expect("a list");
    let threshold = options
        .iter()
        .find(|option| option["name"] == "threshold")
        .expect("r-stitch has one");
    assert_eq!(
        (&threshold["per_request"], &threshold["given"]),
        (&json!(true), &json!(0.2))
    );

    let three = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/tiny-three.toml");
    let shown = stdout(&["policy", "inspect", "random", "--config", text(&three)]);
    for part in [
        "exports    describe",
        "share = 0.5, also per request",
        "at small",
        "uniform(0) (1 columns)",
        "at middle",
    ] {
        assert!(shown.contains(part), "{part:?} is not in {shown}");
    }
    // A policy that refuses its options can still be looked into.
    let refused = json(&["policy", "inspect", "random", "--option", "share=2"]);
    assert!(
        refused["refused"]
            .as_str()
            .is_some_and(|why| why.contains("between 0 and 1")),
        "{refused}"
    );
    refuses(
        2,
        &["policy", "inspect", "no-such.wasm"],
        &["no-such.wasm", "built-in ones"],
    );
}

#[test]
fn check_passes_the_binarys_policies_and_fails_one_that_is_not_pure() {
    for policy in ["r-stitch", "random"] {
        let checked = json(&["policy", "check", policy, "--rounds", "1", "--seed", "7"]);
        assert_eq!(
            (&checked["passed"], &checked["seed"]),
            (&json!(true), &json!(7)),
            "{checked}"
        );
        let checks = checked["checks"].as_array().expect("a list");
        assert!(checks.len() >= 11, "{checked}");
    }
    let counts = "(global.set $calls (i32.add (global.get $calls) (i32.const 1)))
        (i32.store (local.get $candidates) (i32.and (global.get $calls) (i32.const 1)))";
    let impure = Policy::new()
        .with("declarations", "(global $calls (mut i32) (i32.const 0))")
        .with("route", counts);
    let path = file("impure.wasm", impure.bytes());
    let output = run(&["policy", "check", text(&path)]);
    assert_eq!(output.status.code(), Some(1));
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        table
            .lines()
            .any(|line| line.contains("FAIL") && line.contains("purity")),
        "{table}"
    );
    assert!(stderr(&output).contains("fails"), "{}", stderr(&output));
}

#[test]
fn bench_measures_every_size() {
    let figures = json(&["policy", "bench", "random", "--samples", "10"]);
    let rows: Vec<_> = figures["route"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| it["rows"].clone())
        .collect();
    assert_eq!(rows, [1, 8, 64]);
    for figure in figures["route"]
        .as_array()
        .expect("a list")
        .iter()
        .chain([&figures["fresh_instance"]])
    {
        let median = figure["median_us"].as_f64().expect("a number");
        assert!(
            median > 0.0 && median <= figure["p95_us"].as_f64().expect("a number"),
            "{figures}"
        );
    }
}

/// Policies that read a head are tried without having one.
#[test]
fn a_policy_with_a_head_is_tried_in_a_deployment_that_is_taken_to_have_it() {
    let three = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/tiny-three.toml");
    for policy in ["r2r", "citer", "co-llm"] {
        let subject = [policy, "--config", text(&three)];
        refuses(2, &[&["policy", "bench"], &subject[..]].concat(), &[policy, "head"]);
        let with_head = [&subject[..], &["--head", policy]].concat();
        let figures = json(&[&["policy", "bench", "--samples", "10"], &with_head[..]].concat());
        assert_eq!(figures["policy"], policy);
        let checked = json(&[&["policy", "check", "--rounds", "1"], &with_head[..]].concat());
        assert_eq!(checked["passed"], true, "{checked}");
    }
    let shown = json(&["policy", "inspect", "r2r", "--head", "r2r=small"]);
    assert_eq!(
        shown["plan"]["signals"][0]["signals"],
        json!(["head-score(r2r)"]),
        "{shown}"
    );
    refuses(
        2,
        &["policy", "inspect", "r2r", "--head", "r2r=huge"],
        &["r2r", "huge", "small, large"],
    );
}

/// What a server records is what its clients were told, and the same policy decides it all again alike. Another policy is told
/// as far as the trace goes.
#[tokio::test]
async fn a_recorded_run_is_replayed_decision_by_decision() {
    let trace = file("trace.jsonl", "");
    let mut server = Server::start(&["--record", text(&trace), "--record-texts"]);
    let (mut tokens, mut large, mut handoffs) = (0, 0, 0);
    for (index, problem) in problems().iter().take(40).enumerate() {
        let body =
            json!({ "model": "tiny", "prompt": problem.prompt, "max_tokens": 64, "temperature": 0.3, "seed": index });
        let usage = server.complete(&body).await.json()["usage"].take();
        tokens += usage["completion_tokens"].as_u64().expect("a count");
        large += usage["tokenrouter"]["tokens_by_model"]["large"]
            .as_u64()
            .expect("a count");
        handoffs += usage["tokenrouter"]["handoffs"].as_u64().expect("a count");
    }
    let alone = json!({ "model": "tiny/small", "prompt": "1+1=", "max_tokens": 4 });
    assert_eq!(server.complete(&alone).await.status, 200);
    server.signal("TERM");
    assert!(not_hanging("the end", server.ended()).await.success());

    let lines = std::fs::read_to_string(&trace).expect("the trace");
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let end = lines.last().expect("lines");
    assert_eq!(
        (&end["type"], &end["reason"], &end["dropped"]),
        (&json!("end"), &json!("stopped"), &json!(0))
    );
    assert_eq!(end["requests"], 41);

    let options = [
        "--option",
        "unit=nats",
        "--option",
        "threshold=0.2",
        "--trace",
        text(&trace),
    ];
    let same = json(&[&["policy", "replay", "r-stitch"], &options[..]].concat());
    assert_eq!(
        (&same["requests"], &same["requests_unrouted"]),
        (&json!(40), &json!(1)),
        "{same}"
    );
    for steps in ["steps_routed", "steps_exact", "steps_alike"] {
        assert_eq!(same[steps], same["steps_recorded"], "{steps}: {same}");
    }
    assert_eq!(
        (&same["positions_missing"], &same["lines_missing"]),
        (&json!(0), &json!(0)),
        "{same}"
    );
    assert!(large > 0 && handoffs > 0, "the trace has handoffs");
    for side in ["recorded", "replayed"] {
        let share = same[side]["share"][1].as_f64().expect("a number");
        assert!((share - large as f64 / tokens as f64).abs() < 1e-9, "{side}: {same}");
        let mean = same[side]["handoffs_per_answer"].as_f64().expect("a number");
        assert!((mean - handoffs as f64 / 40.0).abs() < 1e-9, "{side}: {same}");
    }

    let never = json(&[
        "policy",
        "replay",
        "random",
        "--option",
        "share=0",
        "--trace",
        text(&trace),
    ]);
    assert_eq!(never["replayed"]["handoffs_per_answer"], 0.0, "{never}");
    // It stays where r-stitch went, so it needs rows that were not recorded, and says so.
    let exact = never["steps_exact"].as_u64().expect("a count");
    assert!(
        exact > 0 && exact < never["steps_recorded"].as_u64().expect("a count"),
        "{never}"
    );
    assert_eq!(never["replayed"]["share"][0], 1.0, "{never}");
    let always = json(&[
        "policy",
        "replay",
        "random",
        "--option",
        "share=1",
        "--trace",
        text(&trace),
    ]);
    assert!(always["positions_missing"].as_u64() > Some(0), "{always}");
    assert!(always["replayed"]["share"][1].as_f64() > Some(0.95), "{always}");
}

#[tokio::test]
async fn a_full_trace_ends_and_the_server_goes_on() {
    let trace = file("full.jsonl", "");
    let server = Server::start(&["--record", text(&trace), "--record-max-mb", "1"]);
    let prompts: Vec<String> = problems()
        .iter()
        .take(32)
        .map(|problem| problem.prompt.clone())
        .collect();
    let body = json!({ "model": "tiny", "prompt": prompts, "max_tokens": 64, "temperature": 0 });
    // Some 1,300 steps each time, of some 300 bytes a line.
    for _ in 0..8 {
        assert_eq!(server.complete(&body).await.status, 200);
    }
    let is_full = || {
        let text = std::fs::read_to_string(&trace).expect("the trace");
        text.lines()
            .last()
            .is_some_and(|line| line.contains("\"end\"") && line.contains("\"full\""))
    };
    not_hanging("the end of the trace", async {
        while !is_full() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
    let bytes = std::fs::metadata(&trace).expect("the trace").len();
    assert!((1_000_000..1_100_000).contains(&bytes), "{bytes}");
    assert_eq!(server.complete(&body).await.status, 200);
}

#[test]
fn what_is_no_trace_is_told_by_its_line() {
    for (content, part) in [
        ("", "the file is empty"),
        ("{\"type\":\"end\"}\n", ":1: "),
        ("hello\n", ":1: "),
        (
            "{\"type\":\"header\",\"format\":9,\"host\":\"9\",\"deployment\":\"d\",\"models\":[],\"standard\":[]}\n",
            "trace format 9, this host reads 1",
        ),
    ] {
        let path = file("bad.jsonl", content);
        refuses(2, &["policy", "replay", "random", "--trace", text(&path)], &[part]);
    }
    refuses(
        2,
        &["policy", "replay", "random", "--trace", "no-such.jsonl"],
        &["cannot read the trace no-such.jsonl"],
    );
}

/// On the problems that the models were trained for.
#[test]
fn calibrate_finds_the_threshold_of_a_share() {
    let lines = problems().into_iter().take(60).map(|problem| {
        format!(
            "{}\n",
            json!({ "prompt": problem.prompt, "answer": format!("A{}", problem.answer) })
        )
    });
    let prompts = file("prompts.jsonl", lines.collect::<String>());
    let prompts = ["--prompts", text(&prompts), "--max-tokens", "64"];
    let random = json(
        &[
            &["calibrate", "--policy", "random", "--target-share", "0.3"],
            &prompts[..],
        ]
        .concat(),
    );
    assert_eq!(
        (&random["parameter"], &random["reached"]),
        (&json!("share"), &json!(true)),
        "{random}"
    );
    let value = random["value"].as_f64().expect("a number");
    // One step in so many is handed over, and every step writes one token.
    assert!((value - 0.3).abs() < 0.1, "{random}");
    let curve = random["curve"].as_array().expect("a list");
    let first = &curve[0];
    assert_eq!(
        (&first["value"], &first["share"], &first["handoffs_per_answer"]),
        (&json!(0.0), &json!(0.0), &json!(0.0))
    );
    let last = curve.last().expect("two ends at least");
    assert_eq!((&last["value"], &last["share"]), (&json!(1.0), &json!(1.0)), "{random}");
    let right = |point: &Value| point["right"].as_f64().expect("the prompts have answers");
    assert!(
        right(last) > right(first),
        "the large model is the better one: {random}"
    );

    let args = [
        "calibrate",
        "--policy",
        "r-stitch",
        "--target-share",
        "1",
        "--range",
        "0.5,2",
        "--option",
        "unit=nats",
    ];
    refuses(
        1,
        &[&args, &prompts[..]].concat(),
        &["threshold = 0.5 is nearest", "instead of 100.00 %"],
    );
    let args = [
        "calibrate",
        "--policy",
        "r-stitch",
        "--target-share",
        "0.1",
        "--parameter",
        "unit",
    ];
    refuses(2, &[&args, &prompts[..]].concat(), &["--parameter unit", "threshold"]);
}
