//! One subserver's part in a trace: it has the standard signals computed beside those that policies asked for, and takes
//! them out again before a policy sees them.

use tokenrouter_core::ModelIndex;
use tokenrouter_core::scheduler::{Row, Verdict, Wanted};
use tokenrouter_core::signal::Signal;
use tokenrouter_model::runner::StepOutput;
use tokenrouter_model::text::Tokenizer;

use super::{Decided, RowTrace, STANDARD, StepTrace, TraceEvent, TraceSink};

/// Buffers are kept from step to step.
pub(crate) struct Tracer {
    sink: TraceSink,
    tokenizer: Tokenizer,
    /// The plans of the policies, as they were when `extended` was made of them.
    plans: Vec<Vec<Signal>>,
    /// The same with [`STANDARD`] at the end of each.
    extended: Vec<Vec<Signal>>,
    /// Columns of [`STANDARD`].
    columns: usize,
    /// The standard columns of the step's rows.
    standard: Vec<f32>,
}

impl Tracer {
    pub(crate) fn new(sink: TraceSink, tokenizer: Tokenizer) -> Self {
        Self {
            sink,
            tokenizer,
            plans: Vec::new(),
            extended: Vec::new(),
            columns: STANDARD.iter().map(Signal::columns).sum(),
            standard: Vec::new(),
        }
    }

    /// The plans with the standard signals added.
    pub(crate) fn extend(&mut self, plans: &[Vec<Signal>]) -> &[Vec<Signal>] {
        if self.plans != plans {
            plans.clone_into(&mut self.plans);
            let extend = |plan: &Vec<Signal>| plan.iter().chain(&STANDARD).cloned().collect();
            self.extended = plans.iter().map(extend).collect();
        }
        &self.extended
    }

    /// Takes the standard signals out of a step's output, which was computed with the extended plans.
    pub(crate) fn split(&mut self, output: &mut StepOutput) {
        self.standard.clear();
        let mut kept = 0;
        for row in 0..output.candidates.len() {
            let (start, end) = (
                output.signal_starts[row] as usize,
                output.signal_starts[row + 1] as usize,
            );
            let asked_end = end - self.columns;
            self.standard.extend_from_slice(&output.signals[asked_end..end]);
            output.signals.copy_within(start..asked_end, kept);
            output.signal_starts[row] = kept as u32;
            kept += asked_end - start;
        }
        output.signals.truncate(kept);
        if let Some(last) = output.signal_starts.last_mut() {
            *last = kept as u32;
        }
    }

    /// Records a step that policies have decided about.
    pub(crate) fn step<'r, A: tokenrouter_core::request::Answer + 'r>(
        &self,
        at: ModelIndex,
        candidates: impl Iterator<Item = Row<'r, A>>,
        output: &StepOutput,
        verdicts: &[Verdict],
    ) {
        let decided = candidates.zip(verdicts).enumerate();
        let requests = decided.filter_map(|(row, (wanted, verdict))| match wanted.wanted {
            Wanted::Request(request) => Some((row, request, verdict)),
            _ => None,
        });
        let rows = requests.map(|(row, request, verdict)| {
            let candidate = output.candidates[row];
            RowTrace {
                id: request.id,
                generation: request.generation,
                position: request.tokens().len() as u32,
                candidate,
                text: self.sink.texts.then(|| self.tokenizer.token_text(candidate)),
                asked: output.row_signals(row).to_vec(),
                standard: self.standard[row * self.columns..][..self.columns].to_vec(),
                decided: match verdict {
                    Verdict::Stay { .. } => Decided::Go { to: at, keep: true },
                    Verdict::HandOff { to, keep, .. } => Decided::Go { to: *to, keep: *keep },
                    Verdict::Fail(_) => Decided::Failed,
                },
            }
        });
        let rows: Vec<_> = rows.collect();
        if !rows.is_empty() {
            self.sink.send(TraceEvent::Step(StepTrace { at, rows }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Policies must get exactly what they asked for, whether a trace is written or not.
    #[test]
    fn what_is_added_for_the_trace_is_taken_out_again() {
        let tokenizer = tokenrouter_model::Source::Embedded(tokenrouter_model::Embedded::Small).tokenizer();
        let tokenizer = Tokenizer::from_bytes(&tokenizer.expect("embedded"), None, &[]).expect("a tokenizer");
        let mut tracer = Tracer::new(TraceSink::new(1, false).0, tokenizer);
        let plans = vec![vec![], vec![Signal::Position, Signal::Entropy]];
        let extended = tracer.extend(&plans);
        assert_eq!(extended[0], STANDARD);
        assert_eq!((&extended[1][..2], &extended[1][2..]), (&plans[1][..], &STANDARD[..]));

        // Rows of the plans 1, 0, 1; what was asked for is below 100, what was added is above.
        let columns = tracer.columns;
        let (mut signals, mut starts) = (Vec::new(), vec![0u32]);
        for (row, asked) in [2, 0, 2].into_iter().enumerate() {
            signals.extend((0..asked).map(|column| (10 * row + column) as f32));
            signals.extend((0..columns).map(|column| (100 * (row + 1) + column) as f32));
            starts.push(signals.len() as u32);
        }
        let mut output = StepOutput {
            candidates: vec![7, 8, 9],
            signals,
            signal_starts: starts,
            finite: vec![true; 3],
            ..StepOutput::default()
        };
        tracer.split(&mut output);
        assert_eq!(output.signals, [0.0, 1.0, 20.0, 21.0]);
        assert_eq!(output.signal_starts, [0, 2, 2, 4]);
        for row in 0..3 {
            assert_eq!(tracer.standard[row * columns], (100 * (row + 1)) as f32);
        }
    }
}
