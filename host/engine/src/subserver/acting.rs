//! What comes in and what goes out: requests are received, and what a step has led to is carried out.

use tokenrouter_core::policy::{FailureMode, Parcel, PolicyFault};
use tokenrouter_core::request::{Answer as _, Finish, Request};
use tokenrouter_core::route::Policies as _;
use tokenrouter_core::scheduler::Action;

use super::Subserver;
use super::restart::Doing;
use crate::answer::TextAnswer;
use crate::link::{Handoff, Message};
use crate::shadow;

impl Subserver {
    pub(super) fn arrive(&mut self, mut request: Box<Request<TextAnswer>>, from: Option<Handoff>) {
        self.doing = Doing::Arrival;
        self.generations.take_in(&request.answer.routed);
        let received = match from {
            Some(handoff) => self.receive(&mut request, handoff),
            None => Ok(()),
        };
        self.doing = Doing::Nothing;
        let finish = match received {
            Ok(()) if request.answer.abandoned() => Finish::Cancelled,
            Ok(()) => return self.take_in(request),
            Err(fault) => Finish::Failed(format!("the routing policy failed: {}", fault.0)),
        };
        self.shared.board.sub_waiting(self.model, 1);
        self.scheduler.end(request, finish, &mut self.actions);
        self.act();
        self.wake_others();
    }

    /// Gives a request to the scheduler. One that was written ahead here may not stay.
    fn take_in(&mut self, request: Box<Request<TextAnswer>>) {
        let before = self.scheduler.waiting();
        let now_us = self.shared.board.now_us();
        self.scheduler.arrive(now_us, request, &mut self.actions);
        if self.scheduler.waiting() == before {
            self.shared.board.sub_waiting(self.model, 1);
            self.act();
            self.wake_others();
        }
    }

    /// Gives the parcel to the policy. Only `on_fault = fail` makes its failure the request's.
    fn receive(&mut self, request: &mut Request<TextAnswer>, handoff: Handoff) -> Result<(), PolicyFault> {
        let Handoff { from, kept, sent_us } = handoff;
        let took_us = self.shared.board.now_us().saturating_sub(sent_us);
        self.counters.handoffs_in_us.record(took_us);
        shadow::receive(request, self.model, from, kept, &mut self.generations);
        let Some(generation) = request.generation else {
            return Ok(());
        };
        let Some(policy) = self.generations.policy(generation) else {
            return Ok(());
        };
        let parcel = Parcel {
            keep_candidate: kept,
            state: request.state,
        };
        match policy.receive(self.model, from, &parcel) {
            Ok(state) => request.state = state,
            Err(fault) => {
                self.generations.fault(generation, &fault);
                if self.on_fault == FailureMode::Fail {
                    return Err(fault);
                }
            }
        }
        Ok(())
    }

    /// Sends requests on and tells clients and peers what has ended.
    pub(super) fn act(&mut self) {
        for action in self.actions.drain(..) {
            match action {
                Action::Send { to, kept, request } => {
                    request.answer.moves_to(to);
                    self.shared.board.add_waiting(to, 1);
                    // A subserver that is gone gives the request back; dropping it tells the client.
                    let message = Message::Arrive {
                        request,
                        from: Some(Handoff {
                            from: self.model,
                            kept,
                            sent_us: self.shared.board.now_us(),
                        }),
                    };
                    drop(self.shared.links[to.index()].send(message));
                }
                Action::Pass { to, request } => {
                    request.answer.moves_to(to);
                    self.shared.board.add_waiting(to, 1);
                    drop(self.shared.links[to.index()].send(Message::Arrive { request, from: None }));
                }
                Action::Assume {
                    at,
                    request,
                    position,
                    entry,
                } => {
                    let message = Message::Assume {
                        request,
                        position,
                        entry: Box::new(entry),
                    };
                    drop(self.shared.links[at.index()].send(message));
                }
                Action::Settled {
                    to,
                    seat,
                    length,
                    goes_on,
                } => drop(self.shared.links[to.index()].send(Message::Settled { seat, length, goes_on })),
                Action::End { request, finish } => {
                    let length = request.tokens().len() as u32;
                    for (model, seat) in request.seats().filter(|(model, _)| *model != self.model) {
                        drop(self.shared.links[model.index()].send(Message::Forget { seat, length }));
                    }
                    TextAnswer::end(request, finish);
                }
            }
        }
        self.publish_kept();
    }
}
