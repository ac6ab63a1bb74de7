//! A sequential router: one request at a time, the whole sequence computed anew for every token, no batch, no kept KV, no
//! scheduler, no threads, and from the raw logits on everything computed by definition.

use std::array::from_fn;

use tokenrouter_core::limits::{KV_BLOCK_TOKENS, MODELS_MAX};
use tokenrouter_core::policy::{Admitting, Decisions, LeavingRow, Parcel, PolicyState, RouteBatch};
use tokenrouter_core::signal::Signal;
use tokenrouter_core::step::{StepBatch, StepRow};
use tokenrouter_core::{BlockId, ModelIndex, RequestId, TokenId};
use tokenrouter_engine::Job;
use tokenrouter_host::deployment::DeploymentFile;
use tokenrouter_model::Penalties;
use tokenrouter_model::runner::{RowAsk, Runner, Sampling, StepOutput};
use tokenrouter_model::text::{Tokenizer, trailing_newlines};
use tokenrouter_policy::Generation;

use super::law;

const CONTEXT: usize = 512;

/// A committed token, who wrote it, and its log-probability before all that the request does to the logits.
#[derive(Clone, Debug)]
pub struct Commit {
    pub token: TokenId,
    pub model: ModelIndex,
    pub logprob: f32,
}

impl PartialEq for Commit {
    fn eq(&self, other: &Self) -> bool {
        // Two ways of summing.
        (self.token, self.model) == (other.token, other.model) && (self.logprob - other.logprob).abs() < 1e-4
    }
}

/// Where steps led: by the model that ran it and the model that went on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moves {
    /// Steps.
    pub requests: [[u32; MODELS_MAX]; MODELS_MAX],
    /// Tokens that those steps committed.
    pub committed: [[u32; MODELS_MAX]; MODELS_MAX],
}

impl Moves {
    /// The routing matrix P of the first `models` models: shares of the steps of each that led to each. Rows without steps
    /// are 0.
    pub fn routing(&self, models: usize) -> Vec<Vec<f64>> {
        let row = |from: &[u32; MODELS_MAX]| {
            let steps = f64::from(from.iter().sum::<u32>().max(1));
            from[..models].iter().map(|&to| f64::from(to) / steps).collect()
        };
        self.requests[..models].iter().map(row).collect()
    }

    /// The commit matrix C: tokens committed by a step of each model that led to each. `None` where no step did.
    pub fn commits(&self, models: usize) -> Vec<Vec<Option<f64>>> {
        let cell = |from: usize, to: usize| {
            let steps = self.requests[from][to];
            (steps > 0).then(|| f64::from(self.committed[from][to]) / f64::from(steps))
        };
        (0..models)
            .map(|from| (0..models).map(|to| cell(from, to)).collect())
            .collect()
    }

    /// Steps of a model.
    pub fn steps(&self, from: usize) -> u32 {
        self.requests[from].iter().sum()
    }
}

/// Answers jobs by the definition.
pub struct Reference {
    runners: Vec<Box<dyn Runner>>,
    generation: Generation,
    tokenizer: Tokenizer,
    eos: Vec<TokenId>,
    /// Where the steps of all answers so far led.
    pub moves: Moves,
}

impl Reference {
    /// The models and the policy of a deployment, which must have one.
    pub fn new(file: &DeploymentFile) -> Self {
        let parts = file.load().expect("the deployment loads").parts;
        let mut runners: Vec<_> = parts.models.into_iter().map(|model| model.runner).collect();
        for runner in &mut runners {
            runner
                .allocate(CONTEXT / KV_BLOCK_TOKENS)
                .expect("memory for one sequence");
        }
        let eos = runners.iter().flat_map(|runner| runner.info().eos.clone()).collect();
        Self {
            runners,
            generation: parts.policies[0].1.clone(),
            tokenizer: parts.tokenizer,
            eos,
            moves: Moves::default(),
        }
    }

    /// How many models there are.
    pub fn models(&self) -> usize {
        self.runners.len()
    }

