//! From a model's name to an answer, with the real binary: `models pull`, `models list`, `doctor`, and a server that reads the cache.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::json;

use crate::common::fake_hub::{FakeHub, Faults};
use crate::common::{Server, file};

const ID: &str = "org/tiny-model";

/// Runs the command with a hub and a cache of its own: exit code, standard output, standard error.
fn run(args: &[&str], hub: &str, cache: &Path) -> (i32, String, String) {
    let command = Command::new(env!("CARGO_BIN_EXE_tokenrouter-host"))
        .args(args)
        .env("HF_ENDPOINT", hub)
        .env("HF_HUB_CACHE", cache)
        .env("HF_HOME", cache)
        .env_remove("HF_TOKEN")
        .env_remove("HF_HUB_OFFLINE")
        .output();
    let Output { status, stdout, stderr } = command.expect("the binary starts");
    let text = |bytes| String::from_utf8(bytes).expect("messages are UTF-8");
    (status.code().expect("no signal ended it"), text(stdout), text(stderr))
}

#[tokio::test]
async fn a_pulled_model_is_checked_listed_and_served() {
    let hub = FakeHub::tiny(ID);
    let cache = tempfile::TempDir::new().expect("a folder");
    let text = format!("name = \"d\"\n[[models]]\nname = \"m\"\nsource = \"hf://{ID}\"\n");
    let config = file("hub.toml", text);
    let config = config.to_str().expect("paths of tests are UTF-8");
    let run = |args: &[&str]| run(args, &hub.url, cache.path());

    // Before: nobody downloads by himself, and everybody says how to.
    let help = "tokenrouter-host models pull org/tiny-model";
    let (code, out, _) = run(&["doctor", "--config", config]);
    assert!(
        code == 1 && out.contains("error") && out.contains(help),
        "{code}: {out}"
    );
    let (code, out, err) = run(&["--config", config, "--listen", "127.0.0.1:0"]);
    assert!(
        code == 2 && out.is_empty() && err.contains("model \"m\"") && err.contains(help),
        "{code}: {err}"
    );
    assert_eq!(hub.requests(), Vec::<String>::new());
    let (code, out, _) = run(&["models", "list"]);
    assert!(code == 0 && out.contains("no models in"), "{code}: {out}");

    let (code, out, err) = run(&["models", "pull", ID]);
    assert!(
        code == 0 && out.contains("source = \"hf://org/tiny-model\""),
        "{code}: {out}{err}"
    );
    assert!(err.contains("fetching model.safetensors"), "{err}");
    let (code, out, _) = run(&["models", "list"]);
    assert!(code == 0 && out.contains(ID) && out.contains("whole"), "{code}: {out}");
    let (code, out, _) = run(&["doctor", "--config", config, "--json"]);
    let findings: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    let levels: Vec<&str> = findings
        .as_array()
        .expect("an array")
        .iter()
        .filter_map(|it| it["level"].as_str())
        .collect();
    assert!(
        code == 0 && levels.contains(&"ok") && !levels.contains(&"error"),
        "{code}: {out}"
    );

    let cached = [("HF_HUB_CACHE", cache.path().as_os_str())];
    let server = Server::start_with(&["--config", config], &cached);
    let body = json!({"prompt": "23*03-98-37*05=", "max_tokens": 4, "temperature": 0});
    let text = server.answer(&body).await.text;
    assert!(text.starts_with("23*0"), "{text}");
}

#[test]
fn what_cannot_be_pulled_ends_with_the_code_of_its_kind() {
    let hub = FakeHub::tiny(ID);
    let cache = tempfile::TempDir::new().expect("a folder");
    for (name, code, part) in [
        ("org/other", 2, "there is no such repository"),
        ("tiny-model", 2, "write ORG/NAME as in Qwen/Qwen3-0.6B"),
        ("org/tiny-model/a.gguf", 2, "has no a.gguf"),
    ] {
        let (found, out, err) = run(&["models", "pull", name], &hub.url, cache.path());
        assert!(
            found == code && out.is_empty() && err.contains(part),
            "{name}: {found}: {err}"
        );
    }
    // What trying again may mend.
    hub.fails(Faults {
        changed: Some("config.json".to_owned()),
        ..Faults::default()
    });
    let (code, out, err) = run(&["models", "pull", ID], &hub.url, cache.path());
    assert!(
        code == 1 && out.is_empty() && err.contains("its hash is"),
        "{code}: {err}"
    );
}
