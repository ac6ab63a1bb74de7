//! `heads train`, `eval` and `bench` on the built-in models, from the command line to the figures.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::common::{Problem, deployment_file, file, problems};

/// Runs a command to its orderly end and returns what it printed.
fn run(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_tokenrouter-host"))
        .args(args)
        .output()
        .expect("the binary starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {stderr}");
    String::from_utf8(output.stdout).expect("output is UTF-8")
}

fn json_of(args: &[&str]) -> Value {
    serde_json::from_str(&run(args)).expect("JSON")
}

fn prompts(count: usize) -> PathBuf {
    let lines = problems().into_iter().take(count);
    let lines: Vec<String> = lines
        .map(|problem| json!({ "prompt": problem.prompt, "answer": problem.answer }).to_string())
        .collect();
    file("prompts.jsonl", lines.join("\n"))
}

#[test]
fn a_head_that_is_trained_twice_is_the_same_file_and_serves() {
    let prompts = prompts(60);
    let train = |label: &str| {
        let out = file("co-llm.safetensors", "");
        let out = out.to_str().expect("UTF-8");
        let args = [
            "--kind",
            "co-llm",
            "--label",
            label,
            "--epochs",
            "2",
            "--out",
            out,
            "--prompts",
        ];
        let shown = run(&[&["heads", "train"], &args[..], &[prompts.to_str().expect("UTF-8")]].concat());
        assert!(
            shown.contains("trained     yes") && shown.contains("60 answers of embedded:tiny/large"),
            "{shown}"
        );
        (out.to_owned(), std::fs::read(out).expect("it was written"))
    };
    let ((path, first), (_, second)) = (train("token"), train("token"));
    assert!(first == second);
    assert!(train("rollout").1 != first);

    let head = format!("[[heads]]\nname = \"co-llm\"\nmodel = \"small\"\nfile = {path:?}\n");
    let config = deployment_file("plugin = \"none\"", &head);
    let config = config.to_str().expect("UTF-8");
    let policy = "co-llm:threshold=0.0001,1";
    let args = [
        "eval", "--config", config, "--policy", policy, "--limit", "8", "--random", "none", "--json",
    ];
    let points = json_of(&args)["points"].clone();
    let share = |index: usize| points[index]["shares"][1].as_f64().expect("a share");
    assert_eq!(
        (points[2]["at"].as_str(), points[3]["at"].as_str()),
        (Some("threshold=0.0001"), Some("threshold=1"))
    );
    assert!(share(2) > share(3), "{points:#}");
}

/// What each model writes alone was recorded by another implementation, so the counts are known.
#[test]
fn eval_counts_what_is_right() {
    const LIMIT: usize = 40;
    let right = |text: &dyn Fn(&Problem) -> String| {
        let count = problems()
            .iter()
            .take(LIMIT)
            .filter(|it| text(it).ends_with(&it.answer))
            .count();
        count as f64 / LIMIT as f64
    };
    let picture = file("tradeoff.svg", "");
    let limit = LIMIT.to_string();
    let args = [
        "--limit",
        &limit,
        "--random",
        "0.5",
        "--json",
        "--launch",
        "eager",
        "--launch",
        "lookahead",
        "--plot",
    ];
    let found = json_of(
        &[
            &["eval", "--policy", "r-stitch:threshold=0.02"],
            &args[..],
            &[picture.to_str().expect("UTF-8")],
        ]
        .concat(),
    );
    let points = found["points"].as_array().expect("points");
    assert_eq!(points[0]["right"], right(&|it| it.greedy_small.clone()));
    assert_eq!(points[1]["right"], right(&|it| it.greedy_large.clone()));
    assert_eq!(
        (&points[0]["shares"], &points[1]["shares"]),
        (&json!([1.0, 0.0]), &json!([0.0, 1.0]))
    );
    let [.., eager, lookahead] = points.as_slice() else {
        panic!("{points:?}")
    };
    // Answers do not depend on the launch rule.
    for field in [
        "right",
        "shares",
        "handoffs_per_answer",
        "tokens_per_answer",
        "over_random",
    ] {
        assert_eq!(eager[field], lookahead[field], "{field}");
    }
    assert!(eager["over_random"].is_number(), "{eager}");
    let svg = std::fs::read_to_string(&picture).expect("the picture");
    assert!(
        svg.starts_with("<svg ") && svg.contains("r-stitch") && svg.contains("random routing"),
        "{svg}"
    );
}

#[test]
fn the_baseline_and_the_engine_answer_the_same_load() {
    let options = [
        "--policy-option",
        "share=0.3",
        "--concurrency",
        "2",
        "--answers",
        "6",
        "--json",
    ];
    let lines = json_of(
        &[
            &[
                "bench",
                "compare",
                "--baseline",
                "standard-serving",
                "--policy",
                "random",
            ],
            &options[..],
        ]
        .concat(),
    );
    let names: Vec<_> = lines
        .as_array()
        .expect("lines")
        .iter()
        .map(|line| line["name"].as_str())
        .collect();
    assert_eq!(names, [Some("standard-serving"), Some("random lookahead")]);
    for line in lines.as_array().expect("lines") {
        assert!(line["answers"] == 6 && line["failures"] == 0, "{line}");
        assert!(line["share"].as_f64() > Some(0.1), "{line}");
    }
}
