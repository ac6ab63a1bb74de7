//! `chat` and `top` where there is no terminal: what they say is what the API says.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::common::Server;

const PROMPT: &str = "23*03-98-37*05=";
const KEY: &str = "sk-terminal-0123456789";

/// Exit code, standard output, standard error.
fn run(args: &[&str], input: &str) -> (i32, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tokenrouter-host"))
        .args(args)
        .env("TOKENROUTER_API_KEY", KEY)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    // One that ends before it reads is looked at by what it says.
    drop(stdin.write_all(input.as_bytes()));
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    let code = output.status.code().expect("it ends by itself");
    (code, text(output.stdout), text(output.stderr))
}

fn said(args: &[&str], input: &str) -> String {
    let (code, stdout, stderr) = run(args, input);
    assert_eq!((code, stderr.as_str()), (0, ""), "{args:?}: {stdout}");
    stdout
}

#[tokio::test]
async fn an_answer_is_that_of_the_api_in_this_process_and_in_another() {
    let server = Server::start_with(&[], &[("TOKENROUTER_API_KEYS", KEY.as_ref())]);
    let open = Server::start(&[]);
    let body = json!({ "prompt": PROMPT, "max_tokens": 256, "temperature": 0 });
    let text = open.answer(&body).await.text;
    assert!(!text.is_empty());
    let expected = format!("{text}\n");
    assert_eq!(said(&["chat", "--raw", PROMPT], ""), expected);
    assert_eq!(said(&["chat", "--raw", "--url", &server.url, PROMPT], ""), expected);
    let coloured = said(
        &["chat", "--raw", "--url", &server.url, "--color", "always", PROMPT],
        "",
    );
    let plain = coloured.replace("\x1b[33m", "").replace("\x1b[0m", "");
    assert!(coloured.contains("\x1b[33m") && plain == expected, "{coloured}");
}

#[tokio::test]
async fn lines_are_asked_and_commands_obeyed() {
    let server = Server::start(&[]);
    let body = json!({ "model": "tiny/large", "prompt": PROMPT, "max_tokens": 256, "temperature": 0 });
    let answer = server.answer(&body).await;
    let chat = ["chat", "--raw", "--url", &server.url];
    let lines = format!("/policy large\n{PROMPT}\n\n/again\n/history\n/stats\n/quit\nnever asked\n");
    let written = answer.usage["completion_tokens"].as_u64().expect("a count");
    let (text, tokens) = (&answer.text, 2 * written);
    let stdout = said(&chat, &lines);
    let begin = format!(
        "tiny/large answers now\n{text}\n{PROMPT}\n{text}\n   1  {PROMPT}\n2 answers, {tokens} tokens, 0 handoffs"
    );
    let end = format!("small: 0 tokens, 0.0 %\nlarge: {tokens} tokens, 100.0 %\n");
    assert!(stdout.starts_with(&begin) && stdout.ends_with(&end), "{stdout}");
    let policies = said(&chat, "/policy r-stitch\n/set threshold=0.1\n/policy\n");
    assert!(
        policies.contains("\n* tiny@r-stitch  ") && policies.contains("threshold = 0.1"),
        "{policies}"
    );
    // A conversation goes on: its second question comes with the first and its answer.
    let talk = said(&["chat", "--url", &server.url, "--max-tokens", "4"], "12+34=\n56+78=\n");
    assert_eq!(talk.lines().count(), 2, "{talk}");
}

#[tokio::test]
async fn mistakes_are_told_with_what_would_be_right() {
    let server = Server::start(&[]);
    let url = server.url.as_str();
    for (args, input, code, part) in [
        (vec!["--url", "localhost:1", "x"], "", 2, "it is http://HOST:PORT"),
        (
            vec!["--url", "http://127.0.0.1:1", "x"],
            "",
            1,
            "cannot connect to the host at 127.0.0.1:1",
        ),
        (
            vec!["--url", url, "--model", "tinny", "x"],
            "",
            2,
            "there are tiny, tiny@r-stitch, tiny/small, tiny/large",
        ),
        (
            vec!["--url", url, "--plugin", "random", "x"],
            "",
            2,
            "cannot be used with",
        ),
        (
            vec!["--url", url, "--max-tokens", "100000", "12+34="],
            "",
            1,
            "the models' context is 512 tokens",
        ),
        (
            vec!["--url", url],
            "/polcy\n12+34=\n",
            1,
            "there is no command /polcy; /help lists them",
        ),
    ] {
        let (found, stdout, stderr) = run(&[&["chat"], args.as_slice()].concat(), input);
        assert_eq!(found, code, "{args:?}: {stderr}");
        assert!(stderr.contains(part), "{args:?}: {stderr}");
        assert_eq!(stdout.trim(), "", "{args:?}");
    }
}

#[tokio::test]
async fn top_shows_every_model_with_its_steps() {
    let server = Server::start(&[]);
    let body = json!({ "model": "tiny/large", "prompt": PROMPT, "max_tokens": 32, "n": 4, "ignore_eos": true });
    assert_eq!(server.complete(&body).await.status, 200);
    let stdout = said(&["top", "--once", "--url", &server.url], "");
    let lines: Vec<Vec<&str>> = stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(
        stdout.starts_with("0 requests run, 0 wait to start; launch rule lookahead\n"),
        "{stdout}"
    );
    assert_eq!(lines[1][0], "model");
    assert_eq!((lines[2][0], lines[3][0]), ("small", "large"), "{stdout}");
    let batch = lines[3][lines[3].len() - 3].parse::<f64>();
    assert!(lines[3][4] == "0.0" || batch.is_ok_and(|rows| rows >= 1.0), "{stdout}");
    let (code, _, stderr) = run(&["top", "--once", "--url", "http://127.0.0.1:1"], "");
    assert!(code == 1 && stderr.contains("cannot connect"), "{stderr}");
}
