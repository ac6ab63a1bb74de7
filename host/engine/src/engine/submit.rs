//! From a job to a request: checks, the policy's admission, and a place in the queue.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokenrouter_core::admission::Refused;
use tokenrouter_core::policy::{Admission, Admitting, FailureMode, PolicyState};
use tokenrouter_core::request::{Finish, Request};
use tokenrouter_core::{ModelIndex, RequestId, TokenId};
use tokenrouter_model::Shaping;
use tokenrouter_model::text::{StopMatcher, trailing_newlines};
use tokenrouter_policy::{PolicyError, Setting};

use super::{AnswerStream, Engine, Job, Served, Slot, SubmitError, Target, TextAnswer};
use crate::answer::{Stopping, TextParts};
use crate::meter::RequestClock;
use crate::served::Lease;
use crate::stream::{Assumptions, Ended, Kept, answer_stream};
use crate::traffic::{Routed, Shadow, Shadowed};

/// Tokens at a prompt's end that are decoded to see which newlines it ends with.
const NEWLINE_WINDOW_TOKENS: usize = 8;

impl Engine {
    /// Takes a job and returns its stream. The request runs from now on, or waits for its turn.
    ///
    /// # Errors
    /// [`SubmitError`], and then nothing of the job is kept.
    pub fn submit(&self, job: &Job) -> Result<AnswerStream, SubmitError> {
        if self.shared.closing.load(Ordering::Acquire) {
            return Err(SubmitError::ShuttingDown);
        }
        let stop_tokens = self.stop_tokens(job);
        self.check_job(job, &stop_tokens)?;
        self.check_models(&job.target)?;
        let stops = StopMatcher::new(&job.stop).map_err(|error| SubmitError::Text(error.to_string()))?;
        let (routed, admission) = self.admit(job)?;
        let served = routed.lease.as_ref().map(Lease::served);
        let generation = served.map(|served| served.id());
        let clock = RequestClock::new(self.shared.meters.of(served.map(|served| served.name())));

        let id = RequestId(self.shared.next_id.fetch_add(1, Ordering::Relaxed));
        let on_abandon = {
            let shared = Arc::downgrade(&self.shared);
            Box::new(move |_| {
                if let Some(shared) = shared.upgrade() {
                    shared.abandon();
                }
            })
        };
        if let Some(trace) = &self.trace {
            let by = served.map(|served| (served.id(), served.generation().clone()));
            trace.admitted(id, job, by, &admission);
        }
        let kept = Kept {
            tokens: job.assumed,
            steps: job.steps,
        };
        let assumptions = Assumptions::new(kept, stop_tokens.clone());
        let (writer, mut stream) = answer_stream(id, job.seed, assumptions, on_abandon);
        stream.set_generation(generation);
        if let Some(served) = served.filter(|_| job.steps) {
            stream.set_signals(served.generation().plan().signals.clone());
        }
        if job.max_tokens == 0 {
            let prompt_tokens = job.prompt.len() as u32;
            let ended = Ended::empty(Finish::Length, self.names.len());
            writer.end(Ended { prompt_tokens, ..ended });
            return Ok(stream);
        }
        let handle = writer.handle();
        let tail = &job.prompt[job.prompt.len().saturating_sub(NEWLINE_WINDOW_TOKENS)..];
        let answer = TextAnswer::new(TextParts {
            sampling: job.sampling,
            shaping: Shaping::new(
                job.penalties,
                &job.logit_bias,
                &job.prompt,
                stop_tokens.clone(),
                job.min_tokens,
            ),
            grammar: job.grammar.clone().map(Box::new),
            logprobs: job.logprobs,
            attribution: job.attribution,
            steps: job.steps,
            newlines: trailing_newlines(0, &self.tokenizer.decode(tail)),
            tokenizer: self.tokenizer.clone(),
            stopping: Stopping {
                strings: job.stop.clone().into(),
                matcher: stops,
                tokens: stop_tokens,
                included: job.include_stop,
                tokens_min: job.min_tokens,
            },
            writer,
            models: self.names.len(),
            clock,
            routed,
            slot: Slot {
                shared: self.shared.clone(),
                id,
                taken: None,
            },
        });
        let mut request = Box::new(Request::new(id, job.seed, &job.prompt, job.max_tokens, answer));
        request.generation = generation;
        request.state = admission.state;
        request.prefix_salt = job.prefix_salt;
        let length_max = request.length_max() as usize;
        self.shared.roster.enter(id, handle);
        // One lock for coming in and starting, so that a place which is free is never found taken by a request that was only
        // on its way.
        let mut started = Vec::new();
        let queued = {
            let mut admissions = self.shared.admissions();
            let queued = admissions.enqueue((request, admission.model), length_max);
            started.extend(std::iter::from_fn(|| admissions.start_next()));
            queued
        };
        for request in started {
            self.shared.start(request);
        }
        if queued.is_err() {
            stream.refuse();
        }
        match queued {
            Ok(()) => Ok(stream),
            Err((_, Refused::QueueFull)) => Err(SubmitError::Overloaded {
                waiting_max: self.limits.requests_waiting_max,
            }),
            Err((_, Refused::NeverFits)) => Err(SubmitError::NeverFits {
                length_max: length_max as u64,
                kv_tokens: self.limits.kv_tokens,
            }),
        }
    }

