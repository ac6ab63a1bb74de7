//! `tokenrouter-host serve`: listen, load, serve, end.

use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use tokenrouter_host::deployment::DeploymentFile;
use tokenrouter_host::http::auth::Keys;
use tokenrouter_host::http::{Access, App, BindError, Server};
use tokenrouter_host::trace::Recorder;

use super::args::ServeArgs;
use super::banner::Listening;
use super::record::RecordArgs;
use super::signals::Signals;
use super::{Failure, administration, banner, logging};

/// Keys from the environment, so that they need not be in a file.
const KEYS_VARIABLE: &str = "TOKENROUTER_API_KEYS";

/// How often the engine is looked at for whether it has stopped for good.
const FAILURE_PERIOD: Duration = Duration::from_millis(500);

pub(super) fn serve(args: ServeArgs) -> Result<(), Failure> {
    let watch = args.administration.watch;
    logging::start(&args.log, args.log_format).map_err(Failure::Asked)?;
    let record = args.record.clone();
    let file = args.deployment().map_err(Failure::asked)?;
    let keys = keys_of_environment().map_err(Failure::Asked)?;
    let access = Access::read(&file.server, &file.base, keys).map_err(Failure::asked)?;
    // Models take their time: what can be told without them is told before.
    administration::check(&file, watch).map_err(Failure::Asked)?;
    record.check().map_err(Failure::Asked)?;
    let runtime = tokio::runtime::Runtime::new().map_err(Failure::other)?;
    let mut recorder = None;
    let result = runtime.block_on(run(&file, &access, watch, &record, &mut recorder));
    // Connections that were not waited for are dropped here, and with them their requests.
    runtime.shutdown_background();
    if let Some(recorder) = recorder {
        recorder.finish();
    }
    result
}

fn keys_of_environment() -> anyhow::Result<Keys> {
    match std::env::var(KEYS_VARIABLE) {
        Ok(text) => Ok(Keys::parse(&text.replace(',', "\n"), KEYS_VARIABLE)?),
        Err(std::env::VarError::NotPresent) => Ok(Keys::default()),
        Err(error) => Err(anyhow!("{KEYS_VARIABLE}: {error}")),
    }
}

/// Listens first: whoever asks while models are loaded is told so instead of finding nobody.
async fn run(
    file: &DeploymentFile,
    access: &Access,
    watch: bool,
    record: &RecordArgs,
    recorder: &mut Option<Recorder>,
) -> Result<(), Failure> {
    let signals = Signals::listen().map_err(Failure::other)?;
    let server = Server::bind(file.server.clone(), access.clone());
    let server = server.await.map_err(|error| {
        // What is no address will not become one; one that is in use may become free.
        let kind = if let BindError::Other { source, .. } = &error {
            Some(source.kind())
        } else {
            None
        };
        if kind == Some(std::io::ErrorKind::InvalidInput) {
            Failure::asked(error)
        } else {
            Failure::other(error)
        }
    })?;
    warn_if_open(&server, access);
    let (gate, local) = (server.gate(), server.local_addr());
    let mut administration = None;
    let start = async {
        let loaded = tokio::select! {
            loaded = load(file.clone(), record.clone()) => loaded?,
            () = signals.after(1) => return Ok(()),
        };
        let app = Arc::new(loaded.0);
        *recorder = loaded.1;
        gate.open(app.clone(), access);
        let started = administration::start(file, &app, watch).await?;
        let listening = Listening {
            clients: local,
            has_tls: access.has_tls(),
            admin: started.listening,
        };
        // Kept to the end, not only until the first signal.
        administration = Some(started);
        print(&banner::text(file, &app, listening));
        tokio::select! {
            () = signals.after(1) => {
                let drain_s_max = file.server.drain_s_max.get();
                tracing::info!(drain_s_max, "ending: running requests may finish; a second signal ends at once");
                Ok(())
            }
            reason = failure(&app) => Err(Failure::Other(anyhow!(reason))),
        }
    };
    let mut ended = Ok(());
    let all_finished = server.run(async { ended = start.await }, signals.after(2)).await;
    if ended.is_ok() {
        tracing::info!(all_finished, "ended");
    }
    drop(administration);
    ended
}

/// Takes as long as the models' weights do, so it has a thread of its own.
async fn load(file: DeploymentFile, record: RecordArgs) -> Result<(App, Option<Recorder>), Failure> {
    let loading = tokio::task::spawn_blocking(move || {
        let mut loaded = file.load().map_err(Failure::asked)?;
        let recorder = record.start(&file, &mut loaded)?;
        Ok((App::start(&file, loaded).map_err(Failure::other)?, recorder))
    });
    loading.await.map_err(Failure::other)?
}

/// Ends when the engine has stopped for good, with the reason: whoever started the process can start it again.
async fn failure(app: &App) -> String {
    loop {
        if let Some(reason) = app.engine.failure() {
            return reason;
        }
        tokio::time::sleep(FAILURE_PERIOD).await;
    }
}

/// Whoever reaches the address can use the models.
fn warn_if_open(server: &Server, access: &Access) {
    let address = server.local_addr();
    if !address.ip().is_loopback() && access.keys.is_empty() {
        tracing::warn!(%address, "anybody who reaches this address can use the models: give keys with --api-key-file");
    }
}

#[expect(clippy::print_stdout, reason = "the banner is what the command has to say")]
fn print(text: &str) {
    println!("{text}");
}
