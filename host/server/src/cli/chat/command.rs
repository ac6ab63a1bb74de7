//! What a line means: something to ask, or a command.

use tokenrouter_host::deployment::parse_setting;
use tokenrouter_policy::Setting;

pub(super) const HELP: &str = "\
/policy           the policies and models that can answer
/policy NAME      let that one answer: a policy, a model of its own, or a name of /v1/models
/set NAME=VALUE   an option of the policy, from the next request on
/unset NAME       take it back
/raw, /chat       continue texts as they are; hold a conversation
/clear            begin a new conversation
/history          what was asked, with numbers
/again [NUMBER]   ask that once more; without a number, the last
/stats            what has been written so far, and by whom
/help             this text
/quit             end, as Ctrl-D does
Ctrl-C stops an answer.
";

/// A line.
#[derive(Debug, PartialEq)]
pub(super) enum Line {
    Nothing,
    Ask(String),
    Policies,
    Policy(String),
    Set(Setting),
    Unset(String),
    Mode {
        raw: bool,
    },
    Clear,
    History,
    /// By its number, or the last.
    Again(Option<usize>),
    Stats,
    Help,
    Quit,
}

/// Reads a line.
///
/// # Errors
/// What is wrong, and what would be right.
pub(super) fn parse(line: &str) -> Result<Line, String> {
    let Some(command) = line.trim().strip_prefix('/') else {
        let line = line.trim_end_matches(['\n', '\r']);
        return Ok(if line.trim().is_empty() {
            Line::Nothing
        } else {
            Line::Ask(line.to_owned())
        });
    };
    let (name, argument) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
    let argument = argument.trim();
    match (name, argument) {
        ("policy", "") => Ok(Line::Policies),
        ("policy", name) => Ok(Line::Policy(name.to_owned())),
        ("set", setting) => parse_setting(setting)
            .map(Line::Set)
            .map_err(|error| format!("/set: {error}")),
        ("unset", "") => Err("/unset takes the name of an option".to_owned()),
        ("unset", name) => Ok(Line::Unset(name.to_owned())),
        ("raw", "") => Ok(Line::Mode { raw: true }),
        ("chat", "") => Ok(Line::Mode { raw: false }),
        ("clear", "") => Ok(Line::Clear),
        ("history", "") => Ok(Line::History),
        ("again", "") => Ok(Line::Again(None)),
        ("again", number) => match number.parse() {
            Ok(number) => Ok(Line::Again(Some(number))),
            Err(_) => Err(format!("/again takes a number of /history, found {number:?}")),
        },
        ("stats", "") => Ok(Line::Stats),
        ("help", "") => Ok(Line::Help),
        ("quit" | "exit", "") => Ok(Line::Quit),
        ("raw" | "chat" | "clear" | "history" | "stats" | "help" | "quit" | "exit", _) => {
            Err(format!("/{name} takes nothing after it"))
        }
        _ => Err(format!("there is no command /{name}; /help lists them")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_questions_unless_they_begin_with_a_slash() {
        for (line, expected) in [
            ("", Line::Nothing),
            ("  \n", Line::Nothing),
            ("1 / 2 = \n", Line::Ask("1 / 2 = ".to_owned())),
            ("/policy", Line::Policies),
            (" /policy  tiny/large ", Line::Policy("tiny/large".to_owned())),
            ("/unset threshold", Line::Unset("threshold".to_owned())),
            ("/raw", Line::Mode { raw: true }),
            ("/again", Line::Again(None)),
            ("/again 3", Line::Again(Some(3))),
            ("/exit", Line::Quit),
        ] {
            assert_eq!(parse(line), Ok(expected), "{line:?}");
        }
        assert!(matches!(parse("/set threshold=0.1"), Ok(Line::Set(setting)) if setting.name == "threshold"));
    }

    #[test]
    fn mistakes_are_told_with_what_would_be_right() {
        for (line, part) in [
            ("/polcy", "/help lists them"),
            ("/", "/help lists them"),
            ("/set threshold", "is not NAME=VALUE"),
            ("/again x", "takes a number of /history"),
            ("/unset", "takes the name of an option"),
            ("/clear all", "takes nothing after it"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(part), "{line:?}: {error}");
        }
    }
}
