//! GlimpRouter (arXiv 2601.05110): reasoning is routed step by step. A step ends with a blank line. At its beginning
//! the small model is glimpsed at: where the entropy of its first token reaches the threshold (or is not a number) the
//! large model writes the whole step, else the small one does, beginning with that token.
//!
//! Reasoning is over when `</think>` is written; when, at the end of a step, the budget of tokens is spent; or when a step
//! repeats the one before it. The large model writes all that follows. A policy cannot write tokens itself: where reasoning is
//! cut short, no `</think>` is put in.
//!
//! The published system generates the first token afresh after the glimpse; here it is the small model's candidate, which
//! has the same distribution and saves a step.
//!
//! State: five words, see [`Progress`].

mod options;
mod progress;
mod text;

use options::{BUDGET, LARGE_STEPS, STEP_TOKENS, THRESHOLD, whole};
use progress::Progress;
use text::StepEnd;
use tokenrouter_sdk::prelude::*;

/// Probabilities that the glimpse looks at.
const TOP: u32 = 20;

/// The policy.
pub struct GlimpRouter {
    plan: Plan,
    models: Pair,
    threshold: Threshold,
    budget: u32,
    step_tokens_max: u32,
    large_steps: u32,
}

impl Policy for GlimpRouter {
    const ABOUT: About = About {
        name: "glimprouter",
        version: env!("CARGO_PKG_VERSION"),
        summary: "Gives a step of reasoning to the large model when the small one is unsure how to begin it",
        options: &[&THRESHOLD, &STEP_TOKENS, &BUDGET, &LARGE_STEPS, &SMALL, &LARGE],
    };

    fn init(deployment: &Deployment, options: &Options) -> Result<Self, String> {
        let models = Pair::read(deployment, options)?;
        let top = TOP.min(deployment.models[models.small as usize].vocabulary);
        let mut plan = models.plan(deployment, Progress::WORDS, vec![Signal::TopKEntropy(top)]);
        plan.texts = true;
        Ok(Self {
            plan,
            models,
            threshold: Threshold::read(&THRESHOLD, options),
            budget: whole(&BUDGET, options.get(&BUDGET))?,
            step_tokens_max: whole(&STEP_TOKENS, options.get(&STEP_TOKENS))?,
            large_steps: whole(&LARGE_STEPS, options.get(&LARGE_STEPS))?,
        })
    }

    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn admit(&self, _request: &Request, options: &Options) -> Result<Admission, String> {
        let budget = match options.given(&BUDGET) {
            Some(budget) => whole(&BUDGET, budget)?,
            None => self.budget,
        };
        let progress = Progress::begin(self.threshold.admit(options)?, budget);
        Ok(Admission {
            model: if self.large_writes_next(&progress) {
                self.models.large
            } else {
                self.models.small
            },
            state: progress.words().to_vec(),
        })
    }

    fn route(&self, at: ModelIndex, row: Row<'_>) -> ModelIndex {
        let mut progress = Progress::of(row.state);
        let small = at == self.models.small;
        let to = if small && self.refuses(&progress, row.signals[0]) {
            progress.keep_candidate = false;
            self.models.large
        } else {
            progress.keep_candidate = true;
            self.commit(&mut progress, row.text);
            if self.large_writes_next(&progress) {
                self.models.large
            } else if progress.at_step_start() {
                self.models.small
            } else {
                at
            }
        };
        row.state.copy_from_slice(&progress.words());
        to
    }

    fn send(&self, _at: ModelIndex, _to: ModelIndex, step: Step) -> Parcel {
        Parcel {
            keep_candidate: Progress::of(&step.state).keep_candidate,
            state: step.state,
        }
    }
}

impl GlimpRouter {
    /// Whether the large model writes at this position instead of the small one, which has this entropy there.
    fn refuses(&self, progress: &Progress, entropy: f32) -> bool {
        let unsure = entropy >= progress.threshold || entropy.is_nan();
        self.large_writes_next(progress) || (progress.at_step_start() && unsure)
    }

    /// Whether the large model writes the next token without a glimpse at the small one: the answer, and the steps it was
    /// promised.
    fn large_writes_next(&self, progress: &Progress) -> bool {
        progress.is_answering || progress.steps < self.large_steps
    }

    /// The candidate with this text becomes part of the answer.
    fn commit(&self, progress: &mut Progress, text: &str) {
        progress.tokens = progress.tokens.saturating_add(1);
        progress.step_tokens += 1;
        match progress.text.push(text) {
            Some(StepEnd::Thinking) => progress.is_answering = true,
            Some(StepEnd::Step { repeats }) => self.end_step(progress, repeats),
            None if progress.step_tokens >= self.step_tokens_max => {
                let repeats = progress.text.end_step();
                self.end_step(progress, repeats);
            }
            None => {}
        }
    }

    fn end_step(&self, progress: &mut Progress, repeats: bool) {
        progress.step_tokens = 0;
        progress.steps = progress.steps.saturating_add(1);
        // Two steps alike at the very beginning are let pass, as published.
        let stuck = repeats && progress.steps > 2;
        progress.is_answering |= stuck || progress.tokens >= progress.budget;
    }
}

tokenrouter_sdk::export!(GlimpRouter);

#[cfg(test)]
mod tests;
