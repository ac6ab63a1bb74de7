//! `tokenrouter-host serve`: load, listen, serve, end.

use std::sync::Arc;

use tokenrouter_host::deployment::DeploymentFile;
use tokenrouter_host::http::{App, Server};

use super::args::ServeArgs;
use super::signals::Signals;
use super::{Failure, banner, logging};

pub(super) fn serve(args: ServeArgs) -> Result<(), Failure> {
    logging::start(&args.log).map_err(Failure::Asked)?;
    let record = args.record.clone();
    let file = args.deployment().map_err(Failure::asked)?;
    let mut loaded = file.load().map_err(Failure::asked)?;
    let recorder = record.start(&file, &mut loaded)?;
    let app = Arc::new(App::start(&file, loaded).map_err(Failure::other)?);
    let runtime = tokio::runtime::Runtime::new().map_err(Failure::other)?;
    let result = runtime.block_on(listen(&file, &app));
    // Connections that were not waited for are dropped here, and with them their requests.
    runtime.shutdown_background();
    if let Some(recorder) = recorder {
        recorder.finish();
    }
    result
}

async fn listen(file: &DeploymentFile, app: &Arc<App>) -> Result<(), Failure> {
    let signals = Signals::listen().map_err(Failure::other)?;
    let server = Server::bind(app.clone(), file.server.clone())
        .await
        .map_err(Failure::other)?;
    print(&banner::text(file, app, server.local_addr()));
    let stop = {
        let first = signals.after(1);
        let drain_s_max = file.server.drain_s_max;
        async move {
            first.await;
            tracing::info!(
                drain_s_max = drain_s_max.get(),
                "ending: running requests may finish; a second signal ends at once"
            );
        }
    };
    let all_finished = server.run(stop, signals.after(2)).await;
    tracing::info!(all_finished, "ended");
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the banner is what the command has to say")]
fn print(text: &str) {
    println!("{text}");
}
