//! What the server itself costs: streams answers of simulated models at several concurrencies, and tells requests and
//! tokens a second, the server's CPU time a token, and its memory.
//!
//!     cargo run --release --example load
//!     cargo run --release --example load -- --concurrency 64 --requests 100000 --max-tokens 8
#![expect(clippy::print_stdout, reason = "a measurement shows its figures")]

use std::cell::Cell;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use clap::Parser;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Ticks a second in /proc: Linux has it at 100 wherever it runs.
const TICKS_PER_S: f64 = 100.0;

#[derive(Parser)]
struct Args {
    /// Deployment file; answers must be as long as they may be, as those of simulated models are
    #[arg(long, default_value = "config/simulated.toml")]
    config: PathBuf,
    /// Clients at once, one line of the table each
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 64, 256])]
    concurrency: Vec<usize>,
    /// How long each line is measured, in seconds
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Measure so many requests instead, and tell the memory ten times
    #[arg(long)]
    requests: Option<usize>,
    /// Tokens of an answer
    #[arg(long, default_value_t = 64)]
    max_tokens: usize,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let server = Server::start(&args.config)?;
    println!("clients  requests/s  tokens/s  tokens/event  CPU us/token  memory MiB");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for &clients in &args.concurrency {
        match args.requests {
            None => {
                let until = Until::Time(Instant::now() + Duration::from_secs_f64(args.seconds));
                runtime.block_on(measure(&server, clients, args.max_tokens, &until))?;
            }
            Some(requests) => {
                for _ in 0..10 {
                    let until = Until::Requests(Cell::new(requests / 10));
                    runtime.block_on(measure(&server, clients, args.max_tokens, &until))?;
                }
            }
        }
    }
    Ok(())
}

/// When clients send no further requests.
enum Until {
    Time(Instant),
    /// How many are left.
    Requests(Cell<usize>),
}

impl Until {
    fn takes_another(&self) -> bool {
        match self {
            Self::Time(end) => Instant::now() < *end,
            Self::Requests(left) => match left.get().checked_sub(1) {
                Some(less) => {
                    left.set(less);
                    true
                }
                None => false,
            },
        }
    }
}

/// What one client has had.
#[derive(Default)]
struct Seen {
    requests: usize,
    events: usize,
}

async fn measure(server: &Server, clients: usize, max_tokens: usize, until: &Until) -> anyhow::Result<()> {
    let (started, cpu_s) = (Instant::now(), server.cpu_s()?);
    let all = (0..clients).map(|number| client(&server.address, number, max_tokens, until));
    let seen = futures_util::future::try_join_all(all).await?;
    let (wall_s, cpu_s) = (started.elapsed().as_secs_f64(), server.cpu_s()? - cpu_s);
    let requests: usize = seen.iter().map(|seen| seen.requests).sum();
    let events: usize = seen.iter().map(|seen| seen.events).sum();
    let tokens = (requests * max_tokens) as f64;
    println!(
        "{clients:7}  {:10.1}  {:8.0}  {:12.2}  {:12.1}  {:10.1}",
        requests as f64 / wall_s,
        tokens / wall_s,
        tokens / events as f64,
        cpu_s * 1e6 / tokens,
        server.memory_mib()?,
    );
    Ok(())
}

/// One connection that asks again and again.
async fn client(address: &str, number: usize, max_tokens: usize, until: &Until) -> anyhow::Result<Seen> {
    let mut connection = TcpStream::connect(address).await?;
    connection.set_nodelay(true)?;
    let mut seen = Seen::default();
    let mut received = Vec::with_capacity(1 << 14);
    while until.takes_another() {
        let seed = number * 1_000_003 + seen.requests;
        let body = format!(r#"{{"prompt":"12+34=","max_tokens":{max_tokens},"seed":{seed},"stream":true}}"#);
        let request = format!(
            "POST /v1/completions HTTP/1.1\r\nhost: load\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        connection.write_all(request.as_bytes()).await?;
        received.clear();
        // The last chunk of a response in chunks.
        while !received.ends_with(b"\r\n0\r\n\r\n") {
            ensure!(
                connection.read_buf(&mut received).await? > 0,
                "the server closed the connection"
            );
        }
        if !received.starts_with(b"HTTP/1.1 200") {
            bail!("{}", String::from_utf8_lossy(&received));
        }
        // Of the events, the last says [DONE] and the one before it how the answer ended.
        let events = received.windows(7).filter(|bytes| bytes == b"data: {").count();
        seen.events += events.saturating_sub(1);
        seen.requests += 1;
    }
    Ok(seen)
}

/// The server's process.
struct Server {
    child: Child,
    address: String,
    _stdout: BufReader<std::process::ChildStdout>,
}

impl Server {
    fn start(config: &Path) -> anyhow::Result<Self> {
        let binary = std::env::current_exe()?;
        let binary = binary
            .parent()
            .and_then(Path::parent)
            .context("examples lie beside the binary")?;
        let mut child = Command::new(binary.join("tokenrouter-host"))
            .args(["--listen", "127.0.0.1:0", "--log", "warn", "--config"])
            .arg(config)
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start tokenrouter-host; `cargo build --release` builds it")?;
        let mut stdout = BufReader::new(child.stdout.take().context("it is piped")?);
        let mut line = String::new();
        let address = loop {
            line.clear();
            ensure!(stdout.read_line(&mut line)? > 0, "the server ended before it listened");
            if let Some(url) = line.trim().strip_prefix("listening") {
                break url.trim().trim_start_matches("http://").to_owned();
            }
        };
        Ok(Self {
            child,
            address,
            _stdout: stdout,
        })
    }

    /// CPU time of all its threads so far, in user space and in the kernel.
    fn cpu_s(&self) -> anyhow::Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The command's name is in brackets and may hold anything.
        let (_, fields) = stat.rsplit_once(')').context("/proc/PID/stat")?;
        let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
        Ok(ticks.sum::<Result<f64, _>>()? / TICKS_PER_S)
    }

    fn memory_mib(&self) -> anyhow::Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib: f64 = line
            .and_then(|line| line.trim().strip_suffix("kB"))
            .context("VmRSS")?
            .trim()
            .parse()?;
        Ok(kib / 1_024.0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
