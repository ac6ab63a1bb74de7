//! A server to be measured: the real binary, and what its process has used.
#![allow(dead_code, reason = "not every example asks for everything")]

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context as _, ensure};

/// Ticks a second in /proc: Linux has it at 100 wherever it runs.
const TICKS_PER_S: f64 = 100.0;

/// The server's process. It is ended when this is dropped.
pub struct Server {
    child: Child,
    /// `127.0.0.1:PORT`
    pub address: String,
    /// `http://127.0.0.1:PORT` of the admin API, if it is offered.
    pub admin_url: Option<String>,
    /// Kept open: the server must never find its standard output closed.
    _stdout: BufReader<ChildStdout>,
}

impl Server {
    /// Starts `tokenrouter-host` at a free port, and waits until it listens.
    pub fn start<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> anyhow::Result<Self> {
        let binary = std::env::current_exe()?;
        let binary = binary
            .parent()
            .and_then(std::path::Path::parent)
            .context("examples lie beside the binary")?;
        let mut child = Command::new(binary.join("tokenrouter-host"))
            .args(["--listen", "127.0.0.1:0", "--log", "warn"])
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start tokenrouter-host; `cargo build --release` builds it")?;
        let mut stdout = BufReader::new(child.stdout.take().context("it is piped")?);
        let (mut line, mut admin_url) = (String::new(), None);
        let address = loop {
            line.clear();
            ensure!(stdout.read_line(&mut line)? > 0, "the server ended before it listened");
            if let Some(url) = line.trim().strip_prefix("admin") {
                admin_url = Some(url.trim().to_owned());
            }
            if let Some(url) = line.trim().strip_prefix("listening") {
                break url.trim().trim_start_matches("http://").to_owned();
            }
        };
        Ok(Self {
            child,
            address,
            admin_url,
            _stdout: stdout,
        })
    }

    /// CPU time of all its threads so far, in user space and in the kernel.
    pub fn cpu_s(&self) -> anyhow::Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The command's name is in brackets and may hold anything.
        let (_, fields) = stat.rsplit_once(')').context("/proc/PID/stat")?;
        let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
        Ok(ticks.sum::<Result<f64, _>>()? / TICKS_PER_S)
    }

    /// Memory it holds now.
    pub fn memory_mib(&self) -> anyhow::Result<f64> {
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
