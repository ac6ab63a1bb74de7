//! Reading a request's body within its bounds.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::Request;
use axum::http::header;
use futures_util::StreamExt as _;

use super::{ApiError, App};

/// How much of a body that is too large is read and thrown away before it is refused. A client that writes its whole body
/// first would find its connection broken instead of the answer; one that sends even more than this is not waited for.
const DISCARDED_BYTES_MAX: usize = 16 << 20;

/// The whole body of a client's request.
pub(super) async fn read(app: &App, request: Request) -> Result<Bytes, ApiError> {
    read_body(request, app.body_bytes_max, app.body_time_max).await
}

/// The whole body, of at most `bytes_max` bytes and within `time_max`. A client that asks first (`expect: 100-continue`) is
/// refused before it sends.
pub(crate) async fn read_body(request: Request, bytes_max: usize, time_max: Duration) -> Result<Bytes, ApiError> {
    let asks_first = request.headers().contains_key(header::EXPECT);
    if asks_first && request.body().size_hint().lower() > bytes_max as u64 {
        return Err(ApiError::BodyTooLarge { bytes_max });
    }
    match tokio::time::timeout(time_max, collect(request.into_body(), bytes_max)).await {
        Ok(read) => read,
        Err(_) => Err(ApiError::BodyTimeout {
            s_max: time_max.as_secs(),
        }),
    }
}

async fn collect(body: Body, bytes_max: usize) -> Result<Bytes, ApiError> {
    let mut stream = body.into_data_stream();
    let mut kept = Vec::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| ApiError::BodyRead(error.to_string()))?;
        if kept.len() + chunk.len() > bytes_max {
            let mut discarded = chunk.len();
            while discarded <= DISCARDED_BYTES_MAX
                && let Some(Ok(chunk)) = stream.next().await
            {
                discarded += chunk.len();
            }
            return Err(ApiError::BodyTooLarge { bytes_max });
        }
        kept.extend_from_slice(&chunk);
    }
    Ok(kept.into())
}
