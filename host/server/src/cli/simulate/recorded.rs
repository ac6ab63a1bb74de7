//! `--trace`: signals of models as they were recorded, in place of even draws.

use std::path::Path;

use tokenrouter_core::ModelIndex;
use tokenrouter_core::policy::{Decisions, LeavingRow, Parcel, Policy, PolicyFault, PolicyState, RouteBatch};
use tokenrouter_core::signal::{Plan, Signal};
use tokenrouter_host::trace::{Columns, Trace};

/// The number of the draw that picks a recorded row, away from the small numbers that policies use.
const PICK: u32 = 1 << 30;

/// Recorded rows for one plan, by model: each has the plan's columns.
#[derive(Clone, Debug)]
pub(in crate::cli) struct RecordedRows(Vec<Vec<Vec<f32>>>);

impl RecordedRows {
    /// Reads a trace for a plan that routes `models` simulated models.
    ///
    /// # Errors
    /// No trace, a trace of another number of models, or one that lacks a signal or has no row of a model.
    pub(super) fn read(path: &Path, plan: &Plan) -> anyhow::Result<Self> {
        let trace = Trace::read(path)?;
        let models = plan.signals.len();
        anyhow::ensure!(
            trace.header.models.len() == models,
            "--trace {}: recorded with {} models, simulated are {models}",
            path.display(),
            trace.header.models.len()
        );
        let columns = Columns::new(&trace, plan)?;
        let mut rows = vec![Vec::new(); models];
        for recorded in &trace.requests {
            for step in &recorded.steps {
                let mut row = Vec::new();
                if columns.append(recorded.request.generation, recorded.request.seed, step, &mut row) {
                    rows[step.at as usize].push(row);
                }
            }
        }
        for ((rows, signals), model) in rows.iter().zip(&plan.signals).zip(&trace.header.models) {
            anyhow::ensure!(
                !rows.is_empty() || signals.is_empty(),
                "--trace {}: it has no step of model \"{}\", from which the policy reads signals",
                path.display(),
                model.name
            );
        }
        Ok(Self(rows))
    }
}

/// A policy that is given recorded rows: every step gets one row of its model, drawn evenly, so that the signals of a row keep
/// their joint law. Draws and positions stay the simulation's own.
pub(super) struct WithRecordedSignals<P> {
    policy: P,
    rows: RecordedRows,
    /// What is asked of the simulation.
    plan: Plan,
    batch: RouteBatch,
}

impl<P: Policy> WithRecordedSignals<P> {
    pub(super) fn new(policy: P, rows: RecordedRows) -> Self {
        let own = |signals: &Vec<Signal>| {
            let own = signals.iter().filter(|signal| is_own(signal)).cloned();
            std::iter::once(Signal::Uniform(PICK)).chain(own).collect()
        };
        let mut plan = policy.plan().clone();
        plan.signals = plan.signals.iter().map(own).collect();
        Self {
            policy,
            rows,
            plan,
            batch: RouteBatch::default(),
        }
    }

    /// Appends the columns that the policy asked for. `given` has the pick and the simulation's own signals.
    fn append(&self, at: ModelIndex, given: &[f32], out: &mut Vec<f32>) {
        let rows = &self.rows.0[at.index()];
        let picked = (f64::from(given[0]) * rows.len() as f64) as usize;
        let recorded = rows.get(picked).map_or(&[][..], Vec::as_slice);
        let (mut own, mut column) = (given[1..].iter(), 0);
        for signal in &self.policy.plan().signals[at.index()] {
            let end = column + signal.columns();
            if is_own(signal) {
                out.extend(own.next());
            } else {
                out.extend_from_slice(&recorded[column..end]);
            }
            column = end;
        }
    }
}

/// Whether the simulation knows the signal better than the record.
fn is_own(signal: &Signal) -> bool {
    matches!(signal, Signal::Uniform(_) | Signal::Position)
}

impl<P: Policy> Policy for WithRecordedSignals<P> {
    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn route(&mut self, at: ModelIndex, batch: &RouteBatch, out: &mut Decisions) -> Result<(), PolicyFault> {
        let mut inner = std::mem::take(&mut self.batch);
        inner.clear();
        inner.candidates.extend_from_slice(&batch.candidates);
        inner.state.extend_from_slice(&batch.state);
        inner.texts.clone_from(&batch.texts);
        for given in batch.signals.chunks_exact(self.plan.columns(at)) {
            self.append(at, given, &mut inner.signals);
        }
        let routed = self.policy.route(at, &inner, out);
        self.batch = inner;
        routed
    }

    fn send(&mut self, at: ModelIndex, to: ModelIndex, row: LeavingRow<'_>) -> Result<Parcel, PolicyFault> {
        let mut signals = Vec::new();
        self.append(at, row.signals, &mut signals);
        let row = LeavingRow {
            signals: &signals,
            ..row
        };
        self.policy.send(at, to, row)
    }

    fn receive(&mut self, at: ModelIndex, from: ModelIndex, parcel: &Parcel) -> Result<PolicyState, PolicyFault> {
        self.policy.receive(at, from, parcel)
    }
}
