//! `cargo xtask docs`: runs the commands of README.md and docs/*.md as a reader would, and compares what they print with what
//! the pages show.
//!
//! Every `sh` and `console` block is run, in the order of its page: one shell a page, in a folder of its own under target/docs that
//! sees the repository's folders. A command that starts a server goes to the background until the next one does, or the page
//! ends. Comments before a block, which no reader sees, say what is different about it:
//!
//! | comment | |
//! |---|---|
//! | `<!-- docs: not run: REASON -->` | the block is not run. Its commands and options must still exist |
//! | ``<!-- docs: not run: `BEGINNING`: REASON -->`` | the same for commands that begin so |
//! | `<!-- docs: before: COMMAND -->` | run first, where a reader has something of their own |
//! | `<!-- docs: file: NAME -->` | the block is the content of this file |
//! | `<!-- docs: output -->` | the block is what the last command printed |
//! | `<!-- docs: numbers vary -->` | numbers and digests in the output may be others |
//!
//! Commands and options that a page's sentences name must exist too, and so must what its links lead to.
//!
//! In an output, `…` stands for anything within a line, and a line of it alone for any lines. Blanks count as one.

mod block;
mod command;
mod links;
mod output;
mod rewrite;
mod session;
mod usage;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use block::{Block, Content};
use command::Command;
use output::Form;
use session::Session;
use usage::Usage;

/// Runs pages, all if none is named, with `binary`, or a new build of it. With `update`, outputs that are others now are replaced in
/// the pages.
///
/// # Errors
/// One paragraph for everything that is not as a page says.
pub fn run(root: &Path, pages: &[PathBuf], update: bool, binary: Option<&Path>) -> Result<String> {
    let pages = if pages.is_empty() { all(root)? } else { pages.to_vec() };
    let binary = match binary {
        Some(binary) => std::path::absolute(binary)?,
        None => build(root)?,
    };
    let (mut usage, mut wrong) = (Usage::new(root, &binary), Vec::new());
    for page in &pages {
        let started = Instant::now();
        let mut walk = Walk::new(root, page, &binary)?;
        if let Err(error) = walk.page(&mut usage) {
            walk.wrong.push(format!("{}: {error:#}", page.display()));
        }
        let seconds = started.elapsed().as_secs_f64();
        super::say(&format!(
            "{}: {} commands, {seconds:.1} s",
            page.display(),
            walk.commands
        ));
        if update {
            walk.save()?;
        } else {
            walk.wrong.extend(walk.changes.iter().map(|change| change.told.clone()));
        }
        wrong.append(&mut walk.wrong);
    }
    if wrong.is_empty() {
        return Ok(format!("{} pages say what happens", pages.len()));
    }
    bail!(
        "{} things are not as the pages say:\n\n{}\n\n`cargo xtask docs --update` replaces outputs",
        wrong.len(),
        wrong.join("\n\n")
    )
}

/// README.md and docs/*.md, relative to the repository.
fn all(root: &Path) -> Result<Vec<PathBuf>> {
    let mut pages = vec![PathBuf::from("README.md")];
    for entry in fs::read_dir(root.join("docs")).context("cannot list docs")? {
        let name = PathBuf::from("docs").join(entry?.file_name());
        pages.extend(name.extension().is_some_and(|it| it == "md").then_some(name));
    }
    pages.sort();
    Ok(pages)
}

