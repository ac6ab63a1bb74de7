//! Requests that go where the policy sends them, with the state it gives them.

use tokenrouter_core::ModelIndex;
use tokenrouter_core::limits::DISCARDS_RUNNING_MAX;
use tokenrouter_core::policy::{Decisions, LeavingRow, PolicyState, RouteBatch};

use super::checks::{Subject, failed, passed};
use super::report::Outcome;
use super::vectors::{Flavour, flavours};
use crate::{PolicyError, PolicyInstance};

/// Steps of one walk.
const STEPS: u32 = 48;

/// Requests get on: no more candidates in a row are discarded than the scheduler lets be discarded before it keeps one
/// against the policy's word. And the way of a request is the same when every step is decided by a fresh instance, which is
/// what a restart after a trap rests on.
pub(super) fn progress(subject: &Subject<'_>) -> Outcome {
    let (mut steps, mut handoffs, mut walks) = (0, 0, 0);
    for round in 0..subject.rounds {
        for flavour in flavours() {
            walks += 1;
            let walk = match Walk::begin(subject, round) {
                Ok(Some(walk)) => walk,
                Ok(None) => continue,
                Err(error) => return failed(format!("{error}")),
            };
            let (mut kept, mut renewed) = (walk.clone(), walk);
            let mut instance = subject.generation.instance();
            for _ in 0..STEPS {
                let moved = kept.step(subject, flavour, &mut instance);
                let again = renewed.step(subject, flavour, &mut subject.generation.instance());
                if let Err(error) = moved.and(again) {
                    return failed(format!(
                        "step {} of a request, signals {flavour:?}: {error}",
                        kept.steps
                    ));
                }
                if kept != renewed {
                    return failed(format!(
                        "step {} of a request, signals {flavour:?}: a fresh instance sends it elsewhere",
                        kept.steps
                    ));
                }
                if kept.discards_running > DISCARDS_RUNNING_MAX {
                    return failed(format!(
                        "{} candidates in a row are discarded, signals {flavour:?}; keep the candidate on the way back",
                        kept.discards_running
                    ));
                }
            }
            steps += kept.steps;
            handoffs += kept.handoffs;
        }
    }
    passed(format!("{walks} requests, {steps} steps, {handoffs} handoffs"))
}

/// One request under way.
#[derive(Clone, Debug, PartialEq)]
struct Walk {
    seed: u64,
    at: ModelIndex,
    state: PolicyState,
    position: u64,
    steps: u32,
    handoffs: u32,
    discards_running: u32,
}

impl Walk {
    /// A request as it is admitted; `None` if the policy refuses it.
    fn begin(subject: &Subject<'_>, index: u64) -> Result<Option<Self>, PolicyError> {
        let admission = match subject.admit(&mut subject.generation.instance(), index, &[]) {
            Ok(admission) => admission,
            Err(error) if error.is_request_error() => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(Some(Self {
            seed: subject.vectors.request_seed(index),
            at: admission.model,
            state: admission.state,
            position: 1,
            steps: 0,
            handoffs: 0,
            discards_running: 0,
        }))
    }

    /// One step of the model it is at, and where it leads.
    fn step(
        &mut self,
        subject: &Subject<'_>,
        flavour: Flavour,
        instance: &mut PolicyInstance,
    ) -> Result<(), PolicyError> {
        let at = self.at;
        let mut batch = RouteBatch {
            state: self.state.words().to_vec(),
            ..RouteBatch::default()
        };
        subject
            .vectors
            .push_row(at, flavour, self.seed, self.position, &mut batch);
        let mut decisions = Decisions::default();
        instance.route(at, &batch, &mut decisions)?;
        self.steps += 1;
        let to = decisions.destinations[0];
        let keep = if to == at {
            self.state = PolicyState::new(&decisions.state);
            true
        } else {
            let leaving = LeavingRow {
                candidate: batch.candidates[0],
                signals: &batch.signals,
                state: &decisions.state,
                text: batch.texts.get(0),
            };
            let parcel = instance.send(at, to, leaving)?;
            self.state = instance.receive(to, at, &parcel)?;
            self.handoffs += 1;
            self.at = to;
            parcel.keep_candidate
        };
        if keep {
            self.position += 1;
            self.discards_running = 0;
        } else {
            self.discards_running += 1;
        }
        Ok(())
    }
}
