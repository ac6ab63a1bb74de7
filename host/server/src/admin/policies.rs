//! What is done with policies: from a request to a change, and from what came of it to a response.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokenrouter_policy::Digest;

use super::access::Who;
use super::error::AdminError;
use super::{AdminApp, openapi, view};
use crate::deployment::OptionValue;
use crate::http::{ApiError, kind, parse_json, read_body};
use crate::policies::{Activation, Change, Done, Manager, SwapError, Upload, parse_signature};

/// Largest JSON body, in bytes.
const JSON_BYTES_MAX: usize = 64 << 10;

/// How long a body may take.
const BODY_TIME_MAX: Duration = Duration::from_secs(60);

/// Parameters of an upload, in the query.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PutQuery {
    activate: bool,
    default: Option<bool>,
    options: Option<String>,
    sha256: Option<String>,
    signature: Option<String>,
    /// A text, so that its error is ours.
    expected: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ActivateBody {
    generation: Option<u32>,
    options: Option<BTreeMap<String, OptionValue>>,
    default: Option<bool>,
    expected: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrialBody {
    share: f64,
    #[serde(default)]
    generation: Option<u32>,
    #[serde(default)]
    expected: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RollbackBody {
    generation: Option<u32>,
    expected: Option<u32>,
}

/// `GET /admin/policies`
pub(super) async fn list(State(admin): State<Arc<AdminApp>>) -> Json<Value> {
    Json(view::overview(&admin.app.manager.overview()))
}

/// `GET /admin/policies/{name}`, with the newest generation as its `etag`.
pub(super) async fn show(State(admin): State<Arc<AdminApp>>, Path(name): Path<String>) -> Result<Response, AdminError> {
    let overview = admin.app.manager.overview();
    let newest = overview.set.require(&name)?.id;
    let tag = format!("\"{newest}\"");
    Ok(([(header::ETAG, tag)], Json(view::policy(&overview, &name))).into_response())
}

/// `PUT /admin/policies/{name}`
pub(super) async fn put(
    State(admin): State<Arc<AdminApp>>,
    Extension(Who(who)): Extension<Who>,
    Path(name): Path<String>,
    query: Result<Query<PutQuery>, QueryRejection>,
    request: Request,
) -> Result<Response, AdminError> {
    let Query(query) = query.map_err(|error| {
        let text = error.body_text();
        let why = text.trim_start_matches("Failed to deserialize query string: ");
        AdminError::Request(format!("the query: {why}"))
    })?;
    let wrong = |what: &str, why: String| AdminError::Request(format!("{what}: {why}"));
    let number = |text: String| {
        text.parse::<u32>().map_err(|_| {
            wrong(
                "expected",
                format!("{text:?} is no generation; it is a whole number, 0 for none"),
            )
        })
    };
    let expected = query.expected.map(number).transpose()?.or(if_match(request.headers())?);
    let options = match &query.options {
        None => BTreeMap::new(),
        Some(text) => serde_json::from_str(text).map_err(|error| {
            wrong(
                "options",
                format!("{error}; it is a JSON object of options, as in {{\"threshold\": 0.2}}"),
            )
        })?,
    };
    let sha256 = query.sha256.map(|text| text.parse::<Digest>()).transpose();
    let signature = query.signature.map(|text| parse_signature(&text)).transpose();
    let mut upload = Upload {
        name,
        bytes: Vec::new(),
        options,
        sha256: sha256.map_err(|error| wrong("sha256", error.to_string()))?,
        signature: signature.map_err(|error| wrong("signature", error))?,
        expected,
        activate: query.activate.then_some(Activation {
            as_default: query.default.unwrap_or(true),
        }),
    };
    let _slot = admin
        .slots
        .clone()
        .try_acquire_owned()
        .map_err(|_| AdminError::Overloaded)?;
    let manager = admin.app.manager.clone();
    let bytes = read_body(request, manager.component_bytes_max(), BODY_TIME_MAX).await?;
    upload.bytes = bytes.into();
    let start = Instant::now();
    let name = upload.name.clone();
    let done = elsewhere(manager.clone(), move |manager| manager.upload(&who, upload)).await?;
    let status = if done.unchanged {
        StatusCode::OK
    } else {
        StatusCode::CREATED
    };
    Ok(respond(status, &manager, &name, &done, start))
}

/// `POST /admin/policies/{name}/activate`
pub(super) async fn activate(
    State(admin): State<Arc<AdminApp>>,
    Extension(who): Extension<Who>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, AdminError> {
    let (body, expected) = body::<ActivateBody>("activate", request, |body| body.expected).await?;
    let change = Change::Activate {
        generation: body.generation,
        options: body.options,
        activation: Activation {
            as_default: body.default.unwrap_or(true),
        },
    };
    make(&admin, who, name, change, expected).await
}

/// `POST /admin/policies/{name}/canary`
pub(super) async fn canary(
    State(admin): State<Arc<AdminApp>>,
    Extension(who): Extension<Who>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, AdminError> {
    let (TrialBody { share, generation, .. }, expected) =
        body("canary", request, |body: &TrialBody| body.expected).await?;
    make(&admin, who, name, Change::Canary { generation, share }, expected).await
}

/// `POST /admin/policies/{name}/shadow`
pub(super) async fn shadow(
    State(admin): State<Arc<AdminApp>>,
    Extension(who): Extension<Who>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, AdminError> {
    let (TrialBody { share, generation, .. }, expected) =
        body("shadow", request, |body: &TrialBody| body.expected).await?;
    make(&admin, who, name, Change::Shadow { generation, share }, expected).await
}

/// `POST /admin/policies/{name}/rollback`
pub(super) async fn rollback(
    State(admin): State<Arc<AdminApp>>,
    Extension(who): Extension<Who>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, AdminError> {
    let (body, expected) = body::<RollbackBody>("rollback", request, |body| body.expected).await?;
    make(&admin, who, name, Change::Rollback { to: body.generation }, expected).await
}

/// `DELETE /admin/policies/{name}`
pub(super) async fn delete(
    State(admin): State<Arc<AdminApp>>,
    Extension(who): Extension<Who>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, AdminError> {
    make(&admin, who, name, Change::Delete, if_match(&headers)?).await
}

/// A JSON body, or its defaults if there is none, and the generation that the client expects.
async fn body<T: DeserializeOwned>(
    action: &str,
    request: Request,
    expected: impl FnOnce(&T) -> Option<u32>,
) -> Result<(T, Option<u32>), AdminError> {
    let tag = if_match(request.headers())?;
    let bytes = read_body(request, JSON_BYTES_MAX, BODY_TIME_MAX).await?;
    let text: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
    // Not straight into the fields: those could also come as an array.
    let fields: Map<String, Value> = match parse_json(text)? {
        Value::Object(fields) => fields,
        other => return Err(ApiError::Json(format!("expected an object, found {}", kind(&other))).into()),
    };
    openapi::check(action, &fields)?;
    let body = serde_json::from_value(Value::Object(fields)).map_err(|error| {
        AdminError::Request(format!("the body: {error}; its fields are {}", openapi::names(action)))
    })?;
    let expected = expected(&body).or(tag);
    Ok((body, expected))
}

/// The number in `if-match: "7"`.
fn if_match(headers: &HeaderMap) -> Result<Option<u32>, AdminError> {
    let Some(value) = headers.get(header::IF_MATCH) else {
        return Ok(None);
    };
    let number = value
        .to_str()
        .ok()
        .and_then(|text| text.trim().trim_matches('"').parse().ok());
    let refused = || AdminError::Request("if-match must be a generation's number, as in if-match: \"7\"".to_owned());
    number.map(Some).ok_or_else(refused)
}

async fn make(
    admin: &AdminApp,
    Who(who): Who,
    name: String,
    change: Change,
    expected: Option<u32>,
) -> Result<Response, AdminError> {
    let _slot = admin
        .slots
        .clone()
        .try_acquire_owned()
        .map_err(|_| AdminError::Overloaded)?;
    let (manager, start, of) = (admin.app.manager.clone(), Instant::now(), name.clone());
    let done = elsewhere(manager.clone(), move |manager| {
        manager.change(&who, &name, &change, expected)
    })
    .await?;
    Ok(respond(StatusCode::OK, &manager, &of, &done, start))
}

/// Compiling takes up to seconds, which the threads that serve connections don't have.
async fn elsewhere(
    manager: Arc<Manager>,
    work: impl FnOnce(&Manager) -> Result<Done, SwapError> + Send + 'static,
) -> Result<Done, AdminError> {
    let worked = tokio::task::spawn_blocking(move || work(&manager)).await;
    worked
        .map_err(|error| {
            tracing::error!(%error, "a change to the policies panicked");
            AdminError::Failed
        })?
        .map_err(AdminError::from)
}

fn respond(status: StatusCode, manager: &Manager, name: &str, done: &Done, start: Instant) -> Response {
    let overview = manager.overview();
    // Rolling back leads to a generation that may have another name.
    let chosen = done.generation.and_then(|id| overview.set.get(id));
    let body = json!({
        "policy": chosen.map_or(name, |record| record.name.as_str()),
        "generation": done.generation,
        "unchanged": done.unchanged,
        "compile_us": done.compile_time.as_micros() as u64,
        "took_us": start.elapsed().as_micros() as u64,
        "default": view::default(&overview),
    });
    (status, Json(body)).into_response()
}
