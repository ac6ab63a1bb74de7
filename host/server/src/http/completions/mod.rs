//! `POST /v1/completions`: prompts to be continued.

mod prompt;
mod schema;
mod shape;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use tokenrouter_engine::Job;
use tokenrouter_model::text::Tokenizer;

use self::prompt::Prompt;
use self::shape::TextShape;
use super::answer::{self, Asked, Fields, Grammars, Known, Params, Served, is_empty, is_true};
use super::request_id::RequestId;
use super::{ApiError, App, ModelNames, limits};
use crate::deployment::RequestOptions;

pub(super) use self::schema::{create_operation, schemas};

/// Tokens of an answer when the request does not say: OpenAI's value.
const MAX_TOKENS_DEFAULT: u32 = 16;

/// What is known here and not served.
const KNOWN: [Known; 8] = [
    ("suffix", "null", is_empty),
    ("top_logprobs", "null: the field here is logprobs", |_| false),
    ("add_special_tokens", "true", is_true),
    ("chat_template_kwargs", "{}", is_empty),
    ("tools", "[]", is_empty),
    ("tool_choice", "\"none\"", |value| value == "none"),
    ("functions", "[]", is_empty),
    ("messages", "null: this is the path for a prompt", is_empty),
];

/// The jobs that `POST /v1/completions` makes of a body, without an engine that would take them: for fuzzing and for tools.
/// `answers_max` bounds prompts times `n`, `length_max` the tokens of a prompt and an answer together; a policy's options may
/// have any values that it takes.
///
/// # Errors
/// Those of the endpoint that do not need an engine.
pub fn completion_jobs(
    body: &[u8],
    names: &ModelNames,
    tokenizer: &Tokenizer,
    answers_max: usize,
    length_max: u32,
) -> Result<Vec<Job>, ApiError> {
    let served = Served {
        names,
        tokenizer,
        grammars: &Grammars::new(tokenizer, tokenizer.eos()),
        template: None,
        request_options: &RequestOptions::default(),
        answers_max,
        length_max,
    };
    let body = answer::parse(body)?;
    let asked = read(served, &Fields::of_body(&body)?)?;
    asked.params.jobs(served, &asked.prompts)
}

/// Answers a request.
pub(super) async fn create(
    State(app): State<Arc<App>>,
    Extension(id): Extension<RequestId>,
    request: Request,
) -> Response {
    answer::respond(app, id, request, read).await
}

fn read(served: Served<'_>, fields: &Fields<'_>) -> Result<Asked<TextShape>, ApiError> {
    let echo = fields.boolean("echo")?.unwrap_or(false);
    // An echo needs no answer behind it.
    let mut params = Params::read(served, fields, u32::from(!echo), &KNOWN)?;
    params.max_tokens.get_or_insert(MAX_TOKENS_DEFAULT);
    params.logprobs = fields
        .integer("logprobs", 0..=limits::LOGPROBS_MAX.into())?
        .map(|logprobs| logprobs as u32);
    if echo && params.logprobs.is_some() {
        let sentence = "cannot be combined with echo: prompts are fed without computing their log-probabilities";
        return Err(fields.refuse("logprobs", sentence));
    }
    let prompts = prompt::read(fields, served.answers_max)?;
    let tokens = Prompt::encode_all(&prompts, served.tokenizer)?;
    let shape = TextShape::new(
        served.tokenizer.clone(),
        params.logprobs.is_some(),
        echo.then(|| prompts.iter().map(|prompt| prompt.text(served.tokenizer)).collect()),
        params.n,
    );
    Ok(Asked {
        params,
        prompts: tokens,
        shape,
    })
}
