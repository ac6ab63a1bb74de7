//! A record of what policies were asked and what was decided, for whoever wants to keep it: the engine hands events over
//! and never waits for their reader. Without a sink nothing is computed or copied.

mod tracer;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use tokenrouter_core::policy::Admission;
use tokenrouter_core::request::GenerationId;
use tokenrouter_core::signal::Signal;
use tokenrouter_core::{ModelIndex, RequestId, TokenId};
use tokenrouter_policy::{Generation, Setting};

use crate::job::Job;

pub(crate) use tracer::Tracer;

/// The signals that are recorded whatever the policy asked for, in this order; a policy that reads others of the logits can
/// often be given them from the top logits.
pub static STANDARD: [Signal; 6] = [
    Signal::Entropy,
    Signal::EntropyNormalised,
    Signal::MaxProbability,
    Signal::TopKLogits(20),
    Signal::Uniform(0),
    Signal::Newlines,
];

/// Something that happened.
#[derive(Clone, Debug)]
pub enum TraceEvent {
    /// A request was admitted. Comes before all its steps.
    Admitted(Box<AdmittedTrace>),
    /// A model ran a step.
    Step(StepTrace),
}

/// A request as its policy saw it at admission.
#[derive(Clone)]
pub struct AdmittedTrace {
    /// Its id.
    pub id: RequestId,
    /// Key of its draws.
    pub seed: u64,
    /// The prompt.
    pub prompt: Vec<TokenId>,
    /// Most tokens of the answer.
    pub max_tokens: u32,
    /// Sampling temperature.
    pub temperature: f32,
    /// Options the client set.
    pub options: Vec<Setting>,
    /// Who routes it; `None` if it stays at one model.
    pub generation: Option<(GenerationId, Generation)>,
    /// The model it starts at.
    pub entry: ModelIndex,
}

impl std::fmt::Debug for AdmittedTrace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdmittedTrace")
            .field("id", &self.id)
            .field("entry", &self.entry)
            .finish_non_exhaustive()
    }
}

/// The rows of a step.
#[derive(Clone, Debug)]
pub struct StepTrace {
    /// The model.
    pub at: ModelIndex,
    /// One entry for each candidate.
    pub rows: Vec<RowTrace>,
}

/// One candidate, and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct RowTrace {
    /// The request.
    pub id: RequestId,
    /// Who routed it.
    pub generation: Option<GenerationId>,
    /// The position the candidate would take, from 0.
    pub position: u32,
    /// The candidate.
    pub candidate: TokenId,
    /// Its text, if the sink wants texts.
    pub text: Option<String>,
    /// The signals that were computed for policies: first those that its own policy's plan lists for this model.
    pub asked: Vec<f32>,
    /// [`STANDARD`], in columns.
    pub standard: Vec<f32>,
    /// What was decided.
    pub decided: Decided,
}

/// What became of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decided {
    /// The request goes on at `to`; the model that ran the step itself: it stays.
    Go {
        /// The model.
        to: ModelIndex,
        /// Whether the candidate is committed. Always if it stays.
        keep: bool,
    },
    /// The request ends with an error.
    Failed,
}

/// Where the engine puts events. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TraceSink {
    sender: Sender<TraceEvent>,
    dropped: Arc<AtomicU64>,
    texts: bool,
}

/// The other end. It ends when the engine and all clones of the sink are gone.
#[derive(Clone, Debug)]
pub struct TraceSource {
    receiver: Receiver<TraceEvent>,
    dropped: Arc<AtomicU64>,
}

/// What waiting for an event brought.
#[derive(Clone, Debug)]
pub enum Waited {
    /// One.
    Event(TraceEvent),
    /// None in time.
    Nothing,
    /// None, and none will come.
    Ended,
}

impl TraceSink {
    /// A sink that holds at most `events_max` events that nobody has read; an event is a request or a step, not a row. Further
    /// ones are dropped and counted. `texts`: whether rows carry the text of their candidate.
    pub fn new(events_max: usize, texts: bool) -> (Self, TraceSource) {
        let (sender, receiver) = bounded(events_max);
        let dropped = Arc::new(AtomicU64::new(0));
        let source = TraceSource {
            receiver,
            dropped: dropped.clone(),
        };
        (Self { sender, dropped, texts }, source)
    }

    fn send(&self, event: TraceEvent) {
        let rows = match &event {
            TraceEvent::Admitted(_) => 1,
            TraceEvent::Step(step) => step.rows.len() as u64,
        };
        if self.sender.try_send(event).is_err() {
            self.dropped.fetch_add(rows, Ordering::Relaxed);
        }
    }

    /// A request that is about to be queued.
    pub(crate) fn admitted(
        &self,
        id: RequestId,
        job: &Job,
        generation: Option<(GenerationId, Generation)>,
        admission: &Admission,
    ) {
        self.send(TraceEvent::Admitted(Box::new(AdmittedTrace {
            id,
            seed: job.seed,
            prompt: job.prompt.clone(),
            max_tokens: job.max_tokens,
            temperature: job.sampling.temperature,
            options: job.options.clone(),
            generation,
            entry: admission.model,
        })));
    }
}

impl TraceSource {
    /// The next event, if one comes within `time`.
    pub fn wait(&self, time: Duration) -> Waited {
        match self.receiver.recv_timeout(time) {
            Ok(event) => Waited::Event(event),
            Err(RecvTimeoutError::Timeout) => Waited::Nothing,
            Err(RecvTimeoutError::Disconnected) => Waited::Ended,
        }
    }

    /// Whether everything that has happened was read.
    pub fn is_empty(&self) -> bool {
        self.receiver.is_empty()
    }

    /// Requests and rows that were dropped because nobody read fast enough.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(rows: usize) -> TraceEvent {
        let row = RowTrace {
            id: RequestId(0),
            generation: None,
            position: 0,
            candidate: 0,
            text: None,
            asked: Vec::new(),
            standard: Vec::new(),
            decided: Decided::Failed,
        };
        TraceEvent::Step(StepTrace {
            at: ModelIndex(0),
            rows: vec![row; rows],
        })
    }

    /// The engine must go on at full speed however slow the disk is.
    #[test]
    fn a_full_sink_drops_and_counts_and_does_not_wait() {
        let (sink, source) = TraceSink::new(2, false);
        for rows in [1, 2, 4, 8] {
            sink.send(step(rows));
        }
        assert_eq!(source.dropped(), 4 + 8);
        drop(sink);
        let mut rows = Vec::new();
        while let Waited::Event(TraceEvent::Step(step)) = source.wait(Duration::ZERO) {
            rows.push(step.rows.len());
        }
        assert_eq!(rows, [1, 2]);
        assert!(matches!(source.wait(Duration::ZERO), Waited::Ended));
    }

    #[test]
    fn nobody_who_reads_is_no_reason_to_stop() {
        let (sink, source) = TraceSink::new(2, false);
        drop(source);
        sink.send(step(1));
        assert_eq!(sink.dropped.load(Ordering::Relaxed), 1);
    }
}
