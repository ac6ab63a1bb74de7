//! What the command line makes of a deployment.

use clap::{CommandFactory as _, Parser as _};
use tokenrouter_host::deployment::{DeploymentFile, OptionValue};

use super::args::{Cli, Command};
use super::with_negative_numbers;

fn deployment(args: &[&str]) -> DeploymentFile {
    let cli = Cli::try_parse_from([&["tokenrouter-host"], args].concat()).unwrap();
    let serve = match cli.command {
        Some(Command::Serve(serve)) => serve,
        _ => cli.serve,
    };
    serve.deployment().unwrap()
}

fn usage_error(args: &[&str]) -> String {
    Cli::try_parse_from([&["tokenrouter-host"], args].concat())
        .unwrap_err()
        .to_string()
}

#[test]
fn the_definition_of_the_command_line_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn serve_is_what_is_done_without_a_subcommand() {
    let args = ["--listen", "127.0.0.1:0", "--launch", "threshold:1,4", "--drain", "5"];
    let (plain, named) = (deployment(&args), deployment(&[&["serve"], args.as_slice()].concat()));
    assert_eq!(plain, named);
    assert_eq!(plain.server.listen, "127.0.0.1:0");
    assert_eq!(plain.launch.rule.to_string(), "threshold:1,4");
    assert_eq!(plain.server.drain_s_max.get(), 5);
    assert_eq!(deployment(&[]), DeploymentFile::built_in().unwrap());
}

#[test]
fn options_join_those_of_the_deployment_but_not_those_of_another_policy() {
    let nats = OptionValue::Text("nats".to_owned());
    let joined = deployment(&["--plugin-config", "threshold=0.05"]).policy;
    assert_eq!(joined.options["threshold"], OptionValue::Number(0.05));
    assert_eq!(joined.options["unit"], nats);
    let same = deployment(&["--plugin", "r-stitch"]).policy;
    assert_eq!(same.options["unit"], nats);
    let other = deployment(&["--plugin", "random", "--plugin-config", "share=0.3"]).policy;
    assert_eq!(other.options.len(), 1);
    assert_eq!(other.options["share"], OptionValue::Number(0.3));
    assert!(deployment(&["--plugin", "none"]).policy.options.is_empty());
}

#[test]
fn mistakes_are_usage_errors_that_say_what_would_be_right() {
    for (args, part) in [
        (
            vec!["--plugin-config", "threshold"],
            "\"threshold\" is not NAME=VALUE, as in threshold=0.2",
        ),
        (
            vec!["--launch", "fast"],
            "\"fast\" is not a launch rule; they are eager",
        ),
        (vec!["--drain", "soon"], "\"soon\" is not a whole number of seconds"),
        (vec!["--drain", "-1"], "-1 is out of range: it must be 0 to 86400"),
        (vec!["--plugn", "x"], "unexpected argument '--plugn'"),
        (vec!["start"], "unrecognized subcommand 'start'"),
    ] {
        let error = usage_error(&args);
        assert!(error.contains(part), "{args:?}: {error}");
    }
}

/// Every option of every command with a value that is none: whatever is refused is refused in words of this program, and a
/// negative number is taken for a number.
#[test]
fn values_of_options_are_refused_with_what_would_be_right() {
    fn walk(command: &clap::Command, path: &[&str], refused: &mut usize) {
        for argument in command.get_arguments() {
            let Some(name) = argument.get_long().filter(|_| argument.get_action().takes_values()) else {
                continue;
            };
            for value in ["@", "-1", "1e999"] {
                let option = format!("--{name}");
                let line = [&["tokenrouter-host"], path, &[option.as_str(), value]].concat();
                let Err(error) = with_negative_numbers(Cli::command()).try_get_matches_from(&line) else {
                    continue;
                };
                let text = error.to_string();
                for part in [
                    "invalid digit",
                    "invalid float",
                    "not in ",
                    "too large",
                    "unexpected argument",
                ] {
                    assert!(!text.contains(part), "{line:?}: {text}");
                }
                *refused += usize::from(error.kind() == clap::error::ErrorKind::ValueValidation);
            }
        }
        for inner in command.get_subcommands() {
            walk(inner, &[path, &[inner.get_name()]].concat(), refused);
        }
    }
    let mut refused = 0;
    walk(&Cli::command(), &[], &mut refused);
    assert!(
        refused > 100,
        "only {refused} values were refused, so this looks at too little"
    );
}

#[test]
fn an_error_and_its_causes_are_said_once() {
    let missing = DeploymentFile::read("no-such-file.toml".as_ref()).unwrap_err();
    let text = super::explain(&missing.into());
    assert_eq!(text.matches("os error 2").count(), 1, "{text}");
    let outer = anyhow::anyhow!("inner").context("outer");
    assert_eq!(super::explain(&outer), "outer: inner");
}
