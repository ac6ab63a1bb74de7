//! The pages of docs/ that are written from the code, so that they say of every path, field and key what the server does.

mod deployment;
mod http;

use std::path::Path;

use serde_json::Value;

/// Set to anything, the tests write the pages instead of comparing them.
const UPDATE: &str = "TOKENROUTER_UPDATE_REFERENCE";

/// Compares a committed page, relative to the repository, with what it must be; or writes it.
fn hold(page: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, text).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let differing = committed
        .lines()
        .zip(text.lines())
        .position(|(left, right)| left != right);
    assert!(
        committed == text,
        "{page} is not what the code says from line {} on; run `{UPDATE}=1 cargo test --release --lib reference`",
        differing.unwrap_or(committed.lines().count().min(text.lines().count())) + 1
    );
}

fn words(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// As a table's cell can have it.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
