//! The engine against a sequential reference router with the real models and the real policies: one request at a time, the
//! whole sequence computed anew for every token, no batch, no kept KV, no scheduler, no threads. From the raw logits on, it
//! computes by itself: penalties, biases and bans from the whole history, the draw, and log-probabilities.

use tokenrouter_core::draw::{Purpose, uniform};
use tokenrouter_core::limits::KV_BLOCK_TOKENS;
use tokenrouter_core::policy::{Admitting, Decisions, LeavingRow, Parcel, PolicyState, RouteBatch};
use tokenrouter_core::signal::Signal;
use tokenrouter_core::step::{StepBatch, StepRow};
use tokenrouter_core::{BlockId, ModelIndex, RequestId, TokenId};
use tokenrouter_engine::stream::{AnswerStream, Event};
use tokenrouter_engine::{Engine, Job};
use tokenrouter_host::deployment::{DeploymentFile, Launch, OptionValue};
use tokenrouter_model::Penalties;
use tokenrouter_model::runner::{RowAsk, Runner, Sampling, StepOutput};
use tokenrouter_policy::Generation;

const RULES: [&str; 6] = [
    "eager",
    "threshold:1,3",
    "threshold",
    "lookahead",
    "step-sync",
    "model-sync",
];
const CONCURRENCY: usize = 8;
const CONTEXT: usize = 512;

/// A committed token, who wrote it, and its log-probability before all that the request does to the logits.
#[derive(Clone, Debug)]
struct Commit {
    token: TokenId,
    model: ModelIndex,
    logprob: f32,
}

impl PartialEq for Commit {
    fn eq(&self, other: &Self) -> bool {
        // Two ways of summing.
        (self.token, self.model) == (other.token, other.model) && (self.logprob - other.logprob).abs() < 1e-4
    }
}

fn deployment(policy: &str, options: &[(&str, OptionValue)], rule: &str) -> DeploymentFile {
    let mut file = DeploymentFile::built_in().expect("the built-in deployment");
    file.policy.plugin = policy.to_owned();
    file.policy.options = options
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()))
        .collect();
    file.launch.rule = rule.parse::<Launch>().expect("a launch rule");
    file
}

/// Answers one job by the definition.
struct Reference {
    runners: Vec<Box<dyn Runner>>,
    generation: Generation,
    eos: Vec<TokenId>,
}

