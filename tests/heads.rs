//! Heads from the command line to the answer: made, looked at, named in a deployment, and asked by a policy at every step.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::component::{Plan, Policy};
use crate::common::{Server, deployment_file, file, not_hanging, problems, run_to_end};
use futures_util::future::join_all;
use serde_json::{Value, json};

/// The name under which the hand-written policy asks for a head.
const HEAD: &str = "limit";

/// The contract's case of `head-score`.
const HEAD_SCORE: u8 = 6;

/// At the small model: over to the large one where the score is at least 1/2. The large one hands back after one token.
const ROUTE: &str = "
    (local $i i32)
    (loop $next
      (if (i32.lt_u (local.get $i) (local.get $rows))
        (then
          (i32.store (i32.add (local.get $candidates) (i32.shl (local.get $i) (i32.const 2)))
            (if (result i32) (local.get $at)
              (then (i32.const 0))
              (else (f32.ge (f32.load (i32.add (local.get 3) (i32.shl (local.get $i) (i32.const 2)))) (f32.const 0.5)))))
          (local.set $i (i32.add (local.get $i) (i32.const 1)))
          (br $next))))";

/// The small model's candidate is discarded, the large one's kept.
const SEND: &str = "(local.set $candidate (i32.eqz (local.get $at)))";

fn policy() -> PathBuf {
    let plan = Plan {
        signals: vec![vec![(HEAD_SCORE, 0)], Vec::new()],
        ..Plan::default()
    };
    file(
        "policy.wasm",
        Policy::new()
            .plan(&plan)
            .with("route", ROUTE)
            .with("send", SEND)
            .bytes(),
    )
}

fn text(path: &Path) -> &str {
    path.to_str().expect("paths of tests are UTF-8")
}

/// Runs a command that must succeed: its standard output.
fn run(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_tokenrouter-host"))
        .args(args)
        .output()
        .expect("it starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {stderr}");
    String::from_utf8(output.stdout).expect("output is UTF-8")
}

/// A head with random weights for a model of the built-in deployment.
fn random(kind: &str, model: &str) -> PathBuf {
    let out = file("head.safetensors", "");
    run(&[
        "heads",
        "random",
        "--kind",
        kind,
        "--model",
        model,
        "--seed",
        "3",
        "--out",
        text(&out),
    ]);
    out
}

fn section(name: &str, model: &str, file: &Path) -> String {
    format!(
        "[[heads]]\nname = \"{name}\"\nmodel = \"{model}\"\nfile = {:?}\n",
        text(file)
    )
}

fn deployment(heads: &str) -> PathBuf {
    deployment_file(&format!("plugin = {:?}", text(&policy())), heads)
}

fn fixture(name: &str) -> String {
    format!("{}/../model/tests/fixtures/heads/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_checkpoint_becomes_a_file_that_says_what_it_is() {
    let out = file("r2r.safetensors", "");
    let shown = run(&[
        "heads",
        "convert",
        &fixture("r2r.pt"),
        "--kind",
        "r2r",
        "--out",
        text(&out),
    ]);
    for part in [
        "kind        r2r",
        "classifier, blocks 16 24 16 x4, one output",
        "hidden state (12), embedding of the candidate (12), 100 largest logits",
        "example/small, hidden size 12",
        "0.40596, as it came with the weights; the policy's own counts",
        "trained     yes",
    ] {
        assert!(shown.contains(part), "{part:?} is not in:\n{shown}");
    }
    assert_eq!(run(&["heads", "inspect", text(&out)]), shown);
    let json: Value = serde_json::from_str(&run(&["heads", "inspect", "--json", text(&out)])).expect("JSON");
    assert_eq!(json["header"]["threshold"], 0.40596);
    assert_eq!(json["header"]["network"]["dims"], json!([16, 24, 16]));
    assert_eq!(json["sha256"].as_str().map(str::len), Some(64));
    let elements = |tensor: &Value| -> u64 {
        let shape = tensor["shape"].as_array().expect("a shape");
        shape.iter().map(|size| size.as_u64().expect("a size")).product()
    };
    let tensors = json["tensors"].as_array().expect("tensors");
    assert_eq!(json["parameters"], tensors.iter().map(elements).sum::<u64>());
}

#[test]
fn random_heads_are_a_function_of_the_seed_and_say_that_they_are_not_trained() {
    let out = file("head.safetensors", "");
    let bytes = |seed: &str| {
        let args = [
            "heads",
            "random",
            "--kind",
            "r2r",
            "--model",
            "small",
            "--seed",
            seed,
            "--out",
            text(&out),
        ];
        let shown = run(&args);
        assert!(shown.contains("trained     NO"), "{shown}");
        std::fs::read(&out).expect("it was written")
    };
    let first = bytes("1");
    assert!(bytes("2") != first);
    assert!(bytes("1") == first);
}

#[test]
fn what_cannot_be_converted_is_refused() {
    let out = file("head.safetensors", "");
    for (args, parts) in [
        (
            vec![
                "convert",
                &fixture("r2r.pt"),
                "--kind",
                "r2r",
                "--model",
                "embedded:tiny/small",
            ],
            vec!["r2r.pt", "hidden states of 12 numbers, those of the model have 128"],
        ),
        (
            vec!["convert", "/nowhere.pt", "--kind", "citer"],
            vec!["cannot read /nowhere.pt"],
        ),
        (
            vec!["convert", &fixture("mlp.pth"), "--kind", "mlp"],
            vec!["--activation relu, gelu or silu"],
        ),
        (
            vec!["convert", &fixture("citer.pth"), "--kind", "citer", "--row", "1"],
            vec!["--row is for --kind co-llm"],
        ),
        (
            vec!["random", "--kind", "r2r", "--model", "medium"],
            vec!["no such model", "small, large"],
        ),
        (
            vec!["random", "--kind", "citer", "--model", "small", "--dims", "3"],
            vec!["--dims is for --kind r2r and mlp"],
        ),
    ] {
        let (code, stderr) = run_to_end(&[&["heads"], args.as_slice(), &["--out", text(&out)]].concat());
        assert_eq!(code, 2, "{args:?}: {stderr}");
        for part in parts {
            assert!(stderr.contains(part), "{args:?}: {part:?} is not in {stderr:?}");
        }
    }
    let damaged = file("damaged.safetensors", "no head");
    let (code, stderr) = run_to_end(&["heads", "inspect", text(&damaged)]);
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("damaged or not a safetensors file"), "{stderr}");
}

