//! What happens when a model's thread panics: the requests of the step that was running fail, the model starts anew with
//! an empty KV pool, and everybody else goes on.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tokenrouter_model::ModelError;

use super::Subserver;
use crate::stats::ModelCounters;

/// Panics without a step between them after which the engine gives up: the fault is not a request's.
const PANICS_RUNNING_MAX: u32 = 6;

/// Pause before the second restart in a row; each further one waits twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// What a thread was about when it panicked, for what the board says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// Nothing that the board knows of.
    Nothing,
    /// Taking in a request that the board counts as waiting.
    Arrival,
    /// A step. `kept_before` requests were waiting when it began.
    Step { kept_before: usize },
}

impl Subserver {
    /// Works until told to stop, or until it panics time after time.
    pub(crate) fn run(mut self) {
        // What a panic may leave half done is put right by `recover`.
        while let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.work())) {
            let reason = said(&*panic);
            tracing::error!(model = self.name, reason, "a model's thread panicked");
            if !self.recover(&reason) {
                return;
            }
        }
    }

    /// Makes the thread fit to work again. Returns false if it is not to.
    fn recover(&mut self, reason: &str) -> bool {
        let shared = self.shared.clone();
        let pulse = &shared.pulses[self.model.index()];
        pulse.set_restarting(Some(reason.to_owned()));
        self.fail_requests();
        loop {
            self.panics_running += 1;
            if self.panics_running > PANICS_RUNNING_MAX {
                let model = &self.name;
                tracing::error!(model, "a model keeps failing: the engine stops");
                shared.fail(format!(
                    "model \"{model}\" failed {PANICS_RUNNING_MAX} times in a row: {reason}"
                ));
                return false;
            }
            if self.inbox.stops_within(pause(self.panics_running)) {
                return false;
            }
            match catch_unwind(AssertUnwindSafe(|| self.renew_runner())) {
                Ok(Ok(())) => break,
                Ok(Err(error)) => tracing::error!(model = self.name, %error, "a model cannot be started anew"),
                Err(panic) => tracing::error!(model = self.name, reason = said(&*panic), "a restart panicked"),
            }
        }
        ModelCounters::add(&self.counters.restarts, 1);
        tracing::warn!(model = self.name, "a model was started anew");
        self.beat();
        pulse.set_restarting(None);
        true
    }

    /// Ends what the step had, and makes the board true again.
    fn fail_requests(&mut self) {
        let doing = std::mem::replace(&mut self.doing, Doing::Nothing);
        let sentence = format!(
            "model \"{}\" failed while it worked on this request, and restarts; the request can be sent again",
            self.name
        );
        // What was decided before the panic is carried out; then the step's other requests end.
        self.act();
        self.scheduler.restart(&sentence, &mut self.actions);
        let failed = self.actions.len();
        ModelCounters::add(&self.counters.restart_failures, failed as u64);
        self.act();
        let board = &self.shared.board;
        match doing {
            Doing::Nothing => {}
            Doing::Arrival => board.sub_waiting(self.model, 1),
            Doing::Step { kept_before } => {
                let kept = self.scheduler.waiting().saturating_sub(kept_before);
                board.add_waiting(self.model, kept as u32);
            }
        }
        self.finish_step();
    }

    fn renew_runner(&mut self) -> Result<(), ModelError> {
        self.generations.renew();
        self.runner.allocate(self.scheduler.kv().blocks_total())
    }
}

impl Drop for Subserver {
    /// A panic that gets here came while another was dealt with: better all end, and their clients are told.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared
                .fail(format!("model \"{}\" could not be started anew", self.name));
        }
    }
}

fn pause(panics_running: u32) -> Duration {
    match panics_running {
        0 | 1 => Duration::ZERO,
        more => PAUSE_MIN * 2u32.pow(more - 2),
    }
}

/// What a panic said.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no reason given".to_owned())
}
