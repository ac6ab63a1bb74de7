//! Reading a request's body within its bounds.

use axum::body::{Bytes, HttpBody as _};
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, FromRequest as _, Request};
use axum::http::StatusCode;

use super::{ApiError, App};

/// The whole body. What says that it is too large is refused before it is sent.
pub(super) async fn read(app: &App, mut request: Request) -> Result<Bytes, ApiError> {
    let bytes_max = app.body_bytes_max;
    let too_large = ApiError::BodyTooLarge { bytes_max };
    if request.body().size_hint().lower() > bytes_max as u64 {
        return Err(too_large);
    }
    DefaultBodyLimit::max(bytes_max).apply(&mut request);
    let read = tokio::time::timeout(app.body_time_max, Bytes::from_request(request, &())).await;
    match read {
        Err(_) => Err(ApiError::BodyTimeout {
            s_max: app.body_time_max.as_secs(),
        }),
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(rejection)) => Err(explain(&rejection, too_large)),
    }
}

fn explain(rejection: &BytesRejection, too_large: ApiError) -> ApiError {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        return too_large;
    }
    ApiError::BodyRead(rejection.body_text())
}
