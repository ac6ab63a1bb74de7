//! The link into a subserver: what others may tell it.

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use tokenrouter_core::ModelIndex;
use tokenrouter_core::launch::LaunchRule;
use tokenrouter_core::request::{Request, SeatIndex};

use crate::answer::TextAnswer;

/// A message to a subserver.
#[derive(Debug)]
pub(crate) enum Message {
    /// A request comes in: new, or with the model that sent it and whether its last candidate was committed.
    Arrive {
        request: Box<Request<TextAnswer>>,
        from: Option<(ModelIndex, bool)>,
    },
    /// A request that had this seat has ended elsewhere.
    Forget(SeatIndex),
    /// A client has left: look whether its request waits here.
    Sweep,
    /// Something changed on the board: decide again.
    Look,
    /// Use this launch rule from now on.
    Rule(LaunchRule),
    /// End, once nothing runs.
    Stop,
}

/// The sending end. Cloned by everybody.
#[derive(Clone, Debug)]
pub(crate) struct Link(Sender<Message>);

impl Link {
    /// A link that holds at most `capacity` messages.
    pub(crate) fn new(capacity: usize) -> (Self, Receiver<Message>) {
        let (sender, receiver) = bounded(capacity);
        (Self(sender), receiver)
    }

    /// Sends a message that must arrive. Returns it if the subserver is gone.
    ///
    /// The capacity covers all requests that can be on their way at once (see `engine::link_capacity`), so this does not
    /// block on a subserver that works.
    pub(crate) fn send(&self, message: Message) -> Result<(), Message> {
        self.0.send(message).map_err(|error| error.0)
    }

    /// Wakes the subserver. When its link is full it is awake already.
    pub(crate) fn wake(&self, message: Message) {
        debug_assert!(matches!(message, Message::Look));
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = self.0.try_send(message) {}
    }
}
