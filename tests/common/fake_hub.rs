//! A hub on this machine: the part of the Hugging Face hub's HTTP interface that downloads use, with faults on demand. Large files are
//! redirected to another host name, as the hub redirects them to its CDN.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use sha1::Sha1;
use sha2::{Digest as _, Sha256};

/// The commit of every repository here.
pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// What goes wrong.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// The next time that this file is sent, the connection ends after so many bytes.
    pub cut: Option<(String, usize)>,
    /// The first byte of this file is another one than its hash says.
    pub changed: Option<String>,
    /// This file has one byte less than is said of it.
    pub short: Option<String>,
    /// Nobody is let in without this token.
    pub token: Option<String>,
    /// Requests for `old/name` are sent to the repository.
    pub renamed: bool,
}

/// One that answers until the process ends.
pub struct FakeHub {
    pub url: String,
    faults: Arc<Mutex<Faults>>,
    requests: Arc<Mutex<Vec<String>>>,
}

struct Shared {
    id: String,
    files: BTreeMap<String, Vec<u8>>,
    port: u16,
    faults: Arc<Mutex<Faults>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl FakeHub {
    /// A hub with one repository.
    pub fn start(id: &str, files: BTreeMap<String, Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let (faults, requests) = (Arc::<Mutex<Faults>>::default(), Arc::<Mutex<Vec<String>>>::default());
        let shared = Arc::new(Shared {
            id: id.to_owned(),
            files,
            port,
            faults: Arc::clone(&faults),
            requests: Arc::clone(&requests),
        });
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                // A client that goes away is part of the tests.
                std::thread::spawn(move || drop(shared.answer(&stream)));
            }
        });
        Self {
            url: format!("http://127.0.0.1:{port}"),
            faults,
            requests,
        }
    }

    /// The embedded small model as a repository, with files beside it that nobody needs.
    pub fn tiny(id: &str) -> Self {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tiny/small");
        let mut files: BTreeMap<String, Vec<u8>> = ["config.json", "tokenizer.json", "model.safetensors"]
            .map(|name| {
                (
                    name.to_owned(),
                    std::fs::read(folder.join(name)).expect("a model of the repository"),
                )
            })
            .into();
        for name in ["README.md", ".gitattributes", "pytorch_model.bin", "onnx/model.onnx"] {
            files.insert(name.to_owned(), b"nobody reads this".to_vec());
        }
        Self::start(id, files)
    }

    /// All requests so far and none of them again, as `METHOD PATH` with ` RANGE` and ` with a token` behind.
    pub fn requests(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets what goes wrong from now on.
    pub fn fails(&self, faults: Faults) {
        *self.faults.lock().unwrap_or_else(PoisonError::into_inner) = faults;
    }
}

impl Shared {
    fn answer(&self, stream: &TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let mut words = line.split_whitespace();
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (mut range, mut token, mut asked) = (None, None, format!("{method} {path}"));
        loop {
            let mut header = String::new();
            reader.read_line(&mut header)?;
            let Some((name, value)) = header.trim().split_once(": ") else {
                break;
            };
            match name.to_ascii_lowercase().as_str() {
                "range" => {
                    asked.push_str(&format!(" {value}"));
                    range = value
                        .strip_prefix("bytes=")
                        .and_then(|it| it.strip_suffix('-')?.parse::<usize>().ok());
                }
                "authorization" => {
                    asked.push_str(" with a token");
                    token = value.strip_prefix("Bearer ").map(str::to_owned);
                }
                _ => {}
            }
        }
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
        self.respond(stream, method, path, range, token.as_deref())
    }

