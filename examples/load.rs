//! What the server itself costs: streams answers of simulated models at several concurrencies, and tells requests and
//! tokens a second, the server's CPU time a token, and its memory.
//!
//!     cargo run --release --example load
//!     cargo run --release --example load -- --concurrency 64 --requests 100000 --max-tokens 8
#![expect(clippy::print_stdout, reason = "a measurement shows its figures")]

#[path = "support/server.rs"]
mod server;

use std::cell::Cell;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use clap::Parser;
use server::Server;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

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
    let server = Server::start([OsStr::new("--config"), args.config.as_os_str()])?;
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
