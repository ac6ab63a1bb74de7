//! The engine against a sequential reference router with the real models and the real policies: one request at a time, the
//! whole sequence computed anew for every token, no batch, no kept KV, no scheduler, no threads.

use tokenrouter_core::limits::KV_BLOCK_TOKENS;
use tokenrouter_core::policy::{Admitting, Decisions, LeavingRow, Parcel, PolicyState, RouteBatch};
use tokenrouter_core::step::{StepBatch, StepRow};
use tokenrouter_core::{BlockId, ModelIndex, RequestId, TokenId};
use tokenrouter_engine::stream::{AnswerStream, Event};
use tokenrouter_engine::{Engine, Job, Target};
use tokenrouter_host::deployment::{DeploymentFile, Launch, OptionValue};
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

/// A committed token and who wrote it.
type Commit = (TokenId, ModelIndex);

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

    /// The candidate of `at` after `tokens`, and the signals that the policy asked for.
    fn step(&mut self, at: ModelIndex, tokens: &[TokenId], job: &Job) -> (TokenId, Vec<f32>) {
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
        let ask = RowAsk {
            sampling: job.sampling,
            seed: job.seed,
            plan: 0,
            newlines: 0,
        };
        let plans = [self.generation.plan().signals[at.index()].clone()];
        let mut output = StepOutput::default();
        self.runners[at.index()]
            .step(&batch, &[ask], &plans, &mut output)
            .expect("the model runs");
        (output.candidates[0], output.row_signals(0).to_vec())
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
            let (candidate, signals) = self.step(at, &tokens, job);
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
                commits.push((candidate, at));
                if self.eos.contains(&candidate) || commits.len() == job.max_tokens as usize {
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
            stop: Vec::new(),
            target: Target::Default,
            options: Vec::new(),
        }
    };
    (0..32).map(job).collect()
}

fn read(mut stream: AnswerStream) -> Vec<Commit> {
    let mut commits = Vec::new();
    while let Some(event) = stream.next_blocking() {
        if let Event::Piece { tokens, .. } = event {
            commits.extend(tokens.iter().map(|written| (written.token, written.model)));
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
            .filter(|pair| pair[0].1 != pair[1].1);
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
