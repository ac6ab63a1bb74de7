//! A connection whose client has to read: where bytes wait to be sent for too long, it ends, and with it what was being
//! written for it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// A stream of bytes that fails with `TimedOut` when a write makes no progress within its limit.
pub(super) struct Transport<T> {
    io: T,
    limit: Duration,
    /// Made when a write has to wait for the first time: most connections never need it.
    timer: Option<Pin<Box<Sleep>>>,
    waiting: bool,
}

impl<T> Transport<T> {
    pub(super) fn new(io: T, limit: Duration) -> Self {
        Self {
            io,
            limit,
            timer: None,
            waiting: false,
        }
    }

    /// Passes a write's outcome on, unless it has waited for too long.
    fn within_limit<R>(&mut self, outcome: Poll<io::Result<R>>, context: &mut Context<'_>) -> Poll<io::Result<R>> {
        if outcome.is_ready() {
            self.waiting = false;
            return outcome;
        }
        let deadline = Instant::now() + self.limit;
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if !std::mem::replace(&mut self.waiting, true) {
            timer.as_mut().reset(deadline);
        }
        timer.as_mut().poll(context).map(|()| {
            let what = "the client has read nothing for too long";
            Err(io::Error::new(io::ErrorKind::TimedOut, what))
        })
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Transport<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Transport<T> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.io).poll_write(context, bytes);
        self.within_limit(outcome, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.io).poll_write_vectored(context, slices);
        self.within_limit(outcome, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.io).poll_flush(context);
        self.within_limit(outcome, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.io).poll_shutdown(context);
        self.within_limit(outcome, context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn a_write_that_nobody_reads_fails_and_one_that_is_read_does_not() {
        let (near, mut far) = duplex(8);
        let mut transport = Transport::new(near, Duration::from_millis(20));
        let (written, read) = tokio::join!(transport.write_all(&[7; 100]), async {
            let mut bytes = [0; 100];
            far.read_exact(&mut bytes).await.map(|_| bytes)
        });
        assert!(written.is_ok() && read.unwrap() == [7; 100]);
        let error = transport.write_all(&[7; 100]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
