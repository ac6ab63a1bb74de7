//! The admin API of the real binary.

use std::path::PathBuf;

use serde_json::Value;

use super::component::Policy;
use super::{HANG, Reply, Server, file};

/// The key of the servers that tests start.
pub const KEY: &str = "a-key-of-the-tests-0123456789";

/// The seed of requests that [`failing_for_the_seed`] fails for.
pub const SEED: u64 = 424_242;

/// A policy that stays at the small model, and misbehaves in `route` when the first row's request has [`SEED`]: no check before
/// it serves can know that. The hand-written policy's state is the request's seed.
pub fn failing_for_the_seed(code: &str) -> Policy {
    let triggered = format!("(i64.eq (i64.load (local.get $state)) (i64.const {SEED}))");
    let stay = "(memory.fill (local.get $candidates) (i32.const 0) (i32.mul (local.get $rows) (i32.const 4)))";
    Policy::new().with("route", &format!("(if {triggered} (then {code}) (else {stay}))"))
}

/// A file with the key.
pub fn key_file() -> PathBuf {
    file("admin.key", format!("# of the tests\ntester {KEY}\n"))
}

/// A server with its admin API at a free port.
pub fn start(args: &[&str]) -> Server {
    let key_file = key_file();
    let admin = [
        "--admin-listen",
        "127.0.0.1:0",
        "--admin-key-file",
        key_file.to_str().expect("UTF-8"),
    ];
    Server::start(&[&admin, args].concat())
}

/// A policy of the repository, as it is built.
pub fn shipped(name: &str) -> Vec<u8> {
    let path = format!("{}/../../plugins/dist/{name}.wasm", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A query's value with what means something in a query escaped.
pub fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

impl Server {
    /// Any admin request, with the key.
    pub async fn admin(&self, method: &str, path: &str, body: impl Into<reqwest::Body>) -> Reply {
        let request = self.admin_request(method, path).bearer_auth(KEY).body(body);
        super::server::read(request).await
    }

    /// An admin request that is still to be sent, without a key.
    pub fn admin_request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let url = self.admin_url.as_ref().expect("the admin API is offered");
        let client = reqwest::Client::builder()
            .timeout(HANG)
            .build()
            .expect("a client needs no system settings");
        client.request(method.parse().expect("a method"), format!("{url}{path}"))
    }

    /// An admin request that must succeed.
    pub async fn admin_ok(&self, method: &str, path: &str, body: impl Into<reqwest::Body>) -> Value {
        let reply = self.admin(method, path, body).await;
        assert!(
            (200..300).contains(&reply.status),
            "{method} {path}: {} {}",
            reply.status,
            reply.body
        );
        reply.json()
    }

    /// Uploads a component and returns its generation.
    pub async fn put(&self, name: &str, query: &str, bytes: Vec<u8>) -> u64 {
        let reply = self
            .admin_ok("PUT", &format!("/admin/policies/{name}?{query}"), bytes)
            .await;
        reply["generation"]
            .as_u64()
            .unwrap_or_else(|| panic!("no generation in {reply}"))
    }

    /// The default's generation; 0 for none.
    pub async fn default_generation(&self) -> u64 {
        let reply = self.admin_ok("GET", "/admin/policies", "").await;
        reply["default"]["generation"].as_u64().unwrap_or(0)
    }
}

/// The generation that routed an answer.
pub fn generation(reply: &Reply) -> u64 {
    let header = reply
        .headers
        .get("tokenrouter-generation")
        .unwrap_or_else(|| panic!("no generation: {reply:?}"));
    header.to_str().expect("a number").parse().expect("a number")
}

/// Waits until a value of the admin API fulfils a condition; panics with the last one if that never comes.
pub async fn wait_for(server: &Server, path: &str, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
    let started = std::time::Instant::now();
    loop {
        let value = server.admin_ok("GET", path, "").await;
        if condition(&value) {
            return value;
        }
        assert!(started.elapsed() < HANG, "never {what}: {value:#}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}
