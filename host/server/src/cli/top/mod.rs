//! `tokenrouter-host top`: what the models of a running host do now, from the timeline of their steps.

mod view;

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use self::view::View;
use super::connection::Connection;
use super::numbers::whole;
use super::{Failure, output};

pub(super) const TOP_EXAMPLES: &str = "\
Examples:
  tokenrouter-host top
      The host at 127.0.0.1:30000, once a second, until Ctrl-C.
  tokenrouter-host top --url http://10.0.0.7:30000 --every 5
      Another one, every five seconds.
  tokenrouter-host top --once
      One look at the steps of the last second.

Columns: requests that wait, are in a step, and are away with their KV kept; then of the steps since the last look: steps/s, how much
of the time the model was in one, requests in a step, how long a step took and how long the first of its requests had waited.";

/// Clears the terminal and goes to its first line.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Options of `top`.
#[derive(Debug, Args)]
pub(super) struct TopArgs {
    /// Where the host is
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:30000")]
    url: String,
    /// File with the host's key in its first line, as KEY or as NAME KEY [default: the environment variable
    /// TOKENROUTER_API_KEY]
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,
    /// Time between looks, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = whole(1..=3600_u64))]
    every: u64,
    /// Look once, at the steps of the last second, and end
    #[arg(long)]
    once: bool,
}

/// Looks until it is stopped.
pub(super) fn run(args: &TopArgs) -> Result<(), Failure> {
    let connection = Connection::remote(&args.url, args.api_key_file.as_deref()).map_err(Failure::Asked)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Failure::other)?;
    let clear = if std::io::stdout().is_terminal() && !args.once {
        CLEAR
    } else {
        ""
    };
    let mut view = View::default();
    runtime.block_on(async {
        loop {
            let timeline = connection.json(&view.path()).await.map_err(Failure::Other)?;
            let text = view.look(&timeline).map_err(Failure::Other)?;
            output::print(&format!("{clear}{text}"))?;
            std::io::stdout().flush().map_err(Failure::other)?;
            if args.once {
                return Ok(());
            }
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs(args.every)) => {}
                _ = tokio::signal::ctrl_c() => return Ok(()),
            }
        }
    })
}
