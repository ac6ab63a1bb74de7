//! Every error of the API, its status, and its OpenAI error object.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokenrouter_engine::SubmitError;

/// How long a client that was refused for load should wait, in seconds.
const RETRY_AFTER_S: u64 = 1;

/// How a client that has no key is told what to bring.
const CHALLENGE: &str = "Bearer realm=\"tokenrouter\"";

/// Why a request is not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The body is larger than is accepted.
    #[error("the body is larger than {bytes_max} bytes, the most that is accepted")]
    BodyTooLarge {
        /// The bound.
        bytes_max: usize,
    },
    /// The body did not come in time.
    #[error("the body did not arrive within {s_max} s")]
    BodyTimeout {
        /// The bound.
        s_max: u64,
    },
    /// The connection failed while the body was read.
    #[error("the body could not be read: {0}")]
    BodyRead(String),
    /// The body is not text.
    #[error("the body is not UTF-8: byte {index} is wrong")]
    NotUtf8 {
        /// Place of the first wrong byte, from 0.
        index: usize,
    },
    /// The body is not JSON. The text has line and column.
    #[error("the body is not valid JSON: {0}")]
    Json(String),
    /// A field is missing, or has a wrong type or value.
    #[error("{message}")]
    Field {
        /// The field.
        param: String,
        /// What is wrong with it, and what would be right.
        message: String,
    },
    /// A field of the OpenAI API that this server knows but does not serve, with a value that matters.
    #[error("{param} is not supported by this server; leave it out or set it to {neutral}")]
    Unsupported {
        /// The field.
        param: String,
        /// The value that changes nothing.
        neutral: &'static str,
    },
    /// No model of that name.
    #[error("no model \"{name}\" is served; there are {}", .known.join(", "))]
    ModelNotFound {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// The engine did not take the request.
    #[error("{}{error}", .prompt.map(|index| format!("prompt {index}: ")).unwrap_or_default())]
    Submit {
        /// Which of several prompts.
        prompt: Option<usize>,
        /// Why.
        error: SubmitError,
    },
    /// The request was taken, and then something failed.
    #[error("{0}")]
    Failed(String),
    /// The models are not there yet.
    #[error("the models are being loaded; try again later")]
    Loading,
    /// No key was sent.
    #[error("a key is needed: send the header \"authorization: Bearer KEY\"")]
    KeyMissing,
    /// The key is not one of those that are accepted.
    #[error("the key is not accepted")]
    KeyWrong,
    /// No such path.
    #[error("there is nothing at {path}; /openapi.json describes all paths")]
    NoSuchPath {
        /// The path.
        path: String,
    },
    /// The path is there, but not for this method.
    #[error("{path} does not take {method}; it takes {}", .takes.join(", "))]
    WrongMethod {
        /// The method.
        method: String,
        /// The path.
        path: String,
        /// The methods that it takes.
        takes: Vec<String>,
    },
}

/// What an error is to a client: status, `type`, `param` and `code`.
struct Class<'a> {
    status: StatusCode,
    kind: &'static str,
    param: Option<&'a str>,
    code: Option<&'static str>,
}

impl ApiError {
    /// A field that is wrong.
    pub(super) fn field(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Field {
            param: param.into(),
            message: message.into(),
        }
    }

    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        self.class().status
    }

    /// The OpenAI error object.
    pub fn to_json(&self) -> Value {
        let class = self.class();
        let message = self.to_string();
        json!({ "error": { "message": message, "type": class.kind, "param": class.param, "code": class.code } })
    }

    fn class(&self) -> Class<'_> {
        let request = |status, param, code| Class {
            status,
            kind: "invalid_request_error",
            param,
            code,
        };
        let server = |status, code| Class {
            status,
            kind: "server_error",
            param: None,
            code: Some(code),
        };
        match self {
            Self::BodyTooLarge { .. } => request(StatusCode::PAYLOAD_TOO_LARGE, None, Some("body_too_large")),
            Self::BodyTimeout { .. } => request(StatusCode::REQUEST_TIMEOUT, None, Some("body_timeout")),
            Self::BodyRead(_) | Self::NotUtf8 { .. } | Self::Json(_) => request(StatusCode::BAD_REQUEST, None, None),
            Self::Field { param, .. } => request(StatusCode::BAD_REQUEST, Some(param), None),
            Self::Unsupported { param, .. } => {
                request(StatusCode::BAD_REQUEST, Some(param), Some("unsupported_parameter"))
            }
            Self::ModelNotFound { .. } => request(StatusCode::NOT_FOUND, Some("model"), Some("model_not_found")),
            Self::Loading => server(StatusCode::SERVICE_UNAVAILABLE, "loading"),
            Self::KeyMissing | Self::KeyWrong => request(StatusCode::UNAUTHORIZED, None, Some("invalid_api_key")),
            Self::NoSuchPath { .. } => request(StatusCode::NOT_FOUND, None, Some("unknown_url")),
            Self::WrongMethod { .. } => request(StatusCode::METHOD_NOT_ALLOWED, None, Some("method_not_allowed")),
            Self::Failed(_) => server(StatusCode::INTERNAL_SERVER_ERROR, "answer_failed"),
            Self::Submit { error, .. } => match error {
                SubmitError::EmptyPrompt | SubmitError::Text(_) => {
                    request(StatusCode::BAD_REQUEST, Some("prompt"), None)
                }
                SubmitError::NothingToDraw { .. } => request(StatusCode::BAD_REQUEST, Some("min_tokens"), None),
                SubmitError::ContextLength { .. } | SubmitError::NeverFits { .. } => {
                    request(StatusCode::BAD_REQUEST, Some("prompt"), Some("context_length_exceeded"))
                }
                SubmitError::UnknownPolicy { .. } => {
                    request(StatusCode::NOT_FOUND, Some("model"), Some("model_not_found"))
                }
                SubmitError::Refused(_) => request(StatusCode::BAD_REQUEST, None, Some("policy_refused")),
                SubmitError::Overloaded { .. } => Class {
                    status: StatusCode::TOO_MANY_REQUESTS,
                    kind: "rate_limit_error",
                    param: None,
                    code: Some("rate_limit_exceeded"),
                },
                SubmitError::Policy(_) => server(StatusCode::INTERNAL_SERVER_ERROR, "policy_fault"),
                SubmitError::ModelDown { .. } => server(StatusCode::SERVICE_UNAVAILABLE, "model_down"),
                SubmitError::ShuttingDown => server(StatusCode::SERVICE_UNAVAILABLE, "shutting_down"),
            },
        }
    }
}

