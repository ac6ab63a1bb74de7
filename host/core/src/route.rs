//! From a step's candidates and signals to verdicts: asks each request's policy, every generation with its own rows,
//! and applies the failure mode where a policy faults.

use crate::ahead::Foreseen;
use crate::ids::{ModelIndex, TokenId};
use crate::policy::{Decisions, FailureMode, LeavingRow, Parcel, Policy, PolicyFault, PolicyState, RouteBatch};
use crate::request::{Answer, GenerationId};
use crate::scheduler::{Row, Verdict};

/// What a step brought, one entry for every row with a candidate.
#[derive(Clone, Copy, Debug)]
pub struct StepResult<'a> {
    /// The candidates.
    pub candidates: &'a [TokenId],
    /// All rows' signals, one row after the other.
    pub signals: &'a [f32],
    /// Where each row's signals start, and the end of the last: rows + 1 entries.
    pub signal_starts: &'a [u32],
    /// Whether the row's logits were numbers.
    pub finite: &'a [bool],
}

impl<'a> StepResult<'a> {
    /// The first `columns` signals of a row. A row may have more of them: those of a policy that only watches.
    fn row_signals(&self, row: usize, columns: usize) -> &'a [f32] {
        let all = self.all_signals(row);
        &all[..columns.min(all.len())]
    }

    /// All signals of a row.
    pub fn all_signals(&self, row: usize) -> &'a [f32] {
        &self.signals[self.signal_starts[row] as usize..self.signal_starts[row + 1] as usize]
    }
}

/// The policies of the deployment, as one model's driver holds them.
pub trait Policies {
    /// The instance of a generation at this model.
    fn policy(&mut self, generation: GenerationId) -> Option<&mut dyn Policy>;

    /// Text of a token, for policies that read it.
    fn token_text(&self, token: TokenId) -> String;

    /// A fault, to be counted and logged.
    fn fault(&mut self, generation: GenerationId, fault: &PolicyFault);
}

/// The model that ran the step, and what it does with faults.
#[derive(Clone, Copy)]
struct Place {
    at: ModelIndex,
    on_fault: FailureMode,
}

/// Buffers of [`Routing::decide`], kept from step to step.
#[derive(Debug, Default)]
pub struct Routing {
    generations: Vec<Option<GenerationId>>,
    rows: Vec<usize>,
    batch: RouteBatch,
    decisions: Decisions,
    /// Whether states are foreseen for requests that are handed over.
    foresees: bool,
    foreseen: Vec<Foreseen>,
}

impl Routing {
    /// Buffers for a driver that lets models write ahead: then policies are also asked what their states become if the other
    /// model does as is assumed.
    pub fn foreseeing(foresees: bool) -> Self {
        Self {
            foresees,
            ..Self::default()
        }
    }

    /// The states foreseen at the last step; verdicts have places in it.
    pub fn foreseen(&self) -> &[Foreseen] {
        &self.foreseen
    }

