//! The real binary as a child process.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Answer, Events, HANG, file};

const BINARY: &str = env!("CARGO_BIN_EXE_tokenrouter-host");

/// A server that runs until it is dropped.
pub struct Server {
    child: Child,
    /// Kept open: the server must never find its standard output closed.
    _stdout: BufReader<ChildStdout>,
    log: PathBuf,
    client: reqwest::Client,
    /// `http://127.0.0.1:PORT`
    pub url: String,
    /// The same of the admin API, if it is offered.
    pub admin_url: Option<String>,
}

/// A response that has been read to its end.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub body: String,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {:?}", self.body))
    }

    /// The OpenAI error object.
    pub fn error(&self) -> Value {
        let error = self.json()["error"].take();
        assert!(
            error.is_object(),
            "no error object with status {}: {}",
            self.status,
            self.body
        );
        error
    }
}

impl Server {
    /// Starts the binary at a free port of this machine and waits until it listens.
    pub fn start(args: &[&str]) -> Self {
        Self::start_with(args, &[])
    }

    /// The same with environment variables of its own.
    pub fn start_with(args: &[&str], variables: &[(&str, &std::ffi::OsStr)]) -> Self {
        let log = file("server.log", "");
        let stderr = std::fs::File::create(&log).expect("the log can be written");
        let mut child = Command::new(BINARY)
            .args(["--listen", "127.0.0.1:0"])
            .args(args)
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {BINARY}: {error}"));
        let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        let mut admin_url = None;
        let url = loop {
            line.clear();
            if stdout.read_line(&mut line).expect("the banner is text") == 0 {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                panic!("the server ends before it listens, started with {args:?}; it says:\n{said}");
            }
            if let Some(url) = line.trim().strip_prefix("admin") {
                admin_url = Some(url.trim().to_owned());
            }
            if let Some(url) = line.trim().strip_prefix("listening") {
                break url.trim().to_owned();
            }
        };
        let client = reqwest::Client::builder()
            .timeout(HANG)
            .build()
            .expect("a client needs no system settings");
        Self {
            child,
            _stdout: stdout,
            log,
            client,
            url,
            admin_url,
        }
    }

    /// Starts with a deployment file.
    pub fn with_file(path: &std::path::Path) -> Self {
        Self::start(&["--config", path.to_str().expect("paths of tests are UTF-8")])
    }

    /// What it has said on standard error so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).expect("the log can be read")
    }

    pub async fn get(&self, path: &str) -> Reply {
        read(self.client.get(format!("{}{path}", self.url))).await
    }

    /// Any method, any body.
    pub async fn send(&self, method: &str, path: &str, body: impl Into<reqwest::Body>) -> Reply {
        let method = method.parse().expect("a method");
        let request = self.client.request(method, format!("{}{path}", self.url));
        read(request.header("content-type", "application/json").body(body)).await
    }

    /// `POST /v1/completions`, to its end, whatever it is.
    pub async fn complete(&self, body: &Value) -> Reply {
        self.send("POST", "/v1/completions", body.to_string()).await
    }

    /// `POST /v1/completions` with `stream`, read event by event. Dropping the events closes the connection.
    pub async fn events(&self, body: &Value) -> Events {
        let mut body = body.clone();
        body["stream"] = true.into();
        // A client of its own, so that its connection ends with it.
        let client = reqwest::Client::builder()
            .timeout(HANG)
            .build()
            .expect("a client needs no system settings");
        let request = client.post(format!("{}/v1/completions", self.url)).json(&body);
        let response = request.send().await.expect("a response");
        let status = response.status().as_u16();
        if status != 200 {
            panic!(
                "status {status} instead of a stream: {}",
                response.text().await.unwrap_or_default()
            );
        }
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Events::new(response)
    }

    /// A good answer, streamed if the body says so.
    pub async fn answer(&self, body: &Value) -> Answer {
        if body["stream"] == true {
            return Answer::of_stream(self.events(body).await).await;
        }
        let reply = self.complete(body).await;
        assert_eq!(reply.status, 200, "{body}: {}", reply.body);
        Answer::of_whole(&reply.json())
    }

    pub async fn info(&self) -> Value {
        self.get("/info").await.json()
    }

    /// Whether a load balancer that opens a new connection is told that requests are taken.
    pub async fn says_ready(&self) -> bool {
        let probe = reqwest::Client::builder()
            .timeout(HANG)
            .build()
            .expect("a client needs no system settings");
        let response = probe.get(format!("{}/health/ready", self.url)).send().await;
        response.is_ok_and(|response| response.status().is_success())
    }

    /// Sends a signal, `INT` or `TERM`.
    pub fn signal(&self, name: &str) {
        // The shell's own kill: no program of that name needs to be installed.
        let status = Command::new("sh")
            .args(["-c", &format!("kill -{name} {}", self.child.id())])
            .status();
        assert!(status.is_ok_and(|status| status.success()), "SIG{name} cannot be sent");
    }

    /// Waits for the process to end by itself.
    pub async fn ended(&mut self) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                return status;
            }
            assert!(started.elapsed() < HANG, "the server does not end");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Server {
    #[expect(clippy::print_stderr, reason = "the harness shows it with the failed test")]
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
        if std::thread::panicking() {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(30)..].join("\n");
            eprintln!("the log of the server at {} ends with:\n{tail}", self.url);
        }
    }
}

pub(super) async fn read(request: reqwest::RequestBuilder) -> Reply {
    let response = request.send().await.expect("a response");
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Reply {
        status,
        headers,
        body: response.text().await.expect("a body"),
    }
}

/// Runs the binary with arguments with which it must end by itself: its exit code and standard error.
pub fn run_to_end(args: &[&str]) -> (i32, String) {
    let Output { status, stderr, stdout } = Command::new(BINARY).args(args).output().expect("the binary starts");
    let code = status.code().unwrap_or_else(|| panic!("{args:?}: ended by {status}"));
    let stderr = String::from_utf8(stderr).expect("messages are UTF-8");
    assert!(stdout.is_empty(), "{args:?}: an error belongs on standard error alone");
    (code, stderr)
}
