//! What whole-program tests share: the real binary at a port of its own, and a client that checks the shape of all it gets.

pub mod admin;
mod answer;
mod byte_model;
mod chat;
pub mod fake_hub;
mod files;
mod law;
mod problems;
pub mod reference;
mod server;

/// Policies written by hand as WebAssembly text, as the policy host's own tests have them.
#[expect(dead_code, reason = "these use a part of it")]
#[path = "../../host/policy/tests/policy/component.rs"]
pub mod component;

use std::time::Duration;

pub use answer::{Answer, Events};
pub use byte_model::byte_deployment;
pub use files::{deployment_file, file};
pub use problems::{Problem, problems};
pub use server::{Reply, Server, run_to_end};

/// Far longer than anything here takes on a slow and busy machine: only a hang gets there.
pub const HANG: Duration = Duration::from_secs(240);

/// The future's result; panics if it hangs.
pub async fn not_hanging<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANG, future)
        .await
        .unwrap_or_else(|_| panic!("{what} hangs: no end within {HANG:?}"))
}

/// Waits until `/info` fulfils the condition; panics with the last one if that never comes.
pub async fn wait_for_info(server: &Server, what: &str, condition: impl Fn(&serde_json::Value) -> bool) {
    let started = std::time::Instant::now();
    loop {
        let info = server.info().await;
        if condition(&info) {
            return;
        }
        assert!(started.elapsed() < HANG, "never {what}: {}", info["stats"]);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
