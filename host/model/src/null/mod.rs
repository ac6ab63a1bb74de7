//! A runner without weights, for tests and simulation: its candidates and signals are draws, and it refuses a step that
//! feeds a request wrongly.

mod ledger;

pub use ledger::Ledger;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokenrouter_core::ModelIndex;
use tokenrouter_core::draw::{self, Purpose};
use tokenrouter_core::signal::Signal;
use tokenrouter_core::step::StepBatch;

use crate::check;
use crate::decoder_runner::candidate_positions;
use crate::error::ModelError;
use crate::heads::{HeadError, HeadFile};
use crate::runner::{ModelInfo, RowAsk, Runner, StepOutput};
use crate::signals::SignalKey;

/// Numbers of the draws that stand for signals of logits begin here, above those that policies use for `uniform`.
const SIGNAL_DRAWS: u32 = 1 << 31;

/// A model without weights. Its candidate at a position is `draw::token(seed, position, model, vocabulary)`, its signals
/// are those of [`signals`]; logits and sampling do not exist. Where only some tokens are allowed, it is drawn among those.
#[derive(Debug)]
pub struct NullRunner {
    info: ModelInfo,
    index: ModelIndex,
    step_time: Duration,
    heads: Vec<String>,
    goes_back: bool,
    ledger: Arc<Mutex<Ledger>>,
}

impl NullRunner {
    /// A runner that is model `index` of its deployment and has the sizes of `info`.
    pub fn new(info: ModelInfo, index: ModelIndex) -> Self {
        Self {
            info,
            index,
            step_time: Duration::ZERO,
            heads: Vec::new(),
            goes_back: false,
            ledger: Arc::default(),
        }
    }

    /// Every step takes this long, asleep.
    #[must_use]
    pub fn with_step_time(mut self, step_time: Duration) -> Self {
        self.step_time = step_time;
        self
    }

    /// Takes steps that go back to a position it was fed, as [`Ledger::going_back`] says. A scheduler that decodes ahead makes them.
    #[must_use]
    pub fn with_going_back(mut self, allowed: bool) -> Self {
        self.goes_back = allowed;
        self
    }

    /// What the runner has been fed, to look at while an engine owns the runner.
    pub fn ledger(&self) -> Arc<Mutex<Ledger>> {
        Arc::clone(&self.ledger)
    }
}

impl Runner for NullRunner {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn allocate(&mut self, blocks: usize) -> Result<(), ModelError> {
        *self.ledger.lock().unwrap_or_else(PoisonError::into_inner) = Ledger::new(blocks).going_back(self.goes_back);
        Ok(())
    }

    /// The head's score is a draw like the other signals; only its name is kept.
    fn add_head(&mut self, name: &str, file: HeadFile) -> Result<(), HeadError> {
        drop(file);
        self.heads.push(name.to_owned());
        Ok(())
    }

    fn step(
        &mut self,
        batch: &StepBatch,
        asks: &[RowAsk<'_>],
        plans: &[Vec<Signal>],
        out: &mut StepOutput,
    ) -> Result<(), ModelError> {
        out.clear();
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        let has_head = |name: &str| self.heads.iter().any(|head| head == name);
        check::step(batch, asks, plans, &self.info, ledger.blocks(), has_head)?;
        ledger.feed(batch)?;
        drop(ledger);
        if !self.step_time.is_zero() {
            std::thread::sleep(self.step_time);
        }
        for (position, ask) in candidate_positions(batch).zip(asks) {
            let key = SignalKey {
                seed: ask.seed,
                position,
                newlines: ask.newlines,
            };
            signals(&plans[ask.plan as usize], key, self.index, &mut out.signals);
            let number = |below| draw::token(ask.seed, position, self.index, below);
            let candidate = match ask.allowed {
                None => Some(number(self.info.vocabulary)),
                Some(allowed) => allowed.tokens().nth(number(allowed.count() as u32) as usize),
            };
            out.push(candidate.unwrap_or(0), candidate.is_some());
        }
        Ok(())
    }
}

/// Appends the signals that a [`NullRunner`] for `model` gives: those of the key are as with any runner; of the others
/// each column is a draw in [0, 1), a function of (seed, position, model, column); top lists are descending.
pub fn signals(plan: &[Signal], key: SignalKey, model: ModelIndex, out: &mut Vec<f32>) {
    let mut column = 0;
    for signal in plan {
        let start = out.len();
        if let Some(value) = key.value(signal) {
            out.push(value);
        } else {
            out.extend((0..signal.columns() as u32).map(|i| {
                let number = SIGNAL_DRAWS | model.0 << 16 | (column + i);
                draw::uniform_f32(key.seed, key.position, Purpose::Policy(number))
            }));
            out[start..].sort_unstable_by(|a, b| b.total_cmp(a));
        }
        column += signal.columns() as u32;
    }
}
