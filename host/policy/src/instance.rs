//! Calling a policy.

use tokenrouter_core::ModelIndex;
use tokenrouter_core::draw::{Purpose, uniform_f32};
use tokenrouter_core::policy::{
    Admission, Admitting, Decisions, LeavingRow, Parcel, PolicyFault, PolicyState, RouteBatch,
};
use tokenrouter_core::signal::Plan;
use wasmtime::Store;

use crate::backoff::Backoff;
use crate::bindings::{Policy, types as wit};
use crate::guest::{Guest, cut};
use crate::live::Live;
use crate::{Call, Generation, PolicyError, Setting, answer, convert, settings};

/// A policy for one thread to call. It makes its WebAssembly instance at the first call and keeps it until a fault,
/// after which the next call makes a new one; nothing is lost, because policies are pure. From the second fault in a row
/// on, calls are refused for a pause that doubles with every further fault ([`PolicyError::Suspended`]).
pub struct PolicyInstance {
    generation: Generation,
    live: Option<Live>,
    backoff: Backoff,
    counts: InstanceCounts,
}

/// As the scheduler's driver calls it.
impl tokenrouter_core::policy::Policy for PolicyInstance {
    fn plan(&self) -> &Plan {
        self.generation.plan()
    }

    fn route(&mut self, at: ModelIndex, batch: &RouteBatch, out: &mut Decisions) -> Result<(), PolicyFault> {
        self.route(at, batch, out).map_err(|error| fault(&error))
    }

    fn send(&mut self, at: ModelIndex, to: ModelIndex, row: LeavingRow<'_>) -> Result<Parcel, PolicyFault> {
        self.send(at, to, row).map_err(|error| fault(&error))
    }

    fn receive(&mut self, at: ModelIndex, from: ModelIndex, parcel: &Parcel) -> Result<PolicyState, PolicyFault> {
        self.receive(at, from, parcel).map_err(|error| fault(&error))
    }
}

fn fault(error: &PolicyError) -> PolicyFault {
    PolicyFault(error.to_string())
}

/// What happened to a [`PolicyInstance`] so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InstanceCounts {
    /// Calls into the policy. Neither `init` nor refused calls count.
    pub calls: u64,
    /// Calls that ended in a fault.
    pub faults: u64,
    /// WebAssembly instances made, the first included.
    pub starts: u64,
}

impl PolicyInstance {
    pub(crate) fn new(generation: Generation) -> Self {
        Self {
            generation,
            live: None,
            backoff: Backoff::default(),
            counts: InstanceCounts::default(),
        }
    }

    /// The generation it belongs to.
    pub fn generation(&self) -> &Generation {
        &self.generation
    }

    /// What happened so far.
    pub fn counts(&self) -> InstanceCounts {
        self.counts
    }

    /// A new request, with the options its client set.
    ///
    /// # Errors
    /// Besides faults: an option that a request may not set, or the policy's own refusal
    /// ([`PolicyError::is_request_error`]).
    pub fn admit(&mut self, request: &Admitting<'_>, options: &[Setting]) -> Result<Admission, PolicyError> {
        settings::check_request(self.generation.description(), options)?;
        let texts = convert::setting_texts(options);
        let options = convert::settings(options, &texts);
        let request = wit::Request {
            seed: request.seed,
            uniform: uniform_f32(request.seed, 0, Purpose::Admission),
            prompt: request.prompt,
            max_tokens: request.max_tokens,
            temperature: request.temperature,
            options: &options,
        };
        self.checked(
            Call::Admit,
            |exports, store| exports.call_admit(store, request),
            |generation, admission| {
                let admission = admission.map_err(|text| PolicyError::Refused {
                    text: cut(&text).to_owned(),
                })?;
                let model = answer::model(Call::Admit, admission.model, generation.deployment().models.len())?;
                let state = answer::state(Call::Admit, &admission.state, generation.plan().state_words)?;
                Ok(Admission { model, state })
            },
        )
    }