/// Builds the host, and says where it is.
fn build(root: &Path) -> Result<PathBuf> {
    let built = Process::new("cargo")
        .args(["build", "--release", "--quiet"])
        .current_dir(root)
        .status();
    if !built.context("cannot start cargo")?.success() {
        bail!("the host does not build");
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    Ok(root.join(target).join("release/tokenrouter-host"))
}

/// An output that is another than the page shows.
struct Change {
    /// The lines of the page, from and behind, counted from 0.
    from: usize,
    behind: usize,
    by: Vec<String>,
    told: String,
}

/// The way through one page.
struct Walk {
    page: PathBuf,
    file: PathBuf,
    lines: Vec<String>,
    session: Session,
    /// What the last command printed.
    last: String,
    commands: usize,
    changes: Vec<Change>,
    wrong: Vec<String>,
}

impl Walk {
    fn new(root: &Path, page: &Path, binary: &Path) -> Result<Self> {
        let file = root.join(page);
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let name = page.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self {
            page: page.to_owned(),
            file,
            lines: text.lines().map(str::to_owned).collect(),
            session: Session::start(root, &root.join("target/docs").join(name), binary)?,
            last: String::new(),
            commands: 0,
            changes: Vec::new(),
            wrong: Vec::new(),
        })
    }

    fn page(&mut self, usage: &mut Usage) -> Result<()> {
        let (blocks, mistakes) = block::read(&self.lines);
        for (line, mistake) in mistakes {
            self.say(line, &mistake);
        }
        for block in &blocks {
            self.block(block, usage)?;
        }
        for (line, mistake) in usage.in_text(&self.lines)? {
            self.say(line, &mistake);
        }
        for (line, mistake) in links::dead(&self.file, &self.lines) {
            self.say(line, &mistake);
        }
        if let Err(error) = self.session.stop_server() {
            self.say(self.lines.len() - 1, &format!("{error:#}"));
        }
        Ok(())
    }

    fn block(&mut self, block: &Block, usage: &mut Usage) -> Result<()> {
        for before in &block.before {
            self.run(&Command::hidden(before, block.fence), false)?;
        }
        let lines = &self.lines[block.from..block.behind];
        match &block.content {
            Content::Other => {}
            Content::File(name) => self.session.write(name, &lines.join("\n"))?,
            Content::Output => {
                let form = Form {
                    numbers_vary: block.numbers_vary,
                    json: block.language == "json",
                };
                self.compare(block.from, block.behind, form);
            }
            Content::Commands => {
                for command in command::split(lines, block.from, block.language == "console") {
                    match command {
                        Err((line, mistake)) => self.say(line, &mistake),
                        Ok(command) if block.is_run(&command.text) => self.command(&command, block)?,
                        Ok(command) => {
                            for mistake in usage.mistakes(&command.text)? {
                                self.say(command.line, &mistake);
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn command(&mut self, command: &Command, block: &Block) -> Result<()> {
        self.commands += 1;
        let shown = &self.lines[command.output.clone()];
        // A page that shows an error shows a command that fails.
        let fails = shown.iter().any(|line| line.starts_with("error"));
        if self.run(command, fails)? && block.language == "console" {
            let form = Form {
                numbers_vary: block.numbers_vary,
                json: false,
            };
            self.compare(command.output.start, command.output.end, form);
        }
        Ok(())
    }

    /// Runs a command to its end, or, if it is a server, until it listens. Returns whether it left an output to look at.
    fn run(&mut self, command: &Command, fails: bool) -> Result<bool> {
        if command.starts_a_server() && !fails {
            if let Err(error) = self.session.serve(&command.text) {
                self.say(command.line, &format!("{error:#}"));
            }
            return Ok(false);
        }
        let done = self.session.run(&command.text)?;
        self.last = done.output;
        // curl ends well whatever the answer is.
        let is_refused = command.text.starts_with("curl ") && self.last.starts_with("{\"error\"");
        let is_right = (done.code != 0 || is_refused) == fails;
        if !is_right {
            let told = format!(
                "`{}` ends with code {}:\n{}",
                command.text,
                done.code,
                self.last.trim_end()
            );
            self.say(command.line, &told);
        }
        Ok(is_right)
    }

    fn compare(&mut self, from: usize, behind: usize, form: Form) {
        let shown = &self.lines[from..behind];
        let found: Vec<String> = self.last.trim_end().lines().map(str::to_owned).collect();
        if output::matches(shown, &found, form) {
            return;
        }
        let indented = |lines: &[String]| lines.iter().map(|line| format!("    {line}\n")).collect::<String>();
        let told = format!(
            "{}:{}: the page shows\n{}and it is\n{}",
            self.page.display(),
            from + 1,
            indented(shown),
            indented(&found).trim_end()
        );
        let by = rewrite::output(shown, &found, form);
        self.changes.push(Change { from, behind, by, told });
    }

    fn say(&mut self, line: usize, what: &str) {
        self.wrong.push(format!("{}:{}: {what}", self.page.display(), line + 1));
    }

    /// Writes the page with the outputs as they are now.
    fn save(&mut self) -> Result<()> {
        if self.changes.is_empty() {
            return Ok(());
        }
        for change in self.changes.iter().rev() {
            self.lines.splice(change.from..change.behind, change.by.iter().cloned());
        }
        fs::write(&self.file, self.lines.join("\n") + "\n")
            .with_context(|| format!("cannot write {}", self.file.display()))
    }
}