impl Reference {
    fn new(file: &DeploymentFile) -> Self {
        let parts = file.load().expect("the deployment loads").parts;
        let mut runners: Vec<_> = parts.models.into_iter().map(|model| model.runner).collect();
        for runner in &mut runners {
            runner
                .allocate(CONTEXT / KV_BLOCK_TOKENS)
                .expect("memory for one sequence");
        }
        let eos = runners.iter().flat_map(|runner| runner.info().eos.clone()).collect();
        let generation = parts.policies[0].1.clone();
        Self {
            runners,
            generation,
            eos,
        }
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
            }],
            blocks,
        };
        let runner = &mut self.runners[at.index()];
        let vocabulary = runner.info().vocabulary;
        // Log-probabilities tell which token has which of the descending logits.
        let ask = RowAsk {
            seed: job.seed,
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

    /// The law of `Shaping`, from the whole history.
    fn shape(&self, logits: &[f32], tokens: &[TokenId], job: &Job) -> Vec<f32> {
        let (prompt, answer) = tokens.split_at(job.prompt.len());
        let Penalties {
            presence,
            frequency,
            repetition,
        } = job.penalties;
        let shape = |(token, logit): (TokenId, &f32)| {
            let ends = self.eos.contains(&token) || job.stop_tokens.contains(&token);
            if ends && answer.len() < job.min_tokens as usize {
                return f32::NEG_INFINITY;
            }
            let bias = job.logit_bias.iter().find(|(of, _)| *of == token);
            let mut z = logit + bias.map_or(0.0, |(_, bias)| *bias);
            if prompt.contains(&token) || answer.contains(&token) {
                z = if z > 0.0 { z / repetition } else { z * repetition };
            }
            let count = answer.iter().filter(|of| **of == token).count();
            z - frequency * count as f32 - if count > 0 { presence } else { 0.0 }
        };
        (0..).zip(logits).map(shape).collect()
    }

    /// The law of `Sampler`, by a full sort.
    fn draw(logits: &[f32], job: &Job, at: ModelIndex, position: usize) -> TokenId {
        let mut order: Vec<(TokenId, f64)> = (0..).zip(logits).map(|(token, z)| (token, f64::from(*z))).collect();
        order.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let sampling = job.sampling;
        if sampling.is_greedy() {
            return order[0].0;
        }
        let largest = order[0].1;
        for (_, z) in &mut order {
            *z = ((*z - largest) / f64::from(sampling.temperature)).exp();
        }
        order.retain(|(_, weight)| *weight > 0.0 && *weight >= f64::from(sampling.min_p));
        if sampling.top_k > 0 {
            order.truncate(sampling.top_k as usize);
        }
        let mass: f64 = order.iter().map(|(_, weight)| weight).sum::<f64>() * f64::from(sampling.top_p.min(1.0));
        let mut sum = 0.0;
        let kept = order.iter().take_while(|(_, weight)| {
            let goes_on = sum < mass;
            sum += weight;
            goes_on
        });
        let kept = kept.count().max(1);
        order.truncate(if sampling.top_p < 1.0 { kept } else { order.len() });
        let total: f64 = order.iter().map(|(_, weight)| weight).sum();
        let target = uniform(job.seed, position as u64, Purpose::Sample(at)) * total;
        let mut sum = 0.0;
        for (token, weight) in &order {
            sum += weight;
            if sum > target {
                return *token;
            }
        }
        order[order.len() - 1].0
    }

    fn logprob(logits: &[f32], token: TokenId) -> f32 {
        let sum: f64 = logits.iter().map(|z| f64::from(*z).exp()).sum();
        (f64::from(logits[token as usize]) - sum.ln()) as f32
    }

    fn answer(&mut self, job: &Job) -> Vec<Commit> {
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
            let shaped = self.shape(&logits, &tokens, job);
            let candidate = Self::draw(&shaped, job, at, tokens.len());
            let row = RouteBatch {
                candidates: vec![candidate],
                signals: signals.clone(),
                state: state.words().to_vec(),
                texts: Vec::new(),
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
                    text: "",
                };
                parcel = policy.send(at, to, leaving).expect("the policy sends");
            }
            if parcel.keep_candidate {
                tokens.push(candidate);
                commits.push(Commit {
                    token: candidate,
                    model: at,
                    logprob: Self::logprob(&logits, candidate),
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

/// Greedy and sampled requests of different lengths.
fn jobs(engine: &Engine) -> Vec<Job> {
    let job = |number: u32| {
        let problem = format!(
            "{:02}-{:02}*03+{:02}-{:02}=",
            number * 37 % 100,
            number * 53 % 100,
            number * 71 % 100,
            number * 29 % 100
        );
        let sampled = Sampling {
            temperature: 0.9,
            top_p: 0.95,
            top_k: 12,
            min_p: 0.0,
        };
        Job {
            prompt: engine
                .tokenizer()
                .encode_prompt(&problem)
                .expect("digits and operators"),
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
    };
    (0..32).map(job).collect()
}

fn read(mut stream: AnswerStream) -> Vec<Commit> {
    let mut commits = Vec::new();
    while let Some(event) = stream.next_blocking() {
        if let Event::Piece { tokens, .. } = event {
            commits.extend(tokens.iter().map(|written| Commit {
                token: written.token,
                model: written.model,
                logprob: written.logprobs.as_ref().expect("asked for").logprob,
            }));
        }
    }
    commits
}

/// All jobs, `CONCURRENCY` at a time.
fn engine_answers(engine: &Engine, jobs: &[Job]) -> Vec<Vec<Commit>> {
    let mut answers = Vec::new();
    for together in jobs.chunks(CONCURRENCY) {
        let streams: Vec<_> = together.iter().map(|job| engine.submit(job).expect("taken")).collect();
        answers.extend(streams.into_iter().map(read));
    }
    answers
}

fn check(policy: &str, options: &[(&str, OptionValue)]) {
    let mut reference = Reference::new(&deployment(policy, options, "eager"));
    let mut expected: Option<Vec<Vec<Commit>>> = None;
    for rule in RULES {
        let loaded = deployment(policy, options, rule).load().expect("the deployment loads");
        let engine = Engine::start(loaded.parts).expect("the engine starts");
        let jobs = jobs(&engine);
        let expected = expected.get_or_insert_with(|| jobs.iter().map(|job| reference.answer(job)).collect());
        let handoffs = expected
            .iter()
            .flat_map(|answer| answer.windows(2))
            .filter(|pair| pair[0].model != pair[1].model);
        assert!(handoffs.count() > 10, "{policy}: the jobs must need both models");
        assert_eq!(engine_answers(&engine, &jobs), *expected, "{policy} under {rule}");
    }
}

#[test]
fn schedule_independence_of_r_stitch_against_the_sequential_reference() {
    check(
        "r-stitch",
        &[
            ("unit", OptionValue::Text("nats".to_owned())),
            ("threshold", OptionValue::Number(0.2)),
        ],
    );
}

#[test]
fn schedule_independence_of_random_against_the_sequential_reference() {
    check("random", &[("share", OptionValue::Number(0.35))]);
}
