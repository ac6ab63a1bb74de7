//! What the engine's handle, its streams and its subservers share: the queue in front, the links, and the signs of life.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokenrouter_core::admission::{AdmissionLimits, Admissions};
use tokenrouter_core::request::{Answer as _, Request};
use tokenrouter_core::{ModelIndex, RequestId};

use super::EngineLimits;
use crate::answer::TextAnswer;
use crate::board::Board;
use crate::health::Pulse;
use crate::link::{Link, Message};
use crate::meter::Meters;
use crate::roster::Roster;

/// A request and the model that it starts at.
pub(super) type Admitted = (Box<Request<TextAnswer>>, ModelIndex);

/// What the engine's handle, its streams and its subservers share.
pub(crate) struct Shared {
    pub(crate) board: Board,
    pub(crate) links: Vec<Link>,
    pub(super) admissions: Mutex<Admissions<Admitted>>,
    pub(super) idle: Condvar,
    pub(super) closing: AtomicBool,
    pub(super) next_id: AtomicU64,
    pub(crate) pulses: Vec<Pulse>,
    pub(crate) roster: Roster,
    pub(super) meters: Meters,
    /// Why the engine has stopped for good, if it has.
    failed: Mutex<Option<String>>,
}

impl Shared {
    /// Nothing runs, nothing waits.
    pub(super) fn new(links: Vec<Link>, limits: &EngineLimits) -> Self {
        Self {
            board: Board::new(links.len()),
            pulses: links.iter().map(|_| Pulse::default()).collect(),
            roster: Roster::default(),
            meters: Meters::default(),
            links,
            admissions: Mutex::new(Admissions::new(AdmissionLimits {
                running_max: limits.requests_running_max,
                waiting_max: limits.requests_waiting_max,
                kv_tokens: limits.kv_tokens,
                kv_tokens_promised: limits.kv_tokens.saturating_mul(limits.kv_promised_percent) / 100,
            })),
            idle: Condvar::new(),
            closing: AtomicBool::new(false),
            failed: Mutex::new(None),
            next_id: AtomicU64::new(0),
        }
    }

    pub(super) fn admissions(&self) -> MutexGuard<'_, Admissions<Admitted>> {
        // Admissions are whole between any two of its calls.
        self.admissions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends off as many waiting requests as may run.
    fn start_waiting(&self) {
        loop {
            let next = self.admissions().start_next();
            let Some(started) = next else { return };
            self.start(started);
        }
    }

    /// Sends a request to its first model.
    pub(super) fn start(&self, ((mut request, entry), tokens): (Admitted, usize)) {
        request.answer.take_budget(tokens);
        request.answer.moves_to(entry);
        self.board.add_waiting(entry, 1);
        if let Err(Message::Arrive { mut request, .. }) =
            self.links[entry.index()].send(Message::Arrive { request, from: None })
        {
            // That subserver is gone. The budget is given back here and not by dropping the request, which would start
            // the next one from within.
            self.board.sub_waiting(entry, 1);
            request.answer.forget_budget();
            self.admissions().ended(tokens);
            self.idle.notify_all();
        }
    }

    /// A client has left: a request that waits to start is taken out, one that waits at a model is looked for.
    pub(super) fn abandon(&self) {
        let gone = self.admissions().remove(|(request, _)| request.answer.abandoned());
        drop(gone);
        self.idle.notify_all();
        // Those behind it may fit where it did not.
        self.start_waiting();
        for link in &self.links {
            drop(link.send(Message::Sweep));
        }
    }

    /// Ends everything because a model cannot go on.
    pub(crate) fn fail(&self, reason: String) {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
        self.stop();
    }

    /// Why everything has ended, if it has.
    pub(super) fn failure(&self) -> Option<String> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends everything: no new jobs, and what waits or runs is dropped, which tells its clients.
    pub(crate) fn stop(&self) {
        self.closing.store(true, Ordering::Release);
        drop(self.admissions().remove(|_| true));
        for link in &self.links {
            drop(link.send(Message::Stop));
        }
        self.idle.notify_all();
    }
}

/// A request's share of the budget, given back when it is dropped.
pub(crate) struct Slot {
    pub(super) shared: Arc<Shared>,
    pub(super) id: RequestId,
    /// Tokens of the budget, once the request has started.
    pub(crate) taken: Option<usize>,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot")
            .field("taken", &self.taken)
            .finish_non_exhaustive()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.shared.roster.leave(self.id);
        let Some(tokens) = self.taken else { return };
        self.shared.admissions().ended(tokens);
        self.shared.idle.notify_all();
        self.shared.start_waiting();
    }
}
