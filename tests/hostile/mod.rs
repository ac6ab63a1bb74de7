//! Policies that should not be served: each is refused, or contained while it serves, with an error of its own, and the policy
//! that serves is untouched.

mod serving;
mod signatures;
mod uploads;

use serde_json::{Value, json};

use crate::common::admin::{SEED, start};
use crate::common::{Server, deployment_file, not_hanging, problems};

const FOREVER: &str = "(loop $forever (br $forever))";

fn body(model: &str) -> Value {
    json!({ "model": model, "prompt": problems()[0].prompt, "max_tokens": 64, "temperature": 0, "seed": SEED })
}

async fn answer(server: &Server, model: &str) -> String {
    not_hanging(model, server.answer(&body(model))).await.text
}

/// A server with R-Stitch, and what it answers.
async fn served(rest: &str) -> (Server, String) {
    let plugin = "plugin = \"r-stitch\"\noptions = { threshold = 0.2, unit = \"nats\" }\non_failure = \"stay\"";
    let path = deployment_file(plugin, rest);
    let server = start(&["--config", path.to_str().expect("UTF-8")]);
    let expected = answer(&server, "tiny").await;
    (server, expected)
}
