//! What replacing the policy costs those who are being answered: `cargo run --release --example swap_load`.
//!
//! Sixteen clients stream from the real server all the time while one policy serves, while two policies take turns 200
//! times, and while components that the server has never seen replace it 200 times (each is compiled, configured, tried and
//! activated). All of them decide alike, so that the three phases differ in nothing else. Reported are the gaps between events at
//! the clients, how long the server's steps take, how long an upload takes until it serves, and the server's memory.
#![expect(clippy::print_stdout, reason = "a measurement shows its figures")]

#[path = "support/server.rs"]
mod server;

use std::cell::Cell;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use reqwest::{Client, Method};
use serde_json::Value;
use server::Server;
use tokenrouter_host::deployment::EMBEDDED_POLICIES;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const POLICY: &str = "r-stitch";
/// Names of the policies that take turns.
const NAMES: [&str; 2] = [POLICY, "twin"];
const CONCURRENCY: usize = 16;
const SWAPS: usize = 200;
/// Each kind of phase comes so often, so that what else the machine does falls on all of them.
const ROUNDS: usize = 5;
/// Time between two swaps, or two looks where nothing is swapped: about as long as an upload takes.
const PAUSE: Duration = Duration::from_millis(200);
/// The server keeps more steps than are made in that time.
const LOOK: Duration = Duration::from_millis(100);
/// Before memory is read.
const REST: Duration = Duration::from_secs(15);
const KEY: &str = "a-key-for-measurements-only";

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let (keys, state) = (folder.path().join("admin.key"), folder.path().join("state"));
    std::fs::write(&keys, KEY)?;
    let server = Server::start([
        "--plugin".as_ref(),
        POLICY.as_ref(),
        "--admin-listen".as_ref(),
        "127.0.0.1:0".as_ref(),
        "--admin-key-file".as_ref(),
        keys.as_os_str(),
        "--state-dir".as_ref(),
        state.as_os_str(),
    ])?;
    let host = Host {
        server,
        client: Client::new(),
        uploads: Cell::new(0),
    };
    // Caches fill, and the allocator gets what it keeps. It gives free memory back within ten seconds.
    host.under_load(host.upload_all(SWAPS)).await?;
    host.under_load(host.take_turns(SWAPS)).await?;
    tokio::time::sleep(REST).await;
    let before = host.server.memory_mib()?;

    let (mut still, mut turns, mut uploading) = (Times::default(), Times::default(), Times::default());
    let mut uploads = Vec::new();
    for _ in 0..ROUNDS {
        let waiting = async {
            tokio::time::sleep(PAUSE * (SWAPS / ROUNDS) as u32).await;
            Ok(())
        };
        still.add(host.under_load(waiting).await?.0);
        turns.add(host.under_load(host.take_turns(SWAPS / ROUNDS)).await?.0);
        let (times, round) = host.under_load(host.upload_all(SWAPS / ROUNDS)).await?;
        uploading.add(times);
        uploads.extend(round);
    }
    println!("{:36}{:>10}{:>10}{:>10}", "microseconds", "median", "p99", "largest");
    still.print("one policy");
    turns.print("turns");
    uploading.print("uploads");
    print_row(
        "upload until it serves",
        uploads.iter().map(|one| one.whole_us).collect(),
    );
    print_row(
        "  of that compiling",
        uploads.iter().map(|one| one.compile_us).collect(),
    );
    tokio::time::sleep(REST).await;
    let after = host.server.memory_mib()?;
    let change = (after / before - 1.0) * 100.0;
    println!("memory: {before:.1} MiB before {SWAPS} uploads, {after:.1} MiB after ({change:+.2} %)");
    Ok(())
}

struct Host {
    server: Server,
    client: Client,
    /// Components made so far: each is a new one.
    uploads: Cell<usize>,
}

struct Upload {
    whole_us: u64,
    compile_us: u64,
}

impl Host {
    /// Replaces the policy again and again by a component that the server has not seen.
    async fn upload_all(&self, uploads_max: usize) -> anyhow::Result<Vec<Upload>> {
        let embedded = EMBEDDED_POLICIES.iter().find(|(name, _)| *name == POLICY);
        let (_, component) = embedded.context("the policy is part of the binary")?;
        let mut uploads = Vec::new();
        for _ in 0..uploads_max {
            let number = self.uploads.replace(self.uploads.get() + 1);
            let started = Instant::now();
            let path = format!("/admin/policies/{}?activate=true", NAMES[number % 2]);
            let done = self.admin(Method::PUT, &path, never_seen(component, number)).await?;
            uploads.push(Upload {
                whole_us: started.elapsed().as_micros() as u64,
                compile_us: done["compile_us"].as_u64().context("compile_us")?,
            });
        }
        Ok(uploads)
    }

    /// Two policies that are loaded replace each other.
    async fn take_turns(&self, turns_max: usize) -> anyhow::Result<()> {
        for number in 0..turns_max {
            tokio::time::sleep(PAUSE).await;
            let path = format!("/admin/policies/{}/activate", NAMES[number % 2]);
            self.admin(Method::POST, &path, "{}").await?;
        }
        Ok(())
    }

