//! What every endpoint that gives answers shares: the fields that say how an answer is written ([`Params`]), the way from
//! jobs to answers, whole or streamed, and the parts of a response that do not depend on the endpoint.
//!
//! An endpoint brings two things: a function that reads its own fields (a prompt, messages) and makes an [`Asked`] of the
//! body, and a [`Shape`], which says how text looks in its responses. [`respond`] does the rest.

mod answers;
mod assumed;
mod event_body;
mod fields;
mod format;
mod log;
mod own;
mod params;
mod prefix;
mod response;
mod sampling;
pub(super) mod schema;
mod shape;
mod sse;
mod steps;
mod stopping;
mod unknown;
mod unsupported;
mod whole;

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::Request;
use axum::http::HeaderName;
use axum::response::{IntoResponse as _, Response};
use tokenrouter_core::TokenId;
use tokenrouter_core::signal::Signal;
use tokenrouter_engine::stream::AnswerStream;
use tokenrouter_model::text::{ChatTemplate, Tokenizer};

use self::answers::{Answers, Tally};
use self::log::RequestLog;
use self::response::Frame;
use super::auth::Client;
use super::request_id::RequestId;
use super::{ApiError, App, ModelNames, app, body};
use crate::deployment::RequestOptions;

pub(super) use self::fields::Fields;
pub(crate) use self::fields::{kind, parse};
pub(super) use self::format::Grammars;
pub(super) use self::params::Params;
pub(super) use self::prefix::PrefixSalts;
pub(super) use self::shape::{Part, Shape, shown_logprob};
pub(super) use self::unknown::UnknownFields;
pub(super) use self::unsupported::{Known, is_empty, is_true};

/// Response header with the numbers of the policy generations that route the answers.
const GENERATION: HeaderName = HeaderName::from_static("tokenrouter-generation");

/// What a request is read against.
#[derive(Clone, Copy)]
pub(super) struct Served<'a> {
    pub(super) names: &'a ModelNames,
    pub(super) tokenizer: &'a Tokenizer,
    /// What makes grammars of formats.
    pub(super) grammars: &'a Grammars,
    /// What makes prompts of conversations, if the deployment has it.
    pub(super) template: Option<&'a ChatTemplate>,
    /// What the operator lets requests set of a policy's options.
    pub(super) request_options: &'a RequestOptions,
    /// Most answers of one request: prompts times `n`.
    pub(super) answers_max: usize,
    /// Most tokens of prompt and answer together.
    pub(super) length_max: u32,
}

impl<'a> Served<'a> {
    /// What an app serves now, under these names.
    pub(super) fn of(app: &'a App, names: &'a ModelNames) -> Self {
        let kv_tokens = u32::try_from(app.engine.limits().kv_tokens).unwrap_or(u32::MAX);
        Self {
            names,
            tokenizer: app.engine.tokenizer(),
            grammars: &app.grammars,
            template: app.template.as_ref(),
            request_options: &app.request_options,
            answers_max: app.prompts_max,
            length_max: app.engine.context_max().min(kv_tokens),
        }
    }
}

/// What an endpoint makes of a body.
pub(super) struct Asked<S> {
    pub(super) params: Params,
    /// As they are fed.
    pub(super) prompts: Vec<Vec<TokenId>>,
    pub(super) shape: S,
}

/// A request whose answers are being written.
struct Running<S> {
    answers: Answers,
    log: RequestLog,
    tally: Tally,
    shape: S,
    context: Context,
}

/// What stays the same while a request runs.
struct Context {
    app: Arc<App>,
    frame: Frame,
    params: Params,
    /// Empty unless the client wants them back.
    prompts: Vec<Vec<TokenId>>,
    /// What the policy of each answer sees, by model; empty unless the client wants to know.
    signals: Vec<Vec<Vec<Signal>>>,
}