    /// Who goes on, for every row of a step of model `at`. `out` is overwritten; after an error it is empty.
    ///
    /// # Errors
    /// A fault, or columns of `batch` that do not fit the plan.
    pub fn route(&mut self, at: ModelIndex, batch: &RouteBatch, out: &mut Decisions) -> Result<(), PolicyError> {
        out.destinations.clear();
        out.state.clear();
        let rows = batch.rows();
        self.check_columns(Call::Route, at, rows, batch.signals.len(), batch.state.len())?;
        let texts = if self.generation.plan().texts { rows } else { 0 };
        argument(Call::Route, "texts", batch.texts.len(), texts)?;
        if rows == 0 {
            return Ok(());
        }
        let columns = wit::Batch {
            candidates: &batch.candidates,
            signals: &batch.signals,
            state: &batch.state,
            texts: batch.texts.joined(),
            text_ends: batch.texts.ends(),
        };
        let decisions = self.checked(
            Call::Route,
            |exports, store| exports.call_route(store, at.0, columns),
            |generation, decisions| {
                answer::length(Call::Route, "destinations", decisions.destinations.len(), rows)?;
                let words = rows * generation.plan().state_words;
                answer::length(Call::Route, "words of state", decisions.state.len(), words)?;
                let models = generation.deployment().models.len();
                for destination in &decisions.destinations {
                    answer::model(Call::Route, *destination, models)?;
                }
                Ok(decisions)
            },
        )?;
        out.destinations
            .extend(decisions.destinations.iter().copied().map(ModelIndex));
        out.state = decisions.state;
        Ok(())
    }

    /// A request leaves `at` for `to`: whether its candidate is kept, and the state that travels.
    ///
    /// # Errors
    /// A fault, or columns of `row` that do not fit the plan.
    pub fn send(&mut self, at: ModelIndex, to: ModelIndex, row: LeavingRow<'_>) -> Result<Parcel, PolicyError> {
        self.check_columns(Call::Send, at, 1, row.signals.len(), row.state.len())?;
        let step = wit::Step {
            candidate: row.candidate,
            signals: row.signals,
            state: row.state,
            text: row.text,
        };
        self.checked(
            Call::Send,
            |exports, store| exports.call_send(store, at.0, to.0, step),
            |generation, parcel| {
                let state = answer::state(Call::Send, &parcel.state, generation.plan().state_words)?;
                Ok(Parcel {
                    keep_candidate: parcel.keep_candidate,
                    state,
                })
            },
        )
    }

    /// A request arrives at `at` from `from`: its state there.
    ///
    /// # Errors
    /// A fault, or a state that does not fit the plan.
    pub fn receive(&mut self, at: ModelIndex, from: ModelIndex, parcel: &Parcel) -> Result<PolicyState, PolicyError> {
        let words = parcel.state.words();
        argument(
            Call::Receive,
            "words of state",
            words.len(),
            self.generation.plan().state_words,
        )?;
        let parcel = wit::ParcelParam {
            keep_candidate: parcel.keep_candidate,
            state: words,
        };
        self.checked(
            Call::Receive,
            |exports, store| exports.call_receive(store, at.0, from.0, parcel),
            |generation, words| answer::state(Call::Receive, &words, generation.plan().state_words),
        )
    }

    /// Makes the instance if there is none, calls it, and checks what it returns. A fault in any of the three throws
    /// the instance away.
    fn checked<R, T>(
        &mut self,
        call: Call,
        function: impl FnOnce(&Policy, &mut Store<Guest>) -> wasmtime::Result<R>,
        check: impl FnOnce(&Generation, R) -> Result<T, PolicyError>,
    ) -> Result<T, PolicyError> {
        if let Some(refusal) = self.backoff.refusal() {
            return Err(refusal);
        }
        self.counts.calls += 1;
        let result = self
            .live()
            .and_then(|live| live.call(call, function))
            .and_then(|returned| check(&self.generation, returned));
        match &result {
            Err(error) if error.is_fault() => {
                self.counts.faults += 1;
                self.live = None;
                self.backoff.failed(error);
            }
            _ => self.backoff.succeeded(),
        }
        result
    }

    fn live(&mut self) -> Result<&mut Live, PolicyError> {
        match &mut self.live {
            Some(live) => Ok(live),
            none => {
                self.counts.starts += 1;
                Ok(none.insert(self.generation.start()?))
            }
        }
    }

    fn check_columns(
        &self,
        call: Call,
        at: ModelIndex,
        rows: usize,
        signals: usize,
        state: usize,
    ) -> Result<(), PolicyError> {
        let Some(columns) = self.generation.columns(at) else {
            let reason = format!("model {}, which the deployment does not have", at.0);
            return Err(PolicyError::Arguments { call, reason });
        };
        argument(call, "signals", signals, rows * columns)?;
        argument(call, "words of state", state, rows * self.generation.plan().state_words)
    }
}

fn argument(call: Call, what: &str, found: usize, expected: usize) -> Result<(), PolicyError> {
    if found == expected {
        return Ok(());
    }
    Err(PolicyError::Arguments {
        call,
        reason: format!("{found} {what}, expected {expected}"),
    })
}
