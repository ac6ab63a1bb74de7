//! The link into a subserver: an inbox that everybody can put into without ever waiting.
//!
//! Senders must not wait: subservers send to each other and to themselves, so one that waits for a full inbox could wait
//! for itself. The inbox is bounded by what can be in it: a running request arrives at one model at a time and is forgotten once at
//! each; it is written ahead by one model, so far and no farther, and settled by one; and everything else is a flag or a setting that replaces the one before it.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokenrouter_core::ahead::Assumed;
use tokenrouter_core::launch::LaunchRule;
use tokenrouter_core::request::{Request, SeatIndex};
use tokenrouter_core::{ModelIndex, RequestId};

use crate::answer::TextAnswer;

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handoff {
    pub(crate) from: ModelIndex,
    /// Whether its last candidate was committed.
    pub(crate) kept: bool,
    /// When it was sent, on the board's clock.
    pub(crate) sent_us: u64,
}

/// A message to a subserver.
#[derive(Debug)]
pub(crate) enum Message {
    /// A request comes in: new, or handed over by another model.
    Arrive {
        request: Box<Request<TextAnswer>>,
        from: Option<Handoff>,
    },
    /// A request that had this seat has ended elsewhere, with so many tokens.
    Forget { seat: SeatIndex, length: u32 },
    /// A token has been written ahead for a request that is settled here.
    Assume {
        request: RequestId,
        position: u32,
        entry: Box<Assumed>,
    },
    /// What was written ahead here for the request with this seat is settled so far, and may go on.
    Settled {
        seat: SeatIndex,
        length: u32,
        goes_on: bool,
    },
    /// A client has left: look whether its request waits here.
    Sweep,
    /// A generation is held by nobody any more: let go of its instance.
    Retire,
    /// Use this launch rule from now on.
    Rule(LaunchRule),
    /// End at once.
    Stop,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<Message>,
    rule: Option<LaunchRule>,
    sweep: bool,
    retire: bool,
    /// Something changed on the board: decide again.
    look: bool,
    stop: bool,
    /// The subserver is gone.
    closed: bool,
    /// The subserver sleeps. Notifying one that does not would cost a system call.
    sleeps: bool,
}

impl State {
    /// The next message: the end first, then requests in the order they came, then the rest.
    fn next(&mut self) -> Option<Message> {
        if self.stop {
            return Some(Message::Stop);
        }
        if let Some(message) = self.messages.pop_front() {
            return Some(message);
        }
        if std::mem::take(&mut self.sweep) {
            return Some(Message::Sweep);
        }
        if std::mem::take(&mut self.retire) {
            return Some(Message::Retire);
        }
        self.rule.take().map(Message::Rule)
    }
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // The state is whole between any two statements that hold the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self, mut state: MutexGuard<'_, State>) {
        let sleeps = std::mem::take(&mut state.sleeps);
        drop(state);
        if sleeps {
            self.changed.notify_one();
        }
    }
}

/// The sending end. Cloned by everybody.
#[derive(Clone, Debug)]
pub(crate) struct Link(Arc<Shared>);

impl Link {
    /// Both ends of a new link.
    pub(crate) fn new() -> (Self, Inbox) {
        let shared = Arc::new(Shared::default());
        (Self(shared.clone()), Inbox(shared))
    }

    /// Puts a message in. Returns it if the subserver is gone.
    pub(crate) fn send(&self, message: Message) -> Result<(), Message> {
        let mut state = self.0.state();
        if state.closed {
            return Err(message);
        }
        match message {
            Message::Arrive { .. } | Message::Forget { .. } | Message::Assume { .. } | Message::Settled { .. } => {
                state.messages.push_back(message);
            }
            Message::Sweep => state.sweep = true,
            Message::Retire => state.retire = true,
            Message::Rule(rule) => state.rule = Some(rule),
            Message::Stop => state.stop = true,
        }
        self.0.notify(state);
        Ok(())
    }

    /// Wakes the subserver, so that it decides again.
    pub(crate) fn wake(&self) {
        let mut state = self.0.state();
        state.look = true;
        self.0.notify(state);
    }
}

/// The receiving end. Dropping it drops what is in it, so that no client waits for a subserver that is gone.
#[derive(Debug)]
pub(crate) struct Inbox(Arc<Shared>);

impl Inbox {
    /// The next message, if there is one.
    pub(crate) fn take(&self) -> Option<Message> {
        self.0.state().next()
    }

    /// Waits for a message, a wake, or the end of `limit` (`None`: for as long as it takes).
    pub(crate) fn wait(&self, limit: Option<Duration>) -> Option<Message> {
        let idle = |state: &mut State| {
            state.sleeps = !(state.stop
                || state.sweep
                || state.retire
                || state.look
                || state.rule.is_some()
                || !state.messages.is_empty());
            state.sleeps
        };
        let state = self.0.state();
        let mut state = match limit {
            Some(limit) => {
                let waited = self.0.changed.wait_timeout_while(state, limit, idle);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => {
                let waited = self.0.changed.wait_while(state, idle);
                waited.unwrap_or_else(PoisonError::into_inner)
            }
        };
        state.look = false;
        state.sleeps = false;
        state.next()
    }

    /// Waits for as long as `limit`, or until the subserver is to end: then true. Everything else may wait.
    pub(crate) fn stops_within(&self, limit: Duration) -> bool {
        let sleeps_on = |state: &mut State| {
            state.sleeps = !state.stop;
            state.sleeps
        };
        let waited = self.0.changed.wait_timeout_while(self.0.state(), limit, sleeps_on);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.sleeps = false;
        state.stop
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.closed = true;
        let left = std::mem::take(&mut state.messages);
        // Dropping requests gives back their share of the budget, which may send to this very link.
        drop(state);
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wakes_and_sweeps_are_one_however_many_come() {
        let (link, inbox) = Link::new();
        for _ in 0..10_000 {
            link.wake();
            link.send(Message::Sweep).unwrap();
        }
        assert!(matches!(inbox.wait(None), Some(Message::Sweep)));
        assert!(inbox.take().is_none());
        assert!(inbox.wait(Some(Duration::ZERO)).is_none(), "the wake is used up");
    }

    #[test]
    fn a_link_whose_subserver_is_gone_gives_messages_back() {
        let (link, inbox) = Link::new();
        let seat = SeatIndex(1);
        link.send(Message::Forget { seat, length: 1 }).unwrap();
        drop(inbox);
        assert!(matches!(link.send(Message::Stop), Err(Message::Stop)));
    }
}
