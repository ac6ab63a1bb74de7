//! Commands: `commands.txt`.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use super::rows;
use crate::common::file;

const BINARY: &str = env!("CARGO_BIN_EXE_tokenrouter-host");

/// Files that somebody may name by mistake, by what the table calls them.
struct Files {
    names: Vec<(&'static str, String)>,
    _folder: tempfile::TempDir,
    _taken: TcpListener,
}

impl Files {
    fn new() -> Self {
        let text = |path: &Path| path.to_str().expect("paths of tests are UTF-8").to_owned();
        let folder = tempfile::TempDir::new().expect("a folder can be made");
        let picture = folder.path().join("picture");
        std::fs::create_dir(picture.with_extension("svg")).expect("a folder can be made");
        let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let names = vec![
            ("TAKEN", taken.local_addr().expect("an address").to_string()),
            ("MISSING", text(&folder.path().join("missing"))),
            ("FOLDER", text(folder.path())),
            ("PICTURE", text(&picture)),
            ("GARBLED", text(&file("garbled", b"garbled\0\xff"))),
            ("EMPTY", text(&file("empty", ""))),
            ("NOJSON", text(&file("no.jsonl", "no JSON\n"))),
            (
                "PROMPT",
                text(&file("one.jsonl", "{\"prompt\": \"12+34=\", \"answer\": \"46\"}\n")),
            ),
            ("SHORTKEY", text(&file("short.key", "alice 123\n"))),
        ];
        Self {
            names,
            _folder: folder,
            _taken: taken,
        }
    }

    /// A cell with paths in place of these names.
    fn fill(&self, cell: &str) -> String {
        self.names
            .iter()
            .fold(cell.to_owned(), |cell, (name, path)| cell.replace(name, path))
    }

    /// Runs a command line where nothing of this machine's user counts: exit code, standard output, standard error.
    fn run(&self, line: &str) -> (i32, String, String) {
        let mut command = Command::new(BINARY);
        for name in [
            "HF_TOKEN",
            "HF_HUB_OFFLINE",
            "OPENAI_API_KEY",
            "TOKENROUTER_API_KEY",
            "TOKENROUTER_API_KEYS",
            "TOKENROUTER_ADMIN_KEY",
        ] {
            command.env_remove(name);
        }
        let command = command
            .args(self.fill(line).split(' '))
            .env("HF_HUB_CACHE", self.fill("FOLDER"))
            .env("HF_ENDPOINT", "http://127.0.0.1:1")
            .output();
        let output = command.expect("the binary starts");
        let code = output.status.code();
        let text = |bytes| String::from_utf8(bytes).expect("messages are UTF-8");
        let code = code.unwrap_or_else(|| panic!("{line}: ended by {}", output.status));
        (code, text(output.stdout), text(output.stderr))
    }
}

#[test]
fn commands_say_what_is_wrong_where_and_what_would_be_right() {
    let files = Files::new();
    let mut wrong = Vec::new();
    for row in rows(include_str!("commands.txt")) {
        let [code, line, parts @ ..] = row.as_slice() else {
            panic!("a row has a code and a command: {row:?}");
        };
        let (found, stdout, stderr) = files.run(line);
        let said = if line.starts_with("doctor") {
            format!("{stdout}{stderr}")
        } else {
            stderr.clone()
        };
        let mut complain = |what: String| wrong.push(format!("{line}: {what}\n    {}", said.replace('\n', "\n    ")));
        if found.to_string() != *code {
            complain(format!("exit code {found}, not {code}"));
        }
        if !stderr.lines().any(|line| line.starts_with("error: ")) || said.contains("panicked") {
            complain("no line begins with \"error: \", or it panicked".to_owned());
        }
        // Scripts read standard output.
        if found == 2 && !stdout.is_empty() {
            complain(format!(
                "an error belongs on standard error alone, and there is {stdout:?}"
            ));
        }
        for part in parts
            .iter()
            .map(|part| files.fill(part))
            .filter(|part| !said.contains(part))
        {
            complain(format!("{part:?} is not said"));
        }
    }
    assert!(wrong.is_empty(), "{} mistakes:\n{}", wrong.len(), wrong.join("\n"));
}

/// A command that is added gets its rows.
#[test]
fn no_command_is_left_out() {
    let files = Files::new();
    let lines: BTreeSet<&str> = rows(include_str!("commands.txt")).map(|row| row[1]).collect();
    let mut asked: Vec<String> = vec![String::new()];
    let mut leaves = 0;
    while let Some(command) = asked.pop() {
        let (code, help, _) = files.run(format!("{command} --help").trim_start());
        assert_eq!(code, 0, "{command} --help");
        let listed = help
            .split_once("\nCommands:\n")
            .map(|(_, after)| after.split("\n\n").next().unwrap_or(after));
        let names = listed
            .unwrap_or("")
            .lines()
            .filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
        let names: Vec<&str> = names.filter(|name| !name.is_empty() && *name != "help").collect();
        asked.extend(
            names
                .iter()
                .map(|name| format!("{command} {name}").trim_start().to_owned()),
        );
        if names.is_empty() {
            leaves += 1;
            let is_of = |line: &&str| **line == command || line.starts_with(&format!("{command} "));
            assert!(lines.iter().any(is_of), "no wrong input for \"{command}\"");
        }
    }
    assert!(leaves > 30, "only {leaves} commands were found");
}
