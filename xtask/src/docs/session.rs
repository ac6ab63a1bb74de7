//! A reader's shell: a folder, commands one after the other, and at most one server in the background.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// What hangs is given up after this; the longest command builds a policy.
const HANG: Duration = Duration::from_secs(600);
/// The folder within that a page's commands do not see.
const OWN: &str = ".session";
/// What pages' folders lack of the repository: the manifest, so that cargo finds the repository itself, and hidden files.
const NOT_LINKED: [&str; 3] = ["Cargo.toml", "Cargo.lock", "target"];

/// What a command did.
pub struct Done {
    pub code: i32,
    /// Both streams, as they came.
    pub output: String,
}

/// A shell that lives as long as a page.
pub struct Session {
    folder: PathBuf,
    shell: Child,
    input: ChildStdin,
    answers: Receiver<String>,
    server: Option<Server>,
}

struct Server {
    command: String,
    pid: String,
}

impl Session {
    /// A shell in a new folder that sees the repository's files and finds the host's binary.
    pub fn start(root: &Path, folder: &Path, binary: &Path) -> Result<Self> {
        let context = || format!("cannot make the folder {}", folder.display());
        if folder.exists() {
            fs::remove_dir_all(folder).with_context(context)?;
        }
        let own = folder.join(OWN);
        fs::create_dir_all(own.join("bin")).with_context(context)?;
        symlink(binary, own.join("bin/tokenrouter-host")).with_context(context)?;
        for entry in fs::read_dir(root)? {
            let entry = entry?;
            let name = entry.file_name();
            if !NOT_LINKED.iter().any(|other| name == *other) && !name.as_encoded_bytes().starts_with(b".") {
                symlink(entry.path(), folder.join(entry.file_name())).with_context(context)?;
            }
        }
        // Without a meter, which a pipe has not either.
        fs::write(own.join(".curlrc"), "silent\nshow-error\n").with_context(context)?;
        // Where the tests leave a standard library for WebAssembly that they had to build.
        symlink(root.join("target"), own.join("tokenrouter")).with_context(context)?;
        let mut path = OsString::from(own.join("bin"));
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut shell = Command::new("bash");
        // What `cargo xtask` was given for this program: a build in the reader's shell that saw it would compile ring, and all that
        // depends on it, again.
        let of_cargo = [
            "CARGO_MANIFEST_",
            "CARGO_PKG_",
            "CARGO_BIN_",
            "CARGO_CRATE_",
            "CARGO_PRIMARY_",
        ];
        for (name, _) in std::env::vars_os() {
            if of_cargo.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
                shell.env_remove(name);
            }
        }
        let mut shell = shell
            .args(["--noprofile", "--norc"])
            .current_dir(folder)
            .env("PATH", path)
            .env("SESSION", &own)
            .env("CURL_HOME", &own)
            .env("XDG_CACHE_HOME", &own)
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(own.join("shell.log"))?)
            .spawn()
            .context("cannot start bash")?;
        let (input, output) = (shell.stdin.take(), shell.stdout.take());
        let (sender, answers) = sync_channel(1);
        let output = BufReader::new(output.expect("it is piped"));
        std::thread::spawn(move || {
            for line in output.lines() {
                if line.is_err() || line.is_ok_and(|line| sender.send(line).is_err()) {
                    return;
                }
            }
        });
        let input = input.expect("it is piped");
        Ok(Self {
            folder: folder.to_owned(),
            shell,
            input,
            answers,
            server: None,
        })
    }

    /// Writes a file where commands run at first.
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, format!("{text}\n")).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Runs a command to its end.
    pub fn run(&mut self, command: &str) -> Result<Done> {
        fs::write(self.own("command"), command)?;
        let code = self
            .ask("source \"$SESSION/command\" </dev/null >\"$SESSION/output\" 2>&1; echo $?")
            .with_context(|| format!("running `{command}`"))?;
        let output = fs::read(self.own("output"))?;
        let output = String::from_utf8_lossy(&output).into_owned();
        Ok(Done {
            code: code.parse().with_context(|| format!("the shell answers {code:?}"))?,
            output,
        })
    }

    /// Starts a server, in place of the one that runs, and waits until it listens.
    pub fn serve(&mut self, command: &str) -> Result<()> {
        self.stop_server()?;
        fs::write(self.own("command"), format!("exec {command}\n"))?;
        // The shell may be slower with it than we are.
        fs::write(self.own("server"), "")?;
        let pid = self.ask("(source \"$SESSION/command\") </dev/null >\"$SESSION/server\" 2>&1 & echo $!")?;
        let server = Server {
            command: command.to_owned(),
            pid,
        };
        let started = Instant::now();
        loop {
            let said = fs::read(self.own("server"))?;
            let said = String::from_utf8_lossy(&said);
            if said.lines().any(|line| line.trim_start().starts_with("listening ")) {
                self.server = Some(server);
                return Ok(());
            }
            let is_over = self.ask(&format!("kill -0 {} 2>/dev/null; echo $?", server.pid))? != "0";
            if is_over || started.elapsed() > HANG {
                let state = if is_over { "ends" } else { "does not listen" };
                let said = said.into_owned();
                self.server = (!is_over).then_some(server);
                bail!("`{command}` {state}; it says:\n{said}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends the server, if one runs.
    ///
    /// # Errors
    /// It ends with another code than 0, as its page says of a signal.
    pub fn stop_server(&mut self) -> Result<()> {
        let Some(Server { command, pid }) = self.server.take() else {
            return Ok(());
        };
        let code = self.ask(&format!("kill {pid}; wait {pid}; echo $?"))?;
        if code != "0" {
            let said = fs::read_to_string(self.own("server")).unwrap_or_default();
            bail!("`{command}` ends with code {code} when it is told to; it says:\n{said}");
        }
        Ok(())
    }

    /// Has the shell do something, and returns the one line that it answers.
    fn ask(&mut self, script: &str) -> Result<String> {
        writeln!(self.input, "{script}").context("the shell has ended")?;
        self.answers
            .recv_timeout(HANG)
            .with_context(|| format!("no end after {} s", HANG.as_secs()))
    }

    fn own(&self, name: &str) -> PathBuf {
        self.folder.join(OWN).join(name)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Only after an error is there a server left.
        if let Some(server) = self.server.take() {
            drop(Command::new("kill").arg(server.pid).status());
        }
        drop(self.shell.kill());
        drop(self.shell.wait());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_sets_stays() {
        let root = std::env::temp_dir().join(format!("xtask-docs-{}", std::process::id()));
        fs::create_dir_all(root.join("config")).unwrap();
        fs::write(root.join("Cargo.toml"), "").unwrap();
        let mut session = Session::start(&root, &root.join("target/page"), Path::new("/bin/true")).unwrap();
        session.write("named", "text").unwrap();
        assert_eq!(
            session.run("export A='1 2'; cat named; ls").unwrap().output,
            "text\nconfig\nnamed\n"
        );
        assert_eq!(session.run("mkdir b && cd b    # there").unwrap().code, 0);
        let done = session.run("echo \"$A\" ${PWD##*/}; ls /none/such; false").unwrap();
        assert!(
            done.code == 1 && done.output.starts_with("1 2 b\nls:"),
            "{} {}",
            done.code,
            done.output
        );
        let error = session.serve("echo not me").unwrap_err().to_string();
        assert!(
            error.contains("`echo not me` ends") && error.ends_with("not me\n"),
            "{error}"
        );
        drop(session);
        fs::remove_dir_all(&root).unwrap();
    }
}
