//! `tokenrouter-host chat`: answers in a terminal, every token in the colour of the model that wrote it.

mod args;
mod command;
mod events;
mod history;
mod session;
mod writer;

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::sync::Arc;

use anyhow::anyhow;
use tokenrouter_host::http::{Access, App, router};
use tokio::runtime::Runtime;

pub(super) use self::args::{CHAT_EXAMPLES, ChatArgs};

use self::args::Colour;
use self::command::Line;
use self::history::History;
use self::session::Session;
use super::connection::Connection;
use super::{Failure, logging, output};

/// Asks what is given, or line by line until there are no more.
pub(super) fn run(args: &ChatArgs) -> Result<(), Failure> {
    logging::start("warn", logging::Format::Text).map_err(Failure::Asked)?;
    let runtime = Runtime::new().map_err(Failure::other)?;
    let connection = match &args.url {
        Some(url) => Connection::remote(url, args.api_key_file.as_deref()).map_err(Failure::Asked)?,
        None => local(args, &runtime)?,
    };
    let out_is_terminal = std::io::stdout().is_terminal();
    let coloured = match args.color {
        Colour::Auto => out_is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        Colour::Always => true,
        Colour::Never => false,
    };
    let begin = Session::begin(connection, args, coloured);
    // A host that is not there is no mistake of the command line.
    let mut session =
        runtime
            .block_on(begin)
            .map_err(|error| match error.chain().any(|cause| cause.is::<std::io::Error>()) {
                true => Failure::Other(error),
                false => Failure::Asked(error),
            })?;
    let mut history = History::open(args.history.as_deref()).map_err(Failure::Asked)?;
    if let Some(prompt) = &args.prompt {
        return ask(&runtime, &mut session, prompt).map_err(Failure::Other);
    }
    if std::io::stdin().is_terminal() && out_is_terminal {
        return converse(&runtime, &mut session, &mut history);
    }
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(Failure::other)?;
        // Nobody sees a mistake and goes on: the first one ends it.
        if !obey(&runtime, &mut session, &mut history, &line).map_err(Failure::Other)? {
            break;
        }
    }
    Ok(())
}

/// A host in this process: the same API, without a socket.
fn local(args: &ChatArgs, runtime: &Runtime) -> Result<Connection, Failure> {
    let file = args.deployment.clone().file().map_err(Failure::asked)?;
    // Loading and starting belong to no runtime; what serves does.
    let _entered = runtime.enter();
    let loaded = file.load().map_err(Failure::asked)?;
    let app = App::start(&file, loaded).map_err(Failure::other)?;
    Ok(Connection::Local(router(Arc::new(app), &Access::default())))
}

/// At a terminal: mistakes are told and forgotten.
#[expect(
    clippy::print_stderr,
    reason = "a mistake of the person at the terminal, who goes on"
)]
fn converse(runtime: &Runtime, session: &mut Session, history: &mut History) -> Result<(), Failure> {
    output::print("/help lists the commands; Ctrl-D ends.\n")?;
    loop {
        print(&format!("{}> ", session.model())).map_err(Failure::Other)?;
        let mut line = String::new();
        if std::io::stdin().read_line(&mut line).map_err(Failure::other)? == 0 {
            return output::print("\n");
        }
        match obey(runtime, session, history, &line) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) => eprintln!("error: {error:#}"),
        }
    }
}

/// Does what a line says. Returns false when that is to end.
fn obey(runtime: &Runtime, session: &mut Session, history: &mut History, line: &str) -> anyhow::Result<bool> {
    let said = match command::parse(line).map_err(|error| anyhow!(error))? {
        Line::Nothing => return Ok(true),
        Line::Quit => return Ok(false),
        Line::Ask(text) => {
            history.push(&text)?;
            ask(runtime, session, &text)?;
            return Ok(true);
        }
        Line::Again(number) => {
            let text = history.get(number)?.to_owned();
            print(&format!("{text}\n"))?;
            ask(runtime, session, &text)?;
            return Ok(true);
        }
        Line::History => history.to_string(),
        Line::Policies => session.policies(),
        Line::Policy(name) => {
            session.choose(&name)?;
            format!("{} answers now\n", session.model())
        }
        Line::Set(setting) => {
            session.set(setting);
            return Ok(true);
        }
        Line::Unset(name) => {
            session.unset(&name)?;
            return Ok(true);
        }
        Line::Mode { raw } => {
            session.clear(Some(raw));
            return Ok(true);
        }
        Line::Clear => {
            session.clear(None);
            return Ok(true);
        }
        Line::Stats => session.stats(),
        Line::Help => command::HELP.to_owned(),
    };
    print(&said)?;
    Ok(true)
}

/// One answer and a line's end. Ctrl-C leaves it unfinished; that the connection ends cancels it at the host.
fn ask(runtime: &Runtime, session: &mut Session, text: &str) -> anyhow::Result<()> {
    let asked = runtime.block_on(async {
        tokio::select! {
            answered = session.answer(text, std::io::stdout()) => answered,
            _ = tokio::signal::ctrl_c() => Ok(()),
        }
    });
    print("\n")?;
    asked
}

/// A reader that has gone, as `head` does, ends the command without an error of its own.
fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}
