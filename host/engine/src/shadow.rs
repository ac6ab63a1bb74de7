//! Runs the policies that only watch: at every step of a request with a shadow, the shadow is asked what it would do, with its
//! own state, and its decision is counted beside the one in force.
//!
//! A shadow follows the request where the policy in force sends it. Where that one hands over and the shadow would not have,
//! the shadow's `send` and `receive` are called for the move that happens, so that its state stays one that the
//! contract knows.

use tokenrouter_core::ModelIndex;
use tokenrouter_core::policy::{Decisions, LeavingRow, Parcel, PolicyFault, PolicyState, RouteBatch};
use tokenrouter_core::request::{GenerationId, Request};
use tokenrouter_core::route::{Policies as _, StepResult};
use tokenrouter_core::scheduler::Verdict;
use tokenrouter_policy::{PolicyError, PolicyInstance};

use crate::answer::TextAnswer;
use crate::generations::Generations;
use crate::traffic::Shadowed;

/// Buffers, kept from step to step.
#[derive(Default)]
pub(crate) struct Shadows {
    done: Vec<GenerationId>,
    batch: RouteBatch,
    decisions: Decisions,
}

/// A request with its row of the step.
type Row<'r> = (usize, &'r mut Request<TextAnswer>);

fn shadow_id(request: &Request<TextAnswer>) -> Option<GenerationId> {
    let shadow = request.answer.routed.shadow.as_ref()?;
    Some(shadow.lease.served().id())
}

impl Shadows {
    /// Asks every shadow about its requests of a step of model `at`, before the step is settled. `requests` are those with a
    /// candidate, each with its row of the step, and `verdicts` what is to become of the rows.
    pub(crate) fn watch<'r>(
        &mut self,
        at: ModelIndex,
        requests: impl Iterator<Item = Row<'r>>,
        step: StepResult<'_>,
        verdicts: &[Verdict],
        generations: &mut Generations,
    ) {
        let mut watched: Vec<Row<'r>> = requests
            .filter(|(row, request)| step.finite[*row] && request.answer.routed.shadow.is_some())
            .collect();
        self.done.clear();
        while let Some(id) = watched
            .iter()
            .filter_map(|(_, request)| shadow_id(request))
            .find(|id| !self.done.contains(id))
        {
            self.done.push(id);
            let of_shadow = watched.iter_mut().filter(|(_, request)| shadow_id(request) == Some(id));
            let mut rows: Vec<&mut Row<'r>> = of_shadow.collect();
            if let Err(fault) = self.watch_one(at, id, &mut rows, step, verdicts, generations) {
                generations.count_fault(id, &fault);
                // Its state is lost, and with it what it could say of these requests.
                rows.iter_mut()
                    .for_each(|(_, request)| request.answer.routed.shadow = None);
            }
        }
    }

    fn watch_one(
        &mut self,
        at: ModelIndex,
        id: GenerationId,
        rows: &mut [&mut Row<'_>],
        step: StepResult<'_>,
        verdicts: &[Verdict],
        generations: &mut Generations,
    ) -> Result<(), PolicyFault> {
        let gone = || PolicyFault(format!("generation {} is no longer served at this model", id.0));
        let (columns, words, texts) = {
            let plan = generations.instance(id).ok_or_else(gone)?.generation().plan();
            (plan.columns(at), plan.state_words, plan.texts)
        };
        self.batch.clear();
        for (row, request) in rows.iter() {
            let Some(shadow) = &request.answer.routed.shadow else {
                continue;
            };
            self.batch.candidates.push(step.candidates[*row]);
            self.batch.signals.extend_from_slice(own_signals(step, *row, columns));
            self.batch.state.extend_from_slice(shadow.state.words());
            if texts {
                self.batch.texts.push(&generations.token_text(step.candidates[*row]));
            }
        }
        let policy = generations.instance(id).ok_or_else(gone)?;
        policy
            .route(at, &self.batch, &mut self.decisions)
            .map_err(|error| fault(&error))?;
        for (index, (row, request)) in rows.iter_mut().enumerate() {
            let Some(shadow) = &mut request.answer.routed.shadow else {
                continue;
            };
            let leaving = LeavingRow {
                candidate: step.candidates[*row],
                signals: own_signals(step, *row, columns),
                state: &self.decisions.state[index * words..(index + 1) * words],
                text: self.batch.texts.get(index),
            };
            follow(
                shadow,
                policy,
                at,
                self.decisions.destinations[index],
                leaving,
                &verdicts[*row],
            )
            .map_err(|error| fault(&error))?;
        }
        Ok(())
    }
}

/// Counts a decision and moves the shadow's state the way the request goes.
fn follow(
    shadow: &mut Shadowed,
    policy: &mut PolicyInstance,
    at: ModelIndex,
    would_go: ModelIndex,
    leaving: LeavingRow<'_>,
    verdict: &Verdict,
) -> Result<(), PolicyError> {
    let goes = match verdict {
        Verdict::Stay { .. } => at,
        Verdict::HandOff { to, .. } => *to,
        Verdict::Fail(_) => return Ok(()),
    };
    let would_send = if would_go == at {
        None
    } else {
        Some(policy.send(at, would_go, leaving)?)
    };
    let commits = would_send.is_none_or(|parcel| parcel.keep_candidate);
    shadow.comparison.record(at, goes, would_go, commits);
    shadow.state = if goes == at {
        PolicyState::new(leaving.state)
    } else {
        match would_send.filter(|_| would_go == goes) {
            Some(parcel) => parcel.state,
            None => policy.send(at, goes, leaving)?.state,
        }
    };
    Ok(())
}

/// Takes a shadow's state in where its request has arrived. One that fails watches no longer.
pub(crate) fn receive(
    request: &mut Request<TextAnswer>,
    at: ModelIndex,
    from: ModelIndex,
    kept: bool,
    generations: &mut Generations,
) {
    let Some(shadow) = &mut request.answer.routed.shadow else {
        return;
    };
    let id = shadow.lease.served().id();
    let parcel = Parcel {
        keep_candidate: kept,
        state: shadow.state,
    };
    match generations.instance(id).map(|policy| policy.receive(at, from, &parcel)) {
        Some(Ok(state)) => shadow.state = state,
        Some(Err(error)) => {
            generations.count_fault(id, &fault(&error));
            request.answer.routed.shadow = None;
        }
        None => request.answer.routed.shadow = None,
    }
}

/// The signals that the shadow asked for are a row's last.
fn own_signals(step: StepResult<'_>, row: usize, columns: usize) -> &[f32] {
    let all = step.all_signals(row);
    &all[all.len().saturating_sub(columns)..]
}

fn fault(error: &PolicyError) -> PolicyFault {
    PolicyFault(error.to_string())
}
