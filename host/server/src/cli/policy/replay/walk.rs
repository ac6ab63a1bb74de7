//! One recorded request under another policy. At every position the policy decides about the rows that were recorded there,
//! for as long as it goes where rows are; where it goes elsewhere, nobody knows what the model would have written. Such places
//! are counted, and the request is taken up again at the next recorded row.

use std::collections::BTreeMap;
use std::time::Instant;

use tokenrouter_core::ModelIndex;
use tokenrouter_core::limits::DISCARDS_RUNNING_MAX;
use tokenrouter_core::policy::{Decisions, LeavingRow, PolicyState, RouteBatch};
use tokenrouter_host::trace::format::StepLine;
use tokenrouter_host::trace::{Columns, RecordedRequest};
use tokenrouter_policy::{PolicyError, PolicyInstance};

/// What a replay counts, over all requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Steps that the policy decided about.
    pub(super) routed: u64,
    /// Of these, steps that the policy would have seen exactly so: until then its answer is the recorded one.
    pub(super) exact: u64,
    /// Of the routed, steps that were decided as recorded: the same model, the candidate kept or not alike.
    pub(super) alike: u64,
    /// Positions at which the policy goes to a model that has no row there.
    pub(super) missing: u64,
    /// Tokens by the model that would write them. At a missing place that is the model the policy chose.
    pub(super) tokens: Vec<u64>,
    /// Handoffs.
    pub(super) handoffs: u64,
    /// Time of each call of `route`, with one row, microseconds.
    pub(super) route_us: Vec<f64>,
}

/// What a replay needs beside the request.
pub(super) struct Replay<'a> {
    pub(super) instance: PolicyInstance,
    pub(super) columns: &'a Columns,
    pub(super) tally: Tally,
}

/// Where a request is, in a replay.
struct Place {
    at: ModelIndex,
    state: PolicyState,
    /// Whether all text up to here is as recorded.
    exact: bool,
}

impl Replay<'_> {
    /// Walks through one request, which was admitted with this model and state.
    ///
    /// # Errors
    /// A fault of the policy, or a step without the numbers that it should have.
    pub(super) fn walk(
        &mut self,
        recorded: &RecordedRequest,
        at: ModelIndex,
        state: PolicyState,
    ) -> anyhow::Result<()> {
        let mut by_position: BTreeMap<u32, Vec<&StepLine>> = BTreeMap::new();
        for step in &recorded.steps {
            by_position.entry(step.position).or_default().push(step);
        }
        let mut place = Place { at, state, exact: true };
        let mut lost = false;
        for rows in by_position.values() {
            if std::mem::take(&mut lost) {
                place.at = ModelIndex(rows[0].at);
            }
            lost = !self.position(recorded, rows, &mut place)?;
        }
        Ok(())
    }

    /// Decides until a token is written at this position. Returns false if the way leads to where no row is.
    fn position(&mut self, recorded: &RecordedRequest, rows: &[&StepLine], place: &mut Place) -> anyhow::Result<bool> {
        let written = rows.iter().find(|row| row.keep).map(|row| row.candidate);
        for discards in 0.. {
            let at = place.at;
            let Some(row) = rows.iter().find(|row| row.at == at.0) else {
                self.tally.missing += 1;
                self.tally.tokens[at.index()] += 1;
                place.exact = false;
                return Ok(false);
            };
            let (to, keep) = self.decide(recorded, row, place)?;
            self.tally.routed += 1;
            self.tally.exact += u64::from(place.exact);
            self.tally.alike += u64::from(row.to == Some(to.0) && row.keep == keep);
            self.tally.handoffs += u64::from(to != at);
            place.at = to;
            // As the scheduler does: a policy may not discard for ever.
            if keep || discards >= DISCARDS_RUNNING_MAX {
                self.tally.tokens[at.index()] += 1;
                place.exact &= written == Some(row.candidate);
                return Ok(true);
            }
        }
        Ok(true)
    }

    /// The policy's decision about a row: where the request goes, and whether the candidate is kept.
    fn decide(
        &mut self,
        recorded: &RecordedRequest,
        row: &StepLine,
        place: &mut Place,
    ) -> anyhow::Result<(ModelIndex, bool)> {
        let at = place.at;
        let mut batch = RouteBatch {
            candidates: vec![row.candidate],
            state: place.state.words().to_vec(),
            ..RouteBatch::default()
        };
        let request = &recorded.request;
        if !self
            .columns
            .append(request.generation, request.seed, row, &mut batch.signals)
        {
            anyhow::bail!(
                "request {}, position {}: the step has fewer numbers than the trace's header says",
                request.id,
                row.position
            );
        }
        if self.instance.generation().plan().texts {
            let Some(text) = &row.text else {
                anyhow::bail!("the policy reads texts and the trace has none; record with --record-texts");
            };
            batch.texts.push(text);
        }
        self.call(at, &batch, place).map_err(|error| {
            anyhow::Error::new(error).context(format!("request {}, position {}", request.id, row.position))
        })
    }

    fn call(
        &mut self,
        at: ModelIndex,
        batch: &RouteBatch,
        place: &mut Place,
    ) -> Result<(ModelIndex, bool), PolicyError> {
        let mut decisions = Decisions::default();
        let started = Instant::now();
        self.instance.route(at, batch, &mut decisions)?;
        self.tally.route_us.push(started.elapsed().as_secs_f64() * 1e6);
        let to = decisions.destinations[0];
        if to == at {
            place.state = PolicyState::new(&decisions.state);
            return Ok((to, true));
        }
        let leaving = LeavingRow {
            candidate: batch.candidates[0],
            signals: &batch.signals,
            state: &decisions.state,
            text: batch.texts.get(0),
        };
        let parcel = self.instance.send(at, to, leaving)?;
        place.state = self.instance.receive(to, at, &parcel)?;
        Ok((to, parcel.keep_candidate))
    }
}
