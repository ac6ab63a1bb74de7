//! Ctrl-C and SIGTERM: the first asks for an orderly end, the second for an end at once.

use tokio::sync::watch;

/// Counts signals from now on.
pub(super) struct Signals(watch::Receiver<u32>);

impl Signals {
    /// Takes over the signals. Called within a runtime.
    pub(super) fn listen() -> std::io::Result<Self> {
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        let mut interrupt = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?;
        let (sender, receiver) = watch::channel(0);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                sender.send_modify(|count| *count += 1);
            }
        });
        Ok(Self(receiver))
    }

    /// Ends when as many signals have come.
    pub(super) fn after(&self, count: u32) -> impl Future<Output = ()> + Send + use<> {
        let mut receiver = self.0.clone();
        async move {
            // The sender lives as long as the runtime.
            drop(receiver.wait_for(|seen| *seen >= count).await);
        }
    }
}