#[test]
fn a_deployment_whose_heads_do_not_fit_is_refused() {
    let (small, large) = (random("r2r", "small"), random("co-llm", "large"));
    let refused = |heads: &str, parts: &[&str]| {
        let deployment = deployment(heads);
        let (code, stderr) = run_to_end(&["--config", text(&deployment), "--listen", "127.0.0.1:0"]);
        assert_eq!(code, 2, "{heads}: {stderr}");
        for part in parts {
            assert!(stderr.contains(part), "{heads}: {part:?} is not in {stderr:?}");
        }
    };
    refused("", &["the score of head `limit`; the deployment has none"]);
    refused(
        &section("other", "small", &small),
        &["the score of head `limit`; the deployment has other"],
    );
    refused(
        &section(HEAD, "large", &large),
        &["the score of head `limit` at model `small`; it is evaluated at model `large` only"],
    );
    refused(
        &section(HEAD, "large", &small),
        &[
            "head \"limit\" of model \"large\"",
            "hidden states of 128 numbers, those of the model have 256",
        ],
    );
    refused(
        &section(HEAD, "medium", &small),
        &["head \"limit\" is for model \"medium\"; the models are small, large"],
    );
    let twice = section(HEAD, "small", &small).repeat(2);
    refused(&twice, &["two heads are named \"limit\""]);
    refused(
        &section(HEAD, "small", Path::new("/nowhere")),
        &["head \"limit\": cannot read /nowhere"],
    );
}

fn request(prompt: &str, seed: usize) -> Value {
    json!({ "model": "tiny", "prompt": prompt, "max_tokens": 48, "temperature": 0.8, "seed": seed })
}

/// Sends requests one by one and then all at once: the answers must be the same. Returns who wrote how many tokens.
async fn written_alone_and_together(server: &Server, what: &str) -> [u64; 2] {
    let problems = problems();
    let requests: Vec<Value> = (0..16).map(|i| request(&problems[i].prompt, i)).collect();
    let mut alone = Vec::new();
    for body in &requests {
        alone.push(not_hanging("a request alone", server.answer(body)).await);
    }
    let together = join_all(requests.iter().map(|body| server.answer(body)));
    let together = not_hanging("requests together", together).await;
    for ((body, alone), together) in requests.iter().zip(&alone).zip(&together) {
        assert_eq!(alone.text, together.text, "{what}: {body}");
        assert_eq!(alone.usage, together.usage, "{what}: {body}");
    }
    let info = server.info().await;
    [0, 1].map(|model| {
        info["stats"]["models"][model]["tokens_written"]
            .as_u64()
            .expect("a count")
    })
}

/// Scores are computed with a step's whole batch, and decide who writes. Were they to depend on the batch in the last bit,
/// some of these answers would.
#[tokio::test]
async fn answers_routed_by_a_head_do_not_depend_on_who_else_is_served() {
    for kind in ["r2r", "citer", "co-llm"] {
        let head = random(kind, "small");
        let server = Server::with_file(&deployment(&section(HEAD, "small", &head)));
        let info = server.info().await;
        assert_eq!(info["heads"][0]["name"], HEAD, "{info}");
        assert_eq!(info["heads"][0]["kind"], kind);
        assert_eq!(info["heads"][0]["trained"], false);
        let [small, large] = written_alone_and_together(&server, kind).await;
        assert!(
            small > 0 && large > 0,
            "{kind}: the score decides, and not always alike: {small}, {large}"
        );
    }
}

/// The policies of the binary that need a head, each with one under the name that it asks for by itself.
#[tokio::test]
async fn the_policies_that_need_a_head_serve_answers_with_one() {
    let heads = [
        ("r2r", "r2r"),
        ("citer", "citer"),
        ("co-llm", "co-llm"),
        ("request-level", "linear"),
    ]
    .map(|(name, kind)| section(name, "small", &random(kind, "small")))
    .concat();
    for (plugin, options) in [
        ("r2r", ""),
        ("citer", "threshold = 0.5"),
        ("co-llm", "threshold = 0.5"),
        ("request-level", "mode = \"head\""),
    ] {
        let policy = format!("plugin = \"{plugin}\"\n[policy.options]\n{options}");
        let server = Server::with_file(&deployment_file(&policy, &heads));
        let [small, large] = written_alone_and_together(&server, plugin).await;
        // A request is routed once at the end of its prompt, and prompts that end alike may well have scores that are alike.
        let both = plugin != "request-level";
        assert!(small + large > 0, "{plugin}");
        assert!(
            !both || (small > 0 && large > 0),
            "{plugin}: the score decides, and not always alike: {small}, {large}"
        );
    }
}
