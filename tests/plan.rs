//! `tokenrouter-host plan` and `simulate`, as they are run from a shell.

use std::process::{Command, Output};

use serde_json::Value;

fn run(args: &[&str]) -> Output {
    let binary = env!("CARGO_BIN_EXE_tokenrouter-host");
    Command::new(binary)
        .args(args)
        .output()
        .unwrap_or_else(|error| panic!("cannot run {binary}: {error}"))
}

fn text(args: &[&str]) -> String {
    let output = run(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && stderr.is_empty(),
        "{args:?}: {}: {stderr}",
        output.status
    );
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn json(args: &[&str]) -> Vec<Value> {
    let text = text(&[args, &["--json"]].concat());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{args:?}: {error} in {text}"))
}

/// Step latencies and hand-over probability of the TokenRouter paper (arXiv 2610.12242, appendix D).
const PAPER: [&str; 4] = ["--latency-ms", "6.0,27.9", "--p", "0.35"];

/// The paper's nine predictions for N = 2, 3, 4, and those of an independent implementation for N = 8; each for B = 1..=N.
const EXPECTED: [(u64, &[f64]); 4] = [
    (2, &[99.0, 110.3]),
    (3, &[142.3, 158.1, 151.9]),
    (4, &[187.2, 195.4, 207.9, 190.7]),
    (8, &[369.2, 370.6, 374.4, 386.8, 399.0, 397.7, 381.1, 332.4]),
];

#[test]
fn plan_gives_the_papers_predictions() {
    let rows = json(&[&["plan"], &PAPER[..], &["--concurrency", "2..4,8"]].concat());
    assert_eq!(rows.len(), 2 + 3 + 4 + 8);
    for (n, expected) in EXPECTED {
        let of_n: Vec<&Value> = rows.iter().filter(|row| row["n"] == n).collect();
        for (row, (b, expected)) in of_n.iter().zip((1..).zip(expected)) {
            let got = row["tokens_per_s"].as_f64().expect("a number");
            assert_eq!(row["b"], serde_json::json!([1, b]));
            assert!(
                (got - expected).abs() < 0.1,
                "N = {n}, B = {b}: {got}, expected {expected}"
            );
            let is_most = *expected == expected_most(n);
            assert_eq!(row["best"], is_most, "{row}");
        }
    }
}

fn expected_most(n: u64) -> f64 {
    let of_n = EXPECTED.iter().find(|row| row.0 == n).expect("an N of the table");
    of_n.1.iter().copied().fold(0.0, f64::max)
}

#[test]
fn plan_prints_a_table_that_marks_the_best_threshold() {
    let table = text(&[&["plan"], &PAPER[..], &["--concurrency", "4"]].concat());
    let line = table
        .lines()
        .find(|line| line.trim_start().starts_with("4 "))
        .expect("a line for N = 4");
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(cells[..7], ["4", "187.2", "195.4", "208.0*", "190.7", "3", "208.0"]);
}

#[test]
fn plan_draws_what_it_prints() {
    let path = std::env::temp_dir().join(format!("tokenrouter-plan-{}.svg", std::process::id()));
    let plot = path.to_str().expect("UTF-8");
    text(&[&["plan"], &PAPER[..], &["--concurrency", "1..4", "--plot", plot]].concat());
    let svg = std::fs::read_to_string(&path).expect("the picture");
    std::fs::remove_file(&path).expect("the picture can be removed");
    assert!(
        svg.starts_with("<svg ") && svg.contains("B = (1, 2)") && svg.contains("p = 0.35"),
        "{svg}"
    );
    let path = path.with_extension("png");
    let plot = path.to_str().expect("UTF-8");
    text(&[&["plan"], &PAPER[..], &["--concurrency", "1..4", "--plot", plot]].concat());
    let png = std::fs::read(&path).expect("the picture");
    std::fs::remove_file(&path).expect("the picture can be removed");
    assert!(
        png.starts_with(b"\x89PNG\r\n\x1a\n") && png.len() > 4_000,
        "{} bytes",
        png.len()
    );
}

#[test]
fn other_policies_have_their_own_options() {
    let stitch = json(&["plan", "--latency-ms", "6,27.9", "--p", "0.2,0.4", "--concurrency", "3"]);
    assert_eq!(stitch.len(), 3);
    let mixture = json(&[
        "plan",
        "--latency-ms",
        "1,2,7",
        "--weights",
        "0.5,0.3,0.2",
        "--concurrency",
        "1",
    ]);
    // One request never waits: 1 / (0.5 + 0.6 + 1.4) ms.
    assert!(
        (mixture[0]["tokens_per_s"].as_f64().expect("a number") - 400.0).abs() < 1e-6,
        "{mixture:?}"
    );
}

/// The same scheduler in virtual time gives what the plan predicts, within 2 % over 60,000 tokens.
#[test]
fn simulate_agrees_with_plan_and_compares_rules() {
    let rules = "eager,threshold,threshold:1,3,lookahead,step-sync,model-sync";
    let records = json(&[&["simulate"], &PAPER[..], &["--concurrency", "4", "--launch", rules]].concat());
    let launches: Vec<&str> = records.iter().filter_map(|record| record["launch"].as_str()).collect();
    assert_eq!(
        launches,
        [
            "eager",
            "threshold",
            "threshold:1,3",
            "lookahead",
            "step-sync",
            "model-sync"
        ]
    );
    let rate = |index: usize| records[index]["tokens_per_s"].as_f64().expect("a number");
    assert!(
        (rate(0) / 187.2 - 1.0).abs() < 0.02 && (rate(1) / 207.9 - 1.0).abs() < 0.02,
        "{records:?}"
    );
    assert_eq!(records[1]["thresholds"], serde_json::json!([1, 3]));
    assert_eq!(rate(1), rate(2), "the planned thresholds are those given by hand");
    for record in &records {
        assert_eq!(record["models"].as_array().map(Vec::len), Some(2));
        let per_user = record["per_user_tokens_per_s"].as_f64().expect("a number");
        assert!((per_user * 4.0 / record["tokens_per_s"].as_f64().expect("a number") - 1.0).abs() < 1e-9);
    }
}

/// A real component in place of a probability: `random` with a share of 0.35 is one-token hand-back at p = 0.35.
#[test]
fn a_component_routes_a_simulation() {
    let latency = ["simulate", "--latency-ms", "6.0,27.9", "--concurrency", "4"];
    let by_policy = ["--plugin", "random", "--plugin-config", "share=0.35"];
    let component = json(&[&latency[..], &by_policy].concat());
    let launches: Vec<&str> = component
        .iter()
        .filter_map(|record| record["launch"].as_str())
        .collect();
    assert_eq!(launches, ["eager", "lookahead"]);
    let probability = json(&[&latency[..], &["--p", "0.35", "--launch", "eager,lookahead"]].concat());
    for (component, probability) in component.iter().zip(&probability) {
        let [a, b] = [component, probability].map(|record| record["tokens_per_s"].as_f64().expect("a number"));
        assert!(
            (a / b - 1.0).abs() < 0.02,
            "{a} tokens/s by the component, {b} by the probability"
        );
    }
}

#[test]
fn a_simulation_is_repeated_by_its_seed() {
    let with = |seed| {
        text(
            &[
                &["simulate"],
                &PAPER[..],
                &["--concurrency", "2", "--tokens", "2000", "--seed", seed],
            ]
            .concat(),
        )
    };
    assert_eq!(with("7"), with("7"));
    assert_ne!(with("7"), with("8"));
}

#[test]
fn mistakes_end_with_code_2_and_name_the_option() {
    for (args, part) in [
        (
            &["plan", "--latency-ms", "6,x", "--p", "0.3"][..],
            "'--latency-ms <MS,MS,...>': \"x\" is not a latency",
        ),
        (
            &["plan", "--latency-ms", "6,28", "--p", "1.3"],
            "\"1.3\" is not a probability; write a number from 0 to 1",
        ),
        (
            &["plan", "--latency-ms", "6,28,9", "--p", "0.3"],
            "--latency-ms gives the latency of 3 model(s)",
        ),
        (
            &["plan", "--latency-ms", "6,28", "--p", "0.3", "--quantum-ms", "9"],
            "--quantum-ms: a quantum is positive and at most",
        ),
        (
            &["plan", "--latency-ms", "6,28", "--p", "0.3", "--concurrency", "0"],
            "\"0\" is not a number of requests",
        ),
        (
            &[
                "plan",
                "--latency-ms",
                "6,28",
                "--p",
                "0.3",
                "--concurrency",
                "3",
                "--plot",
                "x.svg",
            ],
            "--plot draws curves over N",
        ),
        (
            &["plan", "--latency-ms", "6,28", "--p", "0.3", "--plot", "plan.pdf"],
            "the name of a picture ends with .svg or .png",
        ),
        (&["plan", "--latency-ms", "6,28"], "--p <P[,Q]>|--weights <W,W,...>"),
        (
            &["simulate", "--latency-ms", "6,28", "--p", "0.3", "--launch", "fast"],
            "\"fast\" is not a launch rule",
        ),
        (
            &["simulate", "--latency-ms", "6,28", "--routing", "bursty:1"],
            "bursty takes CALM,STORM,FLIP",
        ),
        (
            &["simulate", "--latency-ms", "6,28", "--routing", "trace:/nowhere"],
            "--routing trace:/nowhere: ",
        ),
        (
            &[
                "simulate",
                "--latency-ms",
                "6,28",
                "--plugin",
                "random",
                "--plugin-config",
                "share=3",
            ],
            "option \"share\" is 3; it must be between 0 and 1",
        ),
        (
            &[
                "simulate",
                "--latency-ms",
                "6,28",
                "--plugin",
                "random",
                "--launch",
                "threshold",
            ],
            "write thresholds, as in threshold:1,3",
        ),
        (
            &[
                "simulate",
                "--latency-ms",
                "6,28",
                "--p",
                "0.3",
                "--plugin-config",
                "share=3",
            ],
            "--plugin-config sets options of a --plugin",
        ),
        (
            &["simulate", "--latency-file", "/nowhere.toml", "--p", "0.3"],
            "--latency-file /nowhere.toml: ",
        ),
    ] {
        let output = run(args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(
            stderr.starts_with("error: ") && stderr.contains(part),
            "{args:?}: {part:?} is not in {stderr:?}"
        );
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}