    fn respond(
        &self,
        stream: &TcpStream,
        method: &str,
        path: &str,
        range: Option<usize>,
        token: Option<&str>,
    ) -> std::io::Result<()> {
        let faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(name) = path.strip_prefix("/cdn/") {
            return self.send(stream, method, name, range, &faults);
        }
        if faults.token.is_some() && faults.token.as_deref() != token {
            return head(stream, "401 Unauthorized", &["content-length: 0".to_owned()]);
        }
        if faults.renamed
            && let Some(rest) = path.strip_prefix("/old/name")
        {
            let to = format!("location: /{}{rest}", self.id);
            return head(stream, "307 Temporary Redirect", &[to, "content-length: 0".to_owned()]);
        }
        let listed = path
            .strip_prefix("/api/models/")
            .and_then(|rest| rest.split_once("/revision/"));
        if let Some((id, revision)) = listed {
            let old = faults.renamed && id == "old/name";
            return match (id == self.id || old, ["main", "v1", COMMIT].contains(&revision)) {
                (true, true) => self.list(stream),
                (true, false) => not_found(stream, "RevisionNotFound"),
                _ => not_found(stream, "RepoNotFound"),
            };
        }
        let prefix = format!("/{}/resolve/{COMMIT}/", self.id);
        let Some((name, content)) = path
            .strip_prefix(&prefix)
            .and_then(|name| self.files.get_key_value(name))
        else {
            return not_found(stream, "EntryNotFound");
        };
        if !is_large(name) {
            return self.send(stream, method, name, range, &faults);
        }
        let size = content.len();
        let headers = [
            format!("x-linked-etag: \"{}\"", hex(&Sha256::digest(content))),
            format!("x-linked-size: {size}"),
            format!("location: http://localhost:{}/cdn/{name}", self.port),
            "content-length: 0".to_owned(),
        ];
        head(stream, "302 Found", &headers)
    }

    fn list(&self, stream: &TcpStream) -> std::io::Result<()> {
        let names: Vec<_> = self
            .files
            .keys()
            .map(|name| serde_json::json!({"rfilename": name}))
            .collect();
        let body = serde_json::json!({"id": self.id, "sha": COMMIT, "siblings": names}).to_string();
        head(stream, "200 OK", &[format!("content-length: {}", body.len())])?;
        (&mut &*stream).write_all(body.as_bytes())
    }

    fn send(
        &self,
        mut stream: &TcpStream,
        method: &str,
        name: &str,
        range: Option<usize>,
        faults: &Faults,
    ) -> std::io::Result<()> {
        let mut content = self.files[name].clone();
        let etag = hex(&Sha1::digest(
            [format!("blob {}\0", content.len()).as_bytes(), &content].concat(),
        ));
        if faults.changed.as_deref() == Some(name) {
            content[0] ^= 1;
        }
        if faults.short.as_deref() == Some(name) {
            content.pop();
        }
        let start = range.unwrap_or(0);
        if start > 0 && start >= content.len() {
            return head(stream, "416 Range Not Satisfiable", &["content-length: 0".to_owned()]);
        }
        let body = &content[start..];
        let mut headers = vec![format!("etag: \"{etag}\""), format!("content-length: {}", body.len())];
        if start > 0 {
            headers.push(format!(
                "content-range: bytes {start}-{}/{}",
                content.len() - 1,
                content.len()
            ));
        }
        head(
            stream,
            if start > 0 { "206 Partial Content" } else { "200 OK" },
            &headers,
        )?;
        if method == "HEAD" {
            return Ok(());
        }
        let cut = faults
            .cut
            .as_ref()
            .filter(|(cut, _)| cut == name)
            .map(|(_, after)| *after);
        if cut.is_some() {
            self.faults.lock().unwrap_or_else(PoisonError::into_inner).cut = None;
        }
        stream.write_all(&body[..cut.unwrap_or(body.len())])
    }
}

/// Whether the hub keeps a file elsewhere.
fn is_large(name: &str) -> bool {
    [".safetensors", ".gguf", ".bin"].iter().any(|end| name.ends_with(end))
}

fn not_found(stream: &TcpStream, code: &str) -> std::io::Result<()> {
    head(
        stream,
        "404 Not Found",
        &[format!("x-error-code: {code}"), "content-length: 0".to_owned()],
    )
}

fn head(mut stream: &TcpStream, status: &str, headers: &[String]) -> std::io::Result<()> {
    let lines = headers.join("\r\n");
    stream.write_all(format!("HTTP/1.1 {status}\r\nconnection: close\r\n{lines}\r\n\r\n").as_bytes())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
