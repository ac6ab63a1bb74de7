//! `POST /v1/completions`: from a body to an answer, whole or streamed.

mod answers;
mod fields;
mod log;
mod request;
mod response;
mod sse;
mod unsupported;
mod whole;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use tokenrouter_engine::stream::AnswerStream;

use self::answers::Answers;
use self::log::RequestLog;
use self::request::CompletionRequest;
use self::response::Frame;
use super::request_id::RequestId;
use super::{ApiError, App, app, body};

pub(super) use self::request::STOP_STRINGS_MAX;

/// A request whose answers are being written.
struct Running {
    app: Arc<App>,
    answers: Answers,
    frame: Frame,
    log: RequestLog,
    stream: bool,
    include_usage: bool,
    attribution: bool,
}

/// Answers a request.
pub(super) async fn create(
    State(app): State<Arc<App>>,
    Extension(id): Extension<RequestId>,
    request: Request,
) -> Response {
    let log = RequestLog::start(&id);
    match begin(app, &id, log, request).await {
        Ok(running) if running.stream => sse::respond(running),
        Ok(running) => whole::respond(running).await,
        Err(error) => error.into_response(),
    }
}

async fn begin(app: Arc<App>, id: &RequestId, mut log: RequestLog, request: Request) -> Result<Running, ApiError> {
    let submitted = match body::read(&app, request).await {
        Ok(body) => submit_elsewhere(app.clone(), body).await,
        Err(error) => Err(error),
    };
    let (request, streams) = submitted.inspect_err(|error| log.refused(error))?;
    let frame = Frame {
        id: format!("cmpl-{}", id.0),
        created: app::now_s(),
        model: request.model,
        seeds: streams.iter().map(AnswerStream::seed).collect(),
    };
    log.accepted(
        &frame.model,
        app.models.iter().map(|model| model.name.clone()).collect(),
    );
    Ok(Running {
        answers: Answers::new(streams),
        frame,
        log,
        stream: request.stream,
        include_usage: request.include_usage,
        attribution: request.attribution,
        app,
    })
}

/// Parsing, encoding and the policy's `admit` may take milliseconds, which the threads that serve connections don't have.
async fn submit_elsewhere(app: Arc<App>, body: Bytes) -> Result<(CompletionRequest, Vec<AnswerStream>), ApiError> {
    let submitted = tokio::task::spawn_blocking(move || submit(&app, &body)).await;
    submitted.unwrap_or_else(|error| {
        tracing::error!(%error, "submission panicked");
        Err(ApiError::Failed("the server failed on this request".to_owned()))
    })
}

/// All prompts or none: those that were taken are cancelled when a later one is not, since dropping a stream does that.
fn submit(app: &App, body: &[u8]) -> Result<(CompletionRequest, Vec<AnswerStream>), ApiError> {
    let request = CompletionRequest::parse(body, &app.names, app.prompts_max)?;
    let jobs = request.jobs(app.engine.tokenizer())?;
    let several = jobs.len() > 1;
    let streams = jobs.iter().enumerate().map(|(index, job)| {
        app.engine.submit(job).map_err(|error| ApiError::Submit {
            prompt: several.then_some(index),
            error,
        })
    });
    let streams = streams.collect::<Result<_, _>>()?;
    Ok((request, streams))
}
