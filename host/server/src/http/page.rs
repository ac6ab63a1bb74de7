//! The web page's paths at the clients' listener.

use serde_json::{Value, json};

use super::openapi::operation;
use crate::page::PageFile;

pub(super) async fn answers() -> PageFile {
    PageFile::Answers
}

pub(super) async fn script() -> PageFile {
    PageFile::Script
}

pub(super) async fn style() -> PageFile {
    PageFile::Style
}

pub(super) fn answers_operation() -> Value {
    documented("A web page that shows which model wrote which token", PageFile::Answers)
}

pub(super) fn script_operation() -> Value {
    documented("The page's script", PageFile::Script)
}

pub(super) fn style_operation() -> Value {
    documented("The page's style sheet", PageFile::Style)
}

fn documented(summary: &str, file: PageFile) -> Value {
    let content = json!({ file.media_type(): { "schema": { "type": "string" } } });
    let ok = json!({ "description": "The file", "content": content });
    let mut operation = operation(
        summary,
        "Built into the server; needs nothing else, and no key. What it asks for does.",
        ok,
    );
    operation["security"] = json!([]);
    operation
}
