//! Whether commands that are not run at least exist: the host's subcommands and options by its own help, and cargo's examples,
//! benchmarks and tasks by their files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use anyhow::{Context, Result};
use regex::Regex;

/// Help texts by subcommand, as they are asked for.
pub struct Usage {
    root: PathBuf,
    binary: PathBuf,
    helps: BTreeMap<Vec<String>, String>,
}

impl Usage {
    pub fn new(root: &Path, binary: &Path) -> Self {
        Self {
            root: root.to_owned(),
            binary: binary.to_owned(),
            helps: BTreeMap::new(),
        }
    }

    /// What is wrong with commands that a page's sentences name, by line. Blocks are not looked into.
    pub fn in_text(&mut self, lines: &[String]) -> Result<Vec<(usize, String)>> {
        static SPAN: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"`([^`]+)`").expect("it is one"));
        let mut text = String::new();
        let mut is_block = false;
        for line in lines {
            is_block ^= line.starts_with("```");
            text += if is_block || line.starts_with("```") || line.starts_with("<!--") {
                ""
            } else {
                line
            };
            text.push('\n');
        }
        let mut wrong = Vec::new();
        for span in SPAN.captures_iter(&text) {
            let line = text[..span.get(1).map_or(0, |it| it.start())].matches('\n').count();
            wrong.extend(self.mistakes(&span[1])?.into_iter().map(|mistake| (line, mistake)));
        }
        Ok(wrong)
    }

    /// What is wrong with a shell's line; nothing is said of programs that are not of this repository.
    pub fn mistakes(&mut self, text: &str) -> Result<Vec<String>> {
        let text = text.replace("\\\n", " ");
        let mut wrong = Vec::new();
        for line in text.lines() {
            let code = line.split(" #").next().unwrap_or_default();
            for part in code.split(['|', ';']).flat_map(|part| part.split("&&")) {
                let words: Vec<&str> = part.split_whitespace().collect();
                wrong.extend(match words.as_slice() {
                    ["tokenrouter-host", words @ ..] => self.host(words)?,
                    ["cargo", words @ ..] => self.cargo(words)?,
                    _ => None,
                });
            }
        }
        Ok(wrong)
    }

    fn host(&mut self, words: &[&str]) -> Result<Option<String>> {
        static NAME: LazyLock<Regex> = LazyLock::new(|| Regex::new("^[a-z][a-z-]*$").expect("it is one"));
        let mut command: Vec<String> = Vec::new();
        let mut help = self.help(&command)?;
        let mut is_first = true;
        for word in words {
            let name = word.trim_end_matches([',', '.', ')']);
            if let Some(option) = name.strip_prefix("--").filter(|option| !option.is_empty()) {
                let option = option.split('=').next().unwrap_or_default();
                let there = Regex::new(&format!(r"--{}\b[^-]", regex::escape(option)))?;
                if !there.is_match(&help) {
                    let command = [vec!["tokenrouter-host".to_owned()], command].concat().join(" ");
                    return Ok(Some(format!("`{command}` has no option --{option}")));
                }
            } else if let Some(commands) = help.split_once("\nCommands:\n").map(|(_, rest)| rest.to_owned())
                && is_first
                && NAME.is_match(name)
            {
                if !Regex::new(&format!(r"(?m)^  {name}( |$)"))?.is_match(&commands) {
                    return Ok(Some(format!(
                        "`tokenrouter-host {}` has no command {name}",
                        command.join(" ")
                    )));
                }
                command.push(name.to_owned());
                help = self.help(&command)?;
                continue;
            }
            is_first = false;
        }
        Ok(None)
    }

    fn help(&mut self, command: &[String]) -> Result<String> {
        if let Some(help) = self.helps.get(command) {
            return Ok(help.clone());
        }
        let output = Command::new(&self.binary).args(command).arg("--help").output();
        let output = output.with_context(|| format!("cannot run {}", self.binary.display()))?;
        let help = String::from_utf8_lossy(&output.stdout).into_owned();
        self.helps.insert(command.to_vec(), help.clone());
        Ok(help)
    }

    fn cargo(&mut self, words: &[&str]) -> Result<Option<String>> {
        let behind = |option: &str| {
            words
                .iter()
                .position(|word| *word == option)
                .and_then(|at| words.get(at + 1))
        };
        let is_missing = |place: &str| !self.root.join(place).exists();
        for (option, folder) in [("--example", "examples"), ("--bench", "benches")] {
            if let Some(name) = behind(option) {
                let place = format!("{folder}/{name}.rs");
                let crates = std::fs::read_dir(self.root.join("host"))?;
                let mut places = crates.filter_map(|it| Some(it.ok()?.path().join(&place)));
                if is_missing(&place) && !places.any(|path| path.exists()) {
                    return Ok(Some(format!("no crate has {place}")));
                }
            }
        }
        if let Some(module) = words.iter().find_map(|word| word.strip_suffix("::"))
            && words.contains(&"program")
            && is_missing(&format!("tests/{module}.rs"))
        {
            return Ok(Some(format!("there is no tests/{module}.rs")));
        }
        match words {
            ["xtask", task, ..] if !super::super::has_task(task) => {
                Ok(Some(format!("`cargo xtask` has no task {task}")))
            }
            ["run", "--release", "--", words @ ..] => self.host(words),
            _ => Ok(None),
        }
    }
}