    /// The tokens that end the job's answer, each once.
    fn stop_tokens(&self, job: &Job) -> Arc<[TokenId]> {
        if job.stop_tokens.is_empty() && !job.ignore_eos {
            return self.stop_tokens.clone();
        }
        let own = if job.ignore_eos { &[] } else { &*self.stop_tokens };
        let mut tokens = [own, &job.stop_tokens].concat();
        tokens.sort_unstable();
        tokens.dedup();
        tokens.into()
    }

    fn check_job(&self, job: &Job, stop_tokens: &[TokenId]) -> Result<(), SubmitError> {
        if job.prompt.is_empty() {
            return Err(SubmitError::EmptyPrompt);
        }
        let vocabulary = self.infos.iter().map(|info| info.vocabulary).min().unwrap_or(0);
        let banned = stop_tokens.iter().filter(|token| **token < vocabulary).count();
        if job.min_tokens > 0 && banned >= vocabulary as usize {
            return Err(SubmitError::NothingToDraw {
                min_tokens: job.min_tokens,
            });
        }
        self.tokenizer
            .check_ids(&job.prompt)
            .map_err(|error| SubmitError::Text(error.to_string()))?;
        let (context_max, prompt) = (self.context_max(), u32::try_from(job.prompt.len()).unwrap_or(u32::MAX));
        if u64::from(prompt) + u64::from(job.max_tokens) > u64::from(context_max) {
            return Err(SubmitError::ContextLength {
                context_max,
                prompt,
                max_tokens: job.max_tokens,
            });
        }
        Ok(())
    }

    /// A request that may go everywhere needs every model; one that stays needs its own. One that restarts is worth waiting
    /// for; nobody knows how long one stalls.
    fn check_models(&self, target: &Target) -> Result<(), SubmitError> {
        let needed = match target {
            Target::Model(model) => model.index()..model.index() + 1,
            Target::Default | Target::Policy(_) => 0..self.names.len(),
        };
        match needed.into_iter().find(|&index| self.shared.pulses[index].is_stalled()) {
            Some(index) => Err(SubmitError::ModelDown {
                model: self.names[index].clone(),
            }),
            None => Ok(()),
        }
    }

    /// Who routes the request, where it starts, and its first state.
    fn admit(&self, job: &Job) -> Result<(Routed, Admission), SubmitError> {
        let traffic = self.traffic();
        let alone = |model| {
            let state = PolicyState::default();
            Ok((Routed::default(), Admission { model, state }))
        };
        let served = match &job.target {
            Target::Model(model) => return alone(*model),
            Target::Default => match traffic.default_for(job.seed) {
                Some(served) => served,
                None => return alone(ModelIndex(0)),
            },
            Target::Policy(name) => traffic.named(name).ok_or_else(|| SubmitError::UnknownPolicy {
                name: name.clone(),
                active: traffic.policies.iter().map(|served| served.name().to_owned()).collect(),
            })?,
        };
        let admission = match served.admitting().admit(&admitting(job), &job.options) {
            Ok(admission) => admission,
            Err(error) if error.is_request_error() => return Err(SubmitError::Refused(error.to_string())),
            Err(error) => {
                note_fault(served, &error);
                self.admit_without(served)
                    .ok_or_else(|| SubmitError::Policy(error.to_string()))?
            }
        };
        let routed = Routed {
            shadow: traffic
                .shadow_for(job.seed, served)
                .and_then(|shadow| shadowed(shadow, job)),
            lease: Some(Lease::new(served.clone())),
        };
        Ok((routed, admission))
    }

    /// Where a request starts whose policy failed at admission, unless it is to fail.
    fn admit_without(&self, served: &Served) -> Option<Admission> {
        let plan = served.generation().plan();
        let model = match self.on_fault {
            FailureMode::Fail => return None,
            FailureMode::Stay => plan.entry,
            FailureMode::Fallback(model) => model,
        };
        let state = PolicyState::new(&vec![0; plan.state_words]);
        Some(Admission { model, state })
    }
}

fn admitting(job: &Job) -> Admitting<'_> {
    Admitting {
        seed: job.seed,
        prompt: &job.prompt,
        max_tokens: job.max_tokens,
        temperature: job.sampling.temperature,
    }
}

/// The request as the shadow admits it. The client's options are for the policy in force; the shadow gets those that it has,
/// too. One that refuses or fails does not watch this request.
fn shadowed(shadow: &Shadow, job: &Job) -> Option<Box<Shadowed>> {
    let served = &shadow.served;
    let known = &served.generation().description().options;
    let is_known = |setting: &&Setting| known.iter().any(|info| info.per_request && info.name == setting.name);
    let options: Vec<Setting> = job.options.iter().filter(is_known).cloned().collect();
    match served.admitting().admit(&admitting(job), &options) {
        Ok(admission) => Some(Box::new(Shadowed {
            lease: Lease::new(served.clone()),
            state: admission.state,
            comparison: shadow.comparison.clone(),
        })),
        Err(error) => {
            if !error.is_request_error() {
                note_fault(served, &error);
            }
            None
        }
    }
}

fn note_fault(served: &Served, error: &PolicyError) {
    if error.is_fault() {
        served.counters().add_faults(1, &error.to_string());
        tracing::warn!(policy = served.name(), generation = served.id().0, %error, "policy fault at admission");
    }
}