    /// The tokenizer of the models.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The raw logits of `at` after `tokens`, and the signals that the policy asked for.
    fn step(&mut self, at: ModelIndex, tokens: &[TokenId], job: &Job) -> (Vec<f32>, Vec<f32>) {
        let blocks: Vec<_> = (0..tokens.len().div_ceil(KV_BLOCK_TOKENS) as u32)
            .map(BlockId)
            .collect();
        let batch = StepBatch {
            tokens: tokens.to_vec(),
            rows: vec![StepRow {
                request: RequestId(0),
                first: 0,
                len: tokens.len() as u32,
                position: 0,
                logits: 1,
                blocks: 0..blocks.len() as u32,
                shared: 0,
            }],
            blocks,
        };
        let runner = &mut self.runners[at.index()];
        let vocabulary = runner.info().vocabulary;
        // Log-probabilities tell which token has which of the descending logits.
        let ask = RowAsk {
            seed: job.seed,
            newlines: trailing_newlines(0, &self.tokenizer.decode(tokens)),
            logprobs: Some(vocabulary),
            ..RowAsk::GREEDY
        };
        let mut plan = self.generation.plan().signals[at.index()].clone();
        plan.push(Signal::TopKLogits(vocabulary));
        let mut output = StepOutput::default();
        runner
            .step(&batch, &[ask], &[plan], &mut output)
            .expect("the model runs");
        let (signals, descending) = output
            .row_signals(0)
            .split_at(output.row_signals(0).len() - vocabulary as usize);
        let mut logits = vec![0.0; vocabulary as usize];
        for (entry, logit) in output.row_logprobs(0)[1..].iter().zip(descending) {
            logits[entry.token as usize] = *logit;
        }
        (logits, signals.to_vec())
    }

    /// The answer to a job, token by token.
    pub fn answer(&mut self, job: &Job) -> Vec<Commit> {
        // A new instance for every answer: policies remember nothing.
        let mut policy = self.generation.instance();
        let admitting = Admitting {
            seed: job.seed,
            prompt: &job.prompt,
            max_tokens: job.max_tokens,
            temperature: job.sampling.temperature,
        };
        let admission = policy.admit(&admitting, &job.options).expect("admitted");
        let (mut at, mut state) = (admission.model, admission.state);
        let mut tokens = job.prompt.clone();
        let mut commits: Vec<Commit> = Vec::new();
        loop {
            let (logits, signals) = self.step(at, &tokens, job);
            let shaped = law::shape(&logits, &tokens, job, &self.eos);
            let candidate = law::draw(&shaped, job, at, tokens.len());
            let text = if self.generation.plan().texts {
                self.tokenizer.token_text(candidate)
            } else {
                String::new()
            };
            let row = RouteBatch {
                candidates: vec![candidate],
                signals: signals.clone(),
                state: state.words().to_vec(),
                texts: self.generation.plan().texts.then(|| text.clone()).into_iter().collect(),
            };
            let mut decisions = Decisions::default();
            policy.route(at, &row, &mut decisions).expect("the policy decides");
            let to = decisions.destinations[0];
            let mut parcel = Parcel {
                keep_candidate: true,
                state: PolicyState::new(&decisions.state),
            };
            if to != at {
                let leaving = LeavingRow {
                    candidate,
                    signals: &signals,
                    state: &decisions.state,
                    text: &text,
                };
                parcel = policy.send(at, to, leaving).expect("the policy sends");
            }
            self.moves.requests[at.index()][to.index()] += 1;
            self.moves.committed[at.index()][to.index()] += u32::from(parcel.keep_candidate);
            if parcel.keep_candidate {
                tokens.push(candidate);
                commits.push(Commit {
                    token: candidate,
                    model: at,
                    logprob: law::logprob(&logits, candidate),
                });
                let ends = self.eos.contains(&candidate) || job.stop_tokens.contains(&candidate);
                if ends || commits.len() == job.max_tokens as usize {
                    return commits;
                }
            }
            if to != at {
                parcel.state = policy.receive(to, at, &parcel).expect("the policy receives");
            }
            (at, state) = (to, parcel.state);
        }
    }
}

/// Greedy and sampled problems of different lengths, with and without penalties, biases and stop tokens; the same for the
/// same number.
pub fn arithmetic_job(tokenizer: &Tokenizer, number: u32) -> Job {
    let [a, b, c, d] = from_fn(|i| number * [37, 53, 71, 29][i] % 100);
    let problem = format!("{a:02}-{b:02}*03+{c:02}-{d:02}=");
    let sampled = Sampling {
        temperature: 0.9,
        top_p: 0.95,
        top_k: 12,
        min_p: 0.0,
    };
    Job {
        prompt: tokenizer.encode_prompt(&problem).expect("digits and operators"),
        max_tokens: if number.is_multiple_of(5) { 17 } else { 64 },
        sampling: if number.is_multiple_of(2) {
            Sampling::GREEDY
        } else {
            sampled
        },
        seed: u64::from(number) * 1_000_003,
        penalties: Penalties {
            presence: [0.0, 0.0, 1.5, -0.5][number as usize % 4],
            frequency: [0.0, 0.25, 0.0][number as usize % 3],
            repetition: [1.0, 1.0, 1.0, 1.2, 0.9][number as usize % 5],
        },
        logit_bias: if number % 6 == 1 {
            vec![(3, 2.0), (9, -100.0)]
        } else {
            Vec::new()
        },
        min_tokens: if number % 7 == 2 { 17 } else { 0 },
        stop_tokens: if number % 8 == 3 { vec![5] } else { Vec::new() },
        logprobs: Some(number % 3),
        ..Job::default()
    }
}