/// The error object, for the API's description.
pub(super) fn schema() -> Value {
    let text = json!({ "type": ["string", "null"] });
    json!({
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["message", "type", "param", "code"],
                "properties": {
                    "message": { "type": "string", "description": "What is wrong, and what would be right" },
                    "type": { "enum": ["invalid_request_error", "rate_limit_error", "server_error"] },
                    "param": text,
                    "code": text,
                },
                "additionalProperties": false,
            },
        },
        "additionalProperties": false,
    })
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status(), Json(self.to_json())).into_response();
        let (name, value) = match self.status() {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                (header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S))
            }
            StatusCode::UNAUTHORIZED => (header::WWW_AUTHENTICATE, HeaderValue::from_static(CHALLENGE)),
            _ => return response,
        };
        response.headers_mut().insert(name, value);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Status, type, param and code of every error that the engine gives at submission.
    #[test]
    fn errors_of_the_engine_have_their_status_and_code() {
        let submit = |error| ApiError::Submit { prompt: None, error };
        let (request, server) = ("invalid_request_error", "server_error");
        let context = SubmitError::ContextLength {
            context_max: 512,
            prompt: 16,
            max_tokens: 500,
        };
        for (error, status, kind, param, code) in [
            (SubmitError::EmptyPrompt, 400, request, json!("prompt"), json!(null)),
            (
                SubmitError::NothingToDraw { min_tokens: 1 },
                400,
                request,
                json!("min_tokens"),
                json!(null),
            ),
            (context, 400, request, json!("prompt"), json!("context_length_exceeded")),
            (
                SubmitError::NeverFits {
                    length_max: 600,
                    kv_tokens: 512,
                },
                400,
                request,
                json!("prompt"),
                json!("context_length_exceeded"),
            ),
            (
                SubmitError::Text("character".into()),
                400,
                request,
                json!("prompt"),
                json!(null),
            ),
            (
                SubmitError::UnknownPolicy {
                    name: "x".into(),
                    active: vec![],
                },
                404,
                request,
                json!("model"),
                json!("model_not_found"),
            ),
            (
                SubmitError::Refused("threshold".into()),
                400,
                request,
                json!(null),
                json!("policy_refused"),
            ),
            (
                SubmitError::Overloaded { waiting_max: 4 },
                429,
                "rate_limit_error",
                json!(null),
                json!("rate_limit_exceeded"),
            ),
            (
                SubmitError::Policy("trap".into()),
                500,
                server,
                json!(null),
                json!("policy_fault"),
            ),
            (
                SubmitError::ModelDown { model: "small".into() },
                503,
                server,
                json!(null),
                json!("model_down"),
            ),
            (
                SubmitError::ShuttingDown,
                503,
                server,
                json!(null),
                json!("shutting_down"),
            ),
        ] {
            let error = submit(error);
            let message = error.to_string();
            assert_eq!(error.status().as_u16(), status, "{message}");
            let expected = json!({ "error": { "message": message, "type": kind, "param": param, "code": code } });
            assert_eq!(error.to_json(), expected);
        }
    }

    #[test]
    fn a_context_that_is_too_long_is_told_with_the_numbers_and_the_prompt() {
        let error = SubmitError::ContextLength {
            context_max: 512,
            prompt: 16,
            max_tokens: 500,
        };
        assert_eq!(
            ApiError::Submit { prompt: Some(3), error }.to_string(),
            "prompt 3: the models' context is 512 tokens, but 516 were asked for: 16 of the prompt and 500 of the answer"
        );
    }

    #[test]
    fn only_overload_says_when_to_come_back() {
        let retry_after = |error| {
            let response = ApiError::Submit { prompt: None, error }.into_response();
            response.headers().get(header::RETRY_AFTER).cloned()
        };
        assert_eq!(
            retry_after(SubmitError::Overloaded { waiting_max: 4 }),
            Some(HeaderValue::from(RETRY_AFTER_S))
        );
        assert_eq!(retry_after(SubmitError::EmptyPrompt), None);
    }
}
