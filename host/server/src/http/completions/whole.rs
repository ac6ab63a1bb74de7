//! An answer in one piece. A client that leaves makes the server drop this future, and with it the streams.

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use tokenrouter_engine::stream::Event;

use super::Running;
use super::answers::{Tally, finish_reason};
use super::response::{Choice, Usage, attribute};
use crate::http::ApiError;

pub(super) async fn respond(mut running: Running) -> Response {
    match collect(&mut running).await {
        Ok((choices, tally)) => {
            let mut completion = running.frame.completion(choices);
            completion.usage = Some(Some(Usage::new(&running.app, &tally)));
            let response = Json(completion).into_response();
            running.log.answered(&tally);
            response
        }
        Err(what) => {
            running.log.failed(&what);
            ApiError::Failed(what).into_response()
        }
    }
}

/// Reads all answers to their ends. The first that fails fails the request.
async fn collect(running: &mut Running) -> Result<(Vec<Choice>, Tally), String> {
    let mut choices: Vec<Choice> = (0..running.answers.len())
        .map(|index| running.frame.choice(index))
        .collect();
    let mut tally = Tally::default();
    while let Some((index, event)) = running.answers.next().await {
        let choice = &mut choices[index];
        match event {
            Event::Piece { text, tokens } => {
                running.log.wrote();
                choice.text.push_str(&text);
                if running.attribution {
                    choice
                        .attribution
                        .get_or_insert_default()
                        .extend(attribute(&running.app, &tokens));
                }
            }
            Event::End(ended) => {
                let reason = finish_reason(&ended.finish)?;
                choice.finish_reason = Some(reason);
                running.log.finished(reason);
                tally.add(&ended);
            }
        }
    }
    Ok((choices, tally))
}
