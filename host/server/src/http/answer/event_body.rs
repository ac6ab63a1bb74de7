//! A response's body of server-sent events. What is ready leaves together in one piece; what is not is waited for, with a
//! comment now and then.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use hyper::body::{Body as HttpBody, Frame};
use serde::Serialize;
use tokio::time::{Instant, Sleep};

/// A piece is sent once it has so many bytes, although more is ready.
const PIECE_BYTES_MAX: usize = 16 << 10;

/// Room for the event of one token.
const PIECE_BYTES: usize = 384;

/// Shows that the connection is alive, to whatever stands between server and client.
const COMMENT: &str = ":\n\n";

/// Where events come from.
pub(super) trait Events: Send + 'static {
    /// Writes the next events. `Ready` once something is written, or, with nothing written, when nothing will come any
    /// more.
    fn poll_write(&mut self, context: &mut Context<'_>, out: &mut EventWriter) -> Poll<()>;
}

/// Events as they are sent.
#[derive(Debug, Default)]
pub(super) struct EventWriter(Vec<u8>);

impl EventWriter {
    /// Adds an event with this data, in one line.
    pub(super) fn text(&mut self, data: &str) {
        debug_assert!(!data.contains(['\n', '\r']), "data of several lines");
        self.begin();
        self.0.extend_from_slice(data.as_bytes());
        self.0.extend_from_slice(b"\n\n");
    }

    /// Adds an event whose data is an object.
    ///
    /// # Errors
    /// When it cannot be written as JSON; then nothing is added.
    pub(super) fn json(&mut self, object: &impl Serialize) -> serde_json::Result<()> {
        let before = self.0.len();
        self.begin();
        // JSON has no line breaks of its own, and escapes those in texts.
        if let Err(error) = serde_json::to_writer(&mut self.0, object) {
            self.0.truncate(before);
            return Err(error);
        }
        self.0.extend_from_slice(b"\n\n");
        Ok(())
    }

    /// Whether enough is written to be sent.
    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= PIECE_BYTES_MAX
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn begin(&mut self) {
        if self.0.is_empty() {
            self.0.reserve(PIECE_BYTES);
        }
        self.0.extend_from_slice(b"data: ");
    }
}

/// A response of events. After a silence between `silence_max` and twice that a comment is sent.
pub(super) fn respond(events: impl Events, out: EventWriter, silence_max: Duration) -> Response {
    let body = EventBody {
        events: Box::new(events),
        out,
        silence_max,
        timer: Box::pin(tokio::time::sleep(silence_max)),
        spoke: false,
    };
    let mut response = Response::new(Body::new(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

struct EventBody<E> {
    events: Box<E>,
    out: EventWriter,
    silence_max: Duration,
    timer: Pin<Box<Sleep>>,
    /// Whether anything was sent since the timer was set: setting it at every token would cost more than the token.
    spoke: bool,
}

impl<E: Events> EventBody<E> {
    /// A comment, if it is time for one.
    fn poll_silence(&mut self, context: &mut Context<'_>) -> Poll<Bytes> {
        while self.timer.as_mut().poll(context).is_ready() {
            self.timer.as_mut().reset(Instant::now() + self.silence_max);
            if !std::mem::take(&mut self.spoke) {
                return Poll::Ready(Bytes::from_static(COMMENT.as_bytes()));
            }
        }
        Poll::Pending
    }
}

impl<E: Events> HttpBody for EventBody<E> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let outcome = this.events.poll_write(context, &mut this.out);
        if !this.out.is_empty() {
            this.spoke = true;
            let piece = std::mem::take(&mut this.out.0);
            return Poll::Ready(Some(Ok(Frame::data(piece.into()))));
        }
        match outcome {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => this.poll_silence(context).map(|comment| Some(Ok(Frame::data(comment)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::future::poll_fn;

    use super::*;

    /// Each text is ready at its turn; `None` is a turn without any.
    struct Script(VecDeque<Option<&'static str>>);

    impl Events for Script {
        fn poll_write(&mut self, context: &mut Context<'_>, out: &mut EventWriter) -> Poll<()> {
            while let Some(turn) = self.0.pop_front() {
                let Some(text) = turn else {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                };
                out.text(text);
            }
            Poll::Ready(())
        }
    }

    async fn pieces(script: &[Option<&'static str>]) -> Vec<String> {
        let response = respond(
            Script(script.iter().copied().collect()),
            EventWriter::default(),
            Duration::from_secs(60),
        );
        let mut body = response.into_body();
        let mut pieces = Vec::new();
        while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
            let data = frame.unwrap().into_data().unwrap();
            pieces.push(String::from_utf8(data.to_vec()).unwrap());
        }
        pieces
    }

    #[tokio::test]
    async fn what_is_ready_leaves_together_and_nothing_follows_the_end() {
        let found = pieces(&[Some("a"), Some("b"), None, Some("c")]).await;
        assert_eq!(found, ["data: a\n\ndata: b\n\n", "data: c\n\n"]);
        assert!(pieces(&[]).await.is_empty());
    }

    #[test]
    fn an_object_that_cannot_be_written_leaves_nothing() {
        let mut out = EventWriter::default();
        out.json(&serde_json::json!({ "text": "a\nb" })).unwrap();
        let broken = std::collections::BTreeMap::from([((1, 2), 3)]);
        assert!(out.json(&broken).is_err());
        assert_eq!(out.0, b"data: {\"text\":\"a\\nb\"}\n\n");
    }
}
