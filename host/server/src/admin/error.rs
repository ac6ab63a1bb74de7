//! Errors of the admin API, in the shape of the client API's.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tokenrouter_policy::PolicyError;

use crate::http::ApiError;
use crate::policies::SwapError;

/// Why an admin request is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum AdminError {
    /// As in the client API: key, body.
    #[error("{0}")]
    Api(#[from] ApiError),
    /// The change is refused.
    #[error("{0}")]
    Swap(#[from] SwapError),
    /// A parameter or a field that is wrong.
    #[error("{0}")]
    Request(String),
    /// No such path.
    #[error("there is nothing at {0}; /admin/openapi.json describes all paths")]
    NoSuchPath(String),
    /// Made by a web page.
    #[error("without a key, the admin API takes no requests of web pages, and only those to a loopback address")]
    FromPage,
    /// Too many at once.
    #[error("as many admin requests are worked on as may be; try again later")]
    Overloaded,
    /// A bug.
    #[error("the server failed on this request")]
    Failed,
}

impl AdminError {
    fn class(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Api(error) => (error.status(), "invalid_request"),
            Self::Request(_) => (StatusCode::BAD_REQUEST, "invalid_request"),
            Self::NoSuchPath(_) => (StatusCode::NOT_FOUND, "unknown_url"),
            Self::FromPage => (StatusCode::FORBIDDEN, "from_web_page"),
            Self::Overloaded => (StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded"),
            Self::Failed => (StatusCode::INTERNAL_SERVER_ERROR, "failed"),
            Self::Swap(error) => swap_class(error),
        }
    }
}

fn swap_class(error: &SwapError) -> (StatusCode, &'static str) {
    match error {
        SwapError::Name { .. } => (StatusCode::BAD_REQUEST, "policy_name"),
        SwapError::Share { .. } => (StatusCode::BAD_REQUEST, "share"),
        SwapError::NoSuchPolicy { .. } => (StatusCode::NOT_FOUND, "policy_not_found"),
        SwapError::NoSuchGeneration { .. } => (StatusCode::NOT_FOUND, "generation_not_found"),
        SwapError::TooManyNames { .. } => (StatusCode::CONFLICT, "too_many_policies"),
        SwapError::NothingBefore { .. } => (StatusCode::CONFLICT, "nothing_before"),
        SwapError::InUse { .. } => (StatusCode::CONFLICT, "policy_in_use"),
        SwapError::IsDefault { .. } => (StatusCode::CONFLICT, "is_default"),
        SwapError::NoDefault { .. } => (StatusCode::CONFLICT, "no_default"),
        SwapError::Expectation { .. } => (StatusCode::PRECONDITION_FAILED, "expectation_failed"),
        SwapError::Digest { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "digest_mismatch"),
        SwapError::Unsigned { .. } => (StatusCode::FORBIDDEN, "unsigned"),
        SwapError::BadSignature { .. } => (StatusCode::FORBIDDEN, "bad_signature"),
        SwapError::Smoke(_) => (StatusCode::UNPROCESSABLE_ENTITY, "smoke_test_failed"),
        SwapError::TooManyLive { .. } => (StatusCode::SERVICE_UNAVAILABLE, "too_many_generations"),
        SwapError::Store(_) => (StatusCode::INTERNAL_SERVER_ERROR, "state_directory"),
        SwapError::Engine(_) => (StatusCode::UNPROCESSABLE_ENTITY, "deployment_mismatch"),
        SwapError::Policy(error) => policy_class(error),
    }
}

fn policy_class(error: &PolicyError) -> (StatusCode, &'static str) {
    let code = match error {
        PolicyError::TooLarge { .. } => return (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
        PolicyError::CompilerBusy { .. } => return (StatusCode::SERVICE_UNAVAILABLE, "compiler_busy"),
        PolicyError::InstancesExhausted { .. } => return (StatusCode::SERVICE_UNAVAILABLE, "instances_exhausted"),
        PolicyError::Host { .. } | PolicyError::Limits { .. } => {
            return (StatusCode::INTERNAL_SERVER_ERROR, "policy_host");
        }
        PolicyError::NotWasm { .. } => "not_wasm",
        PolicyError::CoreModule => "core_module",
        PolicyError::Invalid { .. } => "invalid_component",
        PolicyError::NotAPolicy => "not_a_policy",
        PolicyError::ContractVersion { .. } => "contract_version",
        PolicyError::ForeignImports { .. } => "foreign_imports",
        PolicyError::MissingExports { .. } => "missing_exports",
        PolicyError::WrongType { .. } => "wrong_type",
        PolicyError::CompileTime { .. } => "compile_time",
        PolicyError::Description { .. } => "description",
        PolicyError::Deployment { .. } | PolicyError::Plan { .. } => "plan",
        PolicyError::OptionUnknown { .. }
        | PolicyError::OptionNotPerRequest { .. }
        | PolicyError::OptionTwice { .. }
        | PolicyError::ConfigRefused { .. }
        | PolicyError::Refused { .. } => "options_refused",
        _ => "policy_fault",
    };
    (StatusCode::UNPROCESSABLE_ENTITY, code)
}

impl IntoResponse for AdminError {
    fn into_response(self) -> Response {
        if let Self::Api(error) = self {
            return error.into_response();
        }
        let (status, code) = self.class();
        let kind = if status.is_server_error() {
            "server_error"
        } else {
            "invalid_request_error"
        };
        let error = json!({ "message": self.to_string(), "type": kind, "param": null, "code": code });
        let mut response = (status, Json(json!({ "error": error }))).into_response();
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(1));
        }
        response
    }
}