    async fn admin(&self, method: Method, path: &str, body: impl Into<reqwest::Body>) -> anyhow::Result<Value> {
        let url = self.server.admin_url.as_ref().context("the admin API is offered")?;
        let request = self.client.request(method, format!("{url}{path}"));
        let response = request.bearer_auth(KEY).body(body).send().await?;
        let (status, text) = (response.status(), response.text().await?);
        ensure!(status.is_success(), "{path}: {status} {text}");
        Ok(serde_json::from_str(&text)?)
    }

    /// Does `work` while clients stream, and tells what they and the server's steps have seen meanwhile.
    async fn under_load<T>(&self, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<(Times, T)> {
        let over = Cell::new(false);
        let clients = futures_util::future::try_join_all((0..CONCURRENCY).map(|number| self.stream(number, &over)));
        let work = async {
            let worked = work.await;
            over.set(true);
            worked
        };
        let (gaps, steps, worked) = tokio::try_join!(clients, self.steps(&over), work)?;
        let gaps = gaps.concat();
        Ok((Times { gaps, steps }, worked))
    }

    /// One client that asks again and again: the gaps between what it receives of an answer.
    async fn stream(&self, number: usize, over: &Cell<bool>) -> anyhow::Result<Vec<u64>> {
        let mut connection = TcpStream::connect(&self.server.address).await?;
        connection.set_nodelay(true)?;
        let (mut gaps, mut received, mut asked) = (Vec::new(), Vec::with_capacity(1 << 15), 0);
        while !over.get() {
            let seed = number * 1_000_003 + asked;
            let body = format!(
                r#"{{"prompt":"23*03-98-37*05=","max_tokens":64,"temperature":1,"seed":{seed},"stream":true}}"#
            );
            let request = format!(
                "POST /v1/completions HTTP/1.1\r\nhost: load\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            connection.write_all(request.as_bytes()).await?;
            received.clear();
            let mut last = None;
            // The last chunk of a response in chunks.
            while !received.ends_with(b"\r\n0\r\n\r\n") {
                ensure!(
                    connection.read_buf(&mut received).await? > 0,
                    "the server closed the connection"
                );
                let now = Instant::now();
                if let Some(last) = last.replace(now) {
                    gaps.push(now.duration_since(last).as_micros() as u64);
                }
            }
            let text = String::from_utf8_lossy(&received);
            if !text.starts_with("HTTP/1.1 200") || !text.contains("[DONE]") || text.contains("\"error\"") {
                bail!("{text}");
            }
            asked += 1;
        }
        Ok(gaps)
    }

    /// How long the steps of each model take until it is over.
    async fn steps(&self, over: &Cell<bool>) -> anyhow::Result<[Vec<u64>; 2]> {
        let (mut times, mut last) = ([Vec::new(), Vec::new()], [0, 0]);
        let mut first = true;
        while !over.get() {
            let url = format!(
                "http://{}/timeline?steps=2048&after={},{}",
                self.server.address, last[0], last[1]
            );
            let timeline: Value = serde_json::from_str(&self.client.get(url).send().await?.text().await?)?;
            for (model, (times, last)) in times.iter_mut().zip(&mut last).enumerate() {
                let column = |name: &str| -> anyhow::Result<Vec<u64>> {
                    Ok(serde_json::from_value(
                        timeline["models"][model]["steps"][name].clone(),
                    )?)
                };
                *last = column("number")?.last().copied().unwrap_or(*last);
                // What the first look finds has been before.
                if !first {
                    times.extend(column("took_us")?);
                }
            }
            first = false;
            tokio::time::sleep(LOOK).await;
        }
        Ok(times)
    }
}

/// What was measured under load, microseconds.
#[derive(Default)]
struct Times {
    /// Between two events of an answer.
    gaps: Vec<u64>,
    /// Steps of each model.
    steps: [Vec<u64>; 2],
}

impl Times {
    fn add(&mut self, other: Self) {
        self.gaps.extend(other.gaps);
        for (steps, others) in self.steps.iter_mut().zip(other.steps) {
            steps.extend(others);
        }
    }

    fn print(self, when: &str) {
        print_row(&format!("{when}: gap between events"), self.gaps);
        for (model, steps) in ["small", "large"].into_iter().zip(self.steps) {
            print_row(&format!("{when}: step of {model}"), steps);
        }
    }
}

/// The component with a custom section that makes its digest a new one.
fn never_seen(component: &[u8], number: usize) -> Vec<u8> {
    let content = format!("number {number:08}");
    // Section 0: its size, then its name with the name's length.
    let mut section = vec![0, content.len() as u8 + 1, content.len() as u8];
    section.extend(content.bytes());
    [component, &section].concat()
}

fn print_row(label: &str, mut times: Vec<u64>) {
    times.sort_unstable();
    let last = times.len().saturating_sub(1) as f64;
    let at = |share: f64| times.get((last * share) as usize).copied().unwrap_or(0);
    println!("{label:36}{:>10}{:>10}{:>10}", at(0.5), at(0.99), at(1.0));
}
