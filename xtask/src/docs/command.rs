//! The commands of a block.

use std::ops::Range;

/// One command. Lines count from 0.
#[derive(Debug, PartialEq)]
pub struct Command {
    pub line: usize,
    /// As the shell gets it, of several lines perhaps.
    pub text: String,
    /// The page's lines with what it prints; empty where none is shown.
    pub output: Range<usize>,
}

impl Command {
    /// A command that no reader sees, run for a line of the page.
    pub fn hidden(text: &str, line: usize) -> Self {
        Self {
            line,
            text: text.to_owned(),
            output: line..line,
        }
    }

    /// Whether it goes on until it is told to end: the host without a subcommand, or `serve`.
    pub fn starts_a_server(&self) -> bool {
        let code = self.text.split(" #").next().unwrap_or_default();
        let mut words = code.split_whitespace().peekable();
        match words.next() {
            Some("tokenrouter-host") => {}
            Some("cargo") if words.next() == Some("run") => {
                let own: Vec<&str> = words.by_ref().take_while(|word| *word != "--").collect();
                if own != ["--release"] {
                    return false;
                }
            }
            _ => return false,
        }
        let serves = words
            .peek()
            .is_none_or(|word| *word == "serve" || word.starts_with("--"));
        serves && !words.any(|word| ["--help", "-h", "--version", "-V"].contains(&word))
    }
}

/// Splits a block, whose first line is the page's `first`. In a console, commands stand behind `$ ` and the rest is output;
/// else every line is a command or goes on with one.
pub fn split(lines: &[String], first: usize, is_console: bool) -> Vec<Result<Command, (usize, String)>> {
    let mut commands: Vec<Result<Command, (usize, String)>> = Vec::new();
    let mut number = 0;
    while number < lines.len() {
        let at = first + number;
        let beginning = if is_console {
            lines[number].strip_prefix("$ ")
        } else {
            Some(lines[number].as_str())
        };
        let Some(beginning) = beginning else {
            match commands.last_mut() {
                Some(Ok(command)) => command.output.end = at + 1,
                Some(Err(_)) => {}
                None => commands.push(Err((at, "a console begins with `$ ` and a command".to_owned()))),
            }
            number += 1;
            continue;
        };
        number += 1;
        if beginning.trim().is_empty() || beginning.trim_start().starts_with('#') {
            continue;
        }
        let mut text = beginning.to_owned();
        while goes_on(&text) && number < lines.len() {
            text = text + "\n" + &lines[number];
            number += 1;
        }
        if goes_on(&text) {
            commands.push(Err((at, format!("`{text}` has no end"))));
            continue;
        }
        let (line, output) = (at, first + number..first + number);
        commands.push(Ok(Command { line, text, output }));
    }
    commands
}

/// Whether the shell would want another line: within quotes, or behind a backslash.
fn goes_on(text: &str) -> bool {
    let (mut quote, mut before) = (None, ' ');
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            // A comment ends with its line.
            (None, '#') if before.is_whitespace() => match characters.by_ref().find(|&next| next == '\n') {
                Some(_) => {}
                None => return false,
            },
            (None | Some('"'), '\\') => match characters.next() {
                Some(_) => {}
                None => return true,
            },
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            _ => {}
        }
        before = character;
    }
    quote.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(block: &str, is_console: bool) -> Vec<(String, Range<usize>)> {
        let lines: Vec<String> = block.lines().map(str::to_owned).collect();
        let commands = split(&lines, 10, is_console);
        commands
            .into_iter()
            .map(|command| command.unwrap())
            .map(|command| (command.text, command.output))
            .collect()
    }

    #[test]
    fn a_command_goes_on_within_quotes_and_behind_a_backslash() {
        let block = "# what it's for\ncurl a \\\n  -d '{\n}'\n\nls    # it's here\necho \"\\\"'\"";
        let found = texts(block, false);
        let expected = ["curl a \\\n  -d '{\n}'", "ls    # it's here", "echo \"\\\"'\""];
        assert_eq!(
            found.iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>(),
            expected
        );
    }

    #[test]
    fn a_console_has_outputs() {
        let found = texts("$ a \\\n  b\none\ntwo\n$ c\n$ d\nthree", true);
        assert_eq!(
            found,
            [
                ("a \\\n  b".to_owned(), 12..14),
                ("c".to_owned(), 15..15),
                ("d".to_owned(), 16..17)
            ]
        );
        let wrong = split(&["output".to_owned()], 3, true);
        assert_eq!(wrong[0].as_ref().unwrap_err().0, 3);
        let open = split(&["echo 'a".to_owned()], 3, false);
        assert!(open[0].as_ref().unwrap_err().1.contains("has no end"));
    }

    #[test]
    fn servers_are_told_from_what_ends() {
        let server = |text: &str| {
            Command {
                line: 0,
                text: text.to_owned(),
                output: 0..0,
            }
            .starts_a_server()
        };
        for text in [
            "tokenrouter-host",
            "tokenrouter-host --plugin random     # a policy",
            "tokenrouter-host serve --record trace.jsonl",
            "cargo run --release          # builds",
            "cargo run --release -- --config config/smollm2.toml",
        ] {
            assert!(server(text), "{text}");
        }
        for text in [
            "tokenrouter-host --help",
            "tokenrouter-host chat --raw 1+1=",
            "cargo run --release --example load",
            "cargo run --release -- plan",
            "cargo test --release",
            "cargo bench",
        ] {
            assert!(!server(text), "{text}");
        }
    }
}