    /// Fills `verdicts` with one verdict for every row, in order.
    pub fn decide<'r, A: Answer + 'r>(
        &mut self,
        at: ModelIndex,
        requests: &(impl Iterator<Item = Row<'r, A>> + Clone),
        step: StepResult<'_>,
        policies: &mut dyn Policies,
        on_fault: FailureMode,
        verdicts: &mut Vec<Verdict>,
    ) {
        let place = Place { at, on_fault };
        verdicts.clear();
        self.generations.clear();
        self.foreseen.clear();
        for (row, request) in requests.clone().enumerate() {
            let finite = step.finite[row];
            verdicts.push(if finite {
                Verdict::Stay { state: *request.state }
            } else {
                Verdict::Fail("the model's logits, or the score of a head, are not numbers at this position".to_owned())
            });
            self.generations.push(request.generation.filter(|_| finite));
        }
        for first in 0..self.generations.len() {
            let Some(generation) = self.generations[first] else {
                continue;
            };
            if self.generations[..first].contains(&Some(generation)) {
                continue;
            }
            if let Err(fault) = self.decide_generation(place, generation, requests.clone(), step, policies, verdicts) {
                policies.fault(generation, &fault);
                for (&row, request) in self.rows.iter().zip(self.members(generation, requests.clone())) {
                    verdicts[row] = after_fault(on_fault, at, *request.state, &fault);
                }
            }
        }
    }

    fn members<'s, 'r: 's, A: Answer + 'r>(
        &'s self,
        generation: GenerationId,
        requests: impl Iterator<Item = Row<'r, A>> + 's,
    ) -> impl Iterator<Item = Row<'r, A>> + 's {
        requests
            .zip(&self.generations)
            .filter(move |(_, of)| **of == Some(generation))
            .map(|(request, _)| request)
    }

    fn decide_generation<'r, A: Answer + 'r>(
        &mut self,
        Place { at, on_fault }: Place,
        generation: GenerationId,
        requests: impl Iterator<Item = Row<'r, A>>,
        step: StepResult<'_>,
        policies: &mut dyn Policies,
        verdicts: &mut [Verdict],
    ) -> Result<(), PolicyFault> {
        // Rows first: they are what a fault is applied to, also that of a generation that is gone.
        self.rows.clear();
        self.batch.clear();
        for (row, request) in requests
            .enumerate()
            .filter(|(row, _)| self.generations[*row] == Some(generation))
        {
            self.rows.push(row);
            self.batch.candidates.push(step.candidates[row]);
            self.batch.state.extend_from_slice(request.state.words());
        }
        let missing = || PolicyFault(format!("generation {} is no longer served at this model", generation.0));
        let (columns, words, texts) = {
            let plan = policies.policy(generation).ok_or_else(missing)?.plan();
            (plan.columns(at), plan.state_words, plan.texts)
        };
        for &row in &self.rows {
            self.batch.signals.extend_from_slice(step.row_signals(row, columns));
        }
        if texts {
            self.batch
                .texts
                .extend(self.batch.candidates.iter().map(|&token| policies.token_text(token)));
        }
        let policy = policies.policy(generation).ok_or_else(missing)?;
        policy.route(at, &self.batch, &mut self.decisions)?;
        for (index, (&row, &to)) in self.rows.iter().zip(&self.decisions.destinations).enumerate() {
            let state = &self.decisions.state[index * words..(index + 1) * words];
            if to == at {
                verdicts[row] = Verdict::Stay {
                    state: PolicyState::new(state),
                };
                continue;
            }
            let leaving = LeavingRow {
                candidate: step.candidates[row],
                signals: step.row_signals(row, columns),
                state,
                text: self.batch.texts.get(index),
            };
            let policy = policies.policy(generation).ok_or_else(missing)?;
            verdicts[row] = match policy.send(at, to, leaving) {
                Ok(parcel) => {
                    let foreseen = if self.foresees && !parcel.keep_candidate {
                        foresee(policy, at, to, &parcel)
                    } else {
                        None
                    };
                    Verdict::HandOff {
                        to,
                        keep: parcel.keep_candidate,
                        state: parcel.state,
                        foreseen: foreseen.map(|states| {
                            self.foreseen.push(states);
                            self.foreseen.len() as u32 - 1
                        }),
                    }
                }
                // One row's fault is one request's fault.
                Err(fault) => {
                    policies.fault(generation, &fault);
                    after_fault(on_fault, at, PolicyState::new(state), &fault)
                }
            };
        }
        Ok(())
    }
}

/// The states if `to` writes what is expected of it and hands back at once. A policy that fails here will fail again where it
/// counts, and then it is counted.
fn foresee(policy: &mut dyn Policy, at: ModelIndex, to: ModelIndex, parcel: &Parcel) -> Option<Foreseen> {
    let there = policy.receive(to, at, parcel).ok()?;
    let returning = Parcel {
        keep_candidate: true,
        state: there,
    };
    let back = policy.receive(at, to, &returning).ok()?;
    Some(Foreseen { there, back })
}

fn after_fault(on_fault: FailureMode, at: ModelIndex, state: PolicyState, fault: &PolicyFault) -> Verdict {
    match on_fault {
        FailureMode::Fail => Verdict::Fail(format!("the routing policy failed: {}", fault.0)),
        FailureMode::Fallback(to) if to != at => Verdict::HandOff {
            to,
            keep: false,
            state,
            foreseen: None,
        },
        FailureMode::Stay | FailureMode::Fallback(_) => Verdict::Stay { state },
    }
}
