//! An answer in one piece. A client that leaves makes the server drop this future, and with it the streams.

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use tokenrouter_engine::stream::{Ended, Event};

use super::answers::finish_reason;
use super::response::{Told, Usage};
use super::{Part, Running, Shape};
use crate::http::ApiError;

pub(super) async fn respond<S: Shape>(mut running: Running<S>) -> Response {
    match collect(&mut running).await {
        Ok(parts) => {
            let Running {
                context,
                shape,
                tally,
                log,
                ..
            } = &mut running;
            let choices = parts
                .iter()
                .enumerate()
                .filter_map(|(index, (part, ended))| context.choice(shape, index, &Told::Whole(part, ended)))
                .collect();
            let usage = Some(Some(Usage::new(&context.app, tally)));
            let response = Json(context.frame.object(S::WHOLE, choices, usage)).into_response();
            log.answered(tally);
            response
        }
        Err(what) => {
            running.log.failed(&what);
            ApiError::Failed(what).into_response()
        }
    }
}

/// Reads all answers to their ends. The first that fails fails the request.
async fn collect<S>(running: &mut Running<S>) -> Result<Vec<(Part, Ended)>, String> {
    let mut parts: Vec<(Part, Option<Ended>)> = Vec::new();
    parts.resize_with(running.answers.len(), Default::default);
    while let Some((index, event)) = running.answers.next().await {
        let (part, end) = &mut parts[index];
        match event {
            Event::Piece { text, tokens, .. } => {
                running.tally.wrote(&tokens);
                part.text.push_str(&text);
                if running.context.params.tells_tokens() {
                    part.tokens.extend(tokens);
                }
            }
            Event::End(ended) => {
                let reason = finish_reason(&ended.finish)?;
                part.finish_reason = Some(reason);
                running.log.finished(reason, ended.timing);
                running.tally.ended(index, &ended);
                *end = Some(ended);
            }
        }
    }
    let whole = parts.into_iter().map(|(part, ended)| Some((part, ended?)));
    whole
        .collect::<Option<_>>()
        .ok_or_else(|| "an answer has no end".to_owned())
}