/// Answers a request. `read` makes of the body what is asked; it runs on a thread that may take its time.
pub(super) async fn respond<S: Shape>(
    app: Arc<App>,
    id: RequestId,
    request: Request,
    read: fn(Served<'_>, &Fields<'_>) -> Result<Asked<S>, ApiError>,
) -> Response {
    let mut log = RequestLog::start(&id);
    let client = request.extensions().get().copied();
    let submitted = match body::read(&app, request).await {
        Ok(body) => submit_elsewhere(app.clone(), client, body, read).await,
        Err(error) => Err(error),
    };
    match submitted {
        Ok((asked, streams)) => {
            let running = Running::new(app, &id, log, asked, streams);
            let generations = running.answers.generations();
            let response = if running.context.params.stream {
                sse::respond(running)
            } else {
                whole::respond(running).await
            };
            with_generations(response, &generations)
        }
        Err(error) => {
            log.refused(&error);
            error.into_response()
        }
    }
}

/// Tells which generations route the request's answers: one, unless the policy was replaced between its prompts.
fn with_generations(mut response: Response, generations: &[u32]) -> Response {
    let numbers: Vec<String> = generations.iter().map(u32::to_string).collect();
    if let (false, Ok(value)) = (numbers.is_empty(), numbers.join(", ").try_into()) {
        response.headers_mut().insert(GENERATION, value);
    }
    response
}

impl<S: Shape> Running<S> {
    fn new(app: Arc<App>, id: &RequestId, mut log: RequestLog, asked: Asked<S>, streams: Vec<AnswerStream>) -> Self {
        let Asked {
            params,
            mut prompts,
            shape,
        } = asked;
        log.accepted(
            &params.model,
            app.models.iter().map(|model| model.name.clone()).collect(),
        );
        let seeds = streams.iter().map(AnswerStream::seed).collect();
        let signals = streams.iter().map(|stream| stream.signals().to_vec()).collect();
        let answers = Answers::new(streams);
        log.routed_by(&answers.generations());
        let tally = Tally::new(
            prompts.iter().map(Vec::len).sum(),
            prompts.len(),
            answers.len(),
            app.models.len(),
        );
        if !params.return_token_ids {
            prompts.clear();
        }
        let frame = Frame {
            id: format!("{}-{}", S::ID_PREFIX, id.0),
            created: app::now_s(),
            model: params.model.clone(),
            seeds,
        };
        Self {
            answers,
            log,
            tally,
            shape,
            context: Context {
                app,
                frame,
                params,
                prompts,
                signals,
            },
        }
    }
}

/// Parsing, encoding and the policy's `admit` may take milliseconds, which the threads that serve connections don't have.
async fn submit_elsewhere<S: Shape>(
    app: Arc<App>,
    client: Option<Client>,
    body: Bytes,
    read: fn(Served<'_>, &Fields<'_>) -> Result<Asked<S>, ApiError>,
) -> Result<(Asked<S>, Vec<AnswerStream>), ApiError> {
    let submit = move || {
        let body = parse(&body)?;
        let fields = Fields::of_body(&body)?;
        let names = app.names();
        let served = Served::of(&app, &names);
        let asked = read(served, &fields)?;
        let streams = submit(&app, client.as_ref(), served, &asked)?;
        app.unknown_fields.count(fields.unread());
        Ok((asked, streams))
    };
    tokio::task::spawn_blocking(submit).await.unwrap_or_else(|error| {
        tracing::error!(%error, "submission panicked");
        Err(ApiError::Failed("the server failed on this request".to_owned()))
    })
}

/// All answers or none: those that were taken are cancelled when a later one is not, since dropping a stream does that.
fn submit<S>(
    app: &App,
    client: Option<&Client>,
    served: Served<'_>,
    asked: &Asked<S>,
) -> Result<Vec<AnswerStream>, ApiError> {
    let several = asked.prompts.len() > 1;
    let mut jobs = asked.params.jobs(served, &asked.prompts)?;
    let salt = app.prefix_salts.of(client, &asked.params.sharing);
    jobs.iter_mut().for_each(|job| job.prefix_salt = salt);
    let streams = jobs.iter().enumerate().map(|(choice, job)| {
        app.engine.submit(job).map_err(|error| ApiError::Submit {
            prompt: several.then_some(choice / asked.params.n),
            error,
        })
    });
    streams.collect()
}
