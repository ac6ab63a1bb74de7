//! One point of the grid: all problems, answered in one way.

use std::time::Instant;

use anyhow::Context as _;
use futures_util::StreamExt as _;
use serde::Serialize;
use tokenrouter_engine::{Engine, Target};
use tokenrouter_host::deployment::{DeploymentFile, PolicyChecker};
use tokenrouter_policy::{Setting, Value};

use super::args::EvalArgs;
use super::grid::PolicySpec;
use crate::cli::measure::{Answered, Percentiles, Problem, Question, Service, Variant, percentiles, tell};

/// What all problems brought in one way of answering them.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Point {
    /// The policy, or the model that answers alone.
    pub(super) name: String,
    /// The option that varies, as in `threshold=0.2`.
    pub(super) at: Option<String>,
    /// The launch rule.
    pub(super) launch: String,
    /// Share of right answers among problems whose answer is known.
    pub(super) right: Option<f64>,
    /// Share of the tokens by each model.
    pub(super) shares: Vec<f64>,
    /// Mean handoffs.
    pub(super) handoffs_per_answer: f64,
    /// Mean tokens.
    pub(super) tokens_per_answer: f64,
    /// Of all answers together.
    pub(super) tokens_per_s: f64,
    /// From the question to the first token, milliseconds.
    pub(super) first_token_ms: Percentiles,
    /// Per token after the first, milliseconds.
    pub(super) per_token_ms: Percentiles,
    /// Mean parameters of the models that wrote the tokens. Candidates that were discarded are not in it.
    pub(super) parameters_per_token: f64,
    /// How much more is right than under random routing at the same share.
    pub(super) over_random: Option<f64>,
}

impl Point {
    /// Share of the last model.
    pub(super) fn share(&self) -> f64 {
        self.shares.last().copied().unwrap_or(0.0)
    }
}

/// Asks problems of deployments.
pub(super) struct Asker<'a> {
    pub(super) args: &'a EvalArgs,
    pub(super) problems: &'a [Problem],
    pub(super) runtime: &'a tokio::runtime::Runtime,
}

/// An engine that runs.
pub(super) struct Running {
    service: Service,
    launch: String,
    parameters: Vec<u64>,
    names: Vec<String>,
    /// Options of the policy that a request may set.
    per_request: Vec<String>,
    checker: PolicyChecker,
}

impl Running {
    fn start(file: &DeploymentFile) -> anyhow::Result<Self> {
        let loaded = file.load()?;
        let options = loaded.policies.iter().flat_map(|policy| &policy.options);
        Ok(Self {
            per_request: options
                .filter(|option| option.per_request)
                .map(|option| option.name.clone())
                .collect(),
            launch: file.launch.rule.to_string(),
            parameters: loaded.models.iter().map(|model| model.info.parameters).collect(),
            names: loaded.models.iter().map(|model| model.name.clone()).collect(),
            checker: loaded.checker(),
            service: Service::Engine(Box::new(Engine::start(loaded.parts)?)),
        })
    }

    /// The models' names.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }
}

impl Asker<'_> {
    /// An engine without a policy, for what models do alone.
    pub(super) fn without_policy(&self) -> anyhow::Result<Running> {
        let variant = Variant {
            policy: Some("none".to_owned()),
            options: Vec::new(),
            launch: self.args.launch.first().cloned(),
            optimistic: None,
        };
        Running::start(&variant.deployment(self.args.config.as_deref())?)
    }

    /// Whether a policy that is to be measured can be had with its options, the values of the one that varies included.
    pub(super) fn check(&self, running: &Running, spec: &PolicySpec) -> anyhow::Result<()> {
        for at in spec.points() {
            let mut options = spec.fixed.clone();
            options.extend(at.map(|(option, value)| setting(&option, value)));
            let policy = Some(spec.policy.clone());
            let variant = Variant {
                policy,
                options,
                ..Variant::default()
            };
            running
                .checker
                .check(&variant.deployment(self.args.config.as_deref())?)?;
        }
        Ok(())
    }

    /// One model alone.
    pub(super) fn alone(&self, running: &Running, model: usize) -> anyhow::Result<Point> {
        let target = Target::Model(tokenrouter_core::ModelIndex(model as u32));
        let mut point = self.point(running, &target, &[])?;
        point.name = format!("{} alone", running.names[model]);
        told(&point);
        Ok(point)
    }

    /// A policy at every value of its option and under every launch rule. `None` is the deployment's own policy.
    pub(super) fn policy(&self, spec: Option<&PolicySpec>) -> anyhow::Result<Vec<Point>> {
        let rules: Vec<_> = match self.args.launch.as_slice() {
            [] => vec![None],
            rules => rules.iter().cloned().map(Some).collect(),
        };
        let mut points = Vec::new();
        for launch in rules {
            let variant = Variant {
                policy: spec.map(|spec| spec.policy.clone()),
                options: spec.map(|spec| spec.fixed.clone()).unwrap_or_default(),
                launch,
                optimistic: None,
            };
            let file = variant.deployment(self.args.config.as_deref())?;
            let mut running = Running::start(&file)?;
            for at in spec.map_or(vec![None], PolicySpec::points) {
                // A request sets the option for itself if it may; else the deployment is loaded anew.
                let mut of_request = Vec::new();
                if let Some((option, value)) = &at {
                    if running.per_request.contains(option) {
                        of_request.push(setting(option, *value));
                    } else {
                        let mut variant = variant.clone();
                        variant.options.push(setting(option, *value));
                        running = Running::start(&variant.deployment(self.args.config.as_deref())?)?;
                    }
                }
                let mut point = self.point(&running, &Target::Default, &of_request)?;
                point.name.clone_from(&file.policy.plugin);
                point.at = at.map(|(option, value)| format!("{option}={value}"));
                told(&point);
                points.push(point);
            }
        }
        Ok(points)
    }

    fn point(&self, running: &Running, target: &Target, options: &[Setting]) -> anyhow::Result<Point> {
        let question = |index: usize, problem: &Problem| Question {
            prompt: self.prompt(problem),
            max_tokens: self.args.max_tokens,
            full_length: false,
            temperature: self.args.temperature,
            // The same draws at every point, so that points differ by what is varied alone.
            seed: index as u64,
            target: target.clone(),
            options: options.to_vec(),
        };
        let started = Instant::now();
        let answers: Vec<(usize, anyhow::Result<Answered>)> = self.runtime.block_on(
            futures_util::stream::iter(self.problems.iter().enumerate())
                .map(|(index, problem)| {
                    let question = question(index, problem);
                    async move { (index, running.service.ask(&question).await) }
                })
                .buffer_unordered(self.args.concurrency as usize)
                .collect(),
        );
        let seconds = started.elapsed().as_secs_f64();
        let mut sum = Sum::new(running.names.len());
        for (index, answer) in answers {
            let answer = answer.with_context(|| format!("problem {}", index + 1))?;
            sum.add(&self.problems[index], &answer);
        }
        Ok(sum.point(running, seconds))
    }

    fn prompt(&self, problem: &Problem) -> String {
        let template = self.args.template.replace("\\n", "\n");
        template.replace(super::PROMPT, &problem.prompt)
    }
}

fn setting(option: &str, value: f64) -> Setting {
    Setting {
        name: option.to_owned(),
        value: Value::Number(value),
    }
}

fn told(point: &Point) {
    let right = point
        .right
        .map_or_else(String::new, |right| format!("{:.1} % right, ", 100.0 * right));
    tell(&format!(
        "{} {} ({}): {right}{:.1} % by the last model, {:.0} tokens/s",
        point.name,
        point.at.as_deref().unwrap_or(""),
        point.launch,
        100.0 * point.share(),
        point.tokens_per_s
    ));
}

/// Over all problems.
struct Sum {
    known: usize,
    right: usize,
    answers: usize,
    tokens: u64,
    by_model: Vec<u64>,
    handoffs: u64,
    first_ms: Vec<f64>,
    per_token_ms: Vec<f64>,
}

impl Sum {
    fn new(models: usize) -> Self {
        Self {
            known: 0,
            right: 0,
            answers: 0,
            tokens: 0,
            by_model: vec![0; models],
            handoffs: 0,
            first_ms: Vec::new(),
            per_token_ms: Vec::new(),
        }
    }

    fn add(&mut self, problem: &Problem, answer: &Answered) {
        if let Some(right) = problem.is_right(&answer.text) {
            self.known += 1;
            self.right += usize::from(right);
        }
        self.answers += 1;
        self.tokens += u64::from(answer.tokens);
        for (sum, tokens) in self.by_model.iter_mut().zip(&answer.tokens_by_model) {
            *sum += u64::from(*tokens);
        }
        self.handoffs += u64::from(answer.handoffs);
        self.first_ms.push(answer.first.as_secs_f64() * 1e3);
        self.per_token_ms
            .extend(answer.per_token().map(|time| time.as_secs_f64() * 1e3));
    }

    fn point(self, running: &Running, seconds: f64) -> Point {
        let (answers, tokens) = (self.answers.max(1) as f64, self.tokens.max(1) as f64);
        let parameters = self.by_model.iter().zip(&running.parameters);
        Point {
            name: String::new(),
            at: None,
            launch: running.launch.clone(),
            right: (self.known > 0).then(|| self.right as f64 / self.known as f64),
            shares: self.by_model.iter().map(|count| *count as f64 / tokens).collect(),
            handoffs_per_answer: self.handoffs as f64 / answers,
            tokens_per_answer: self.tokens as f64 / answers,
            tokens_per_s: self.tokens as f64 / seconds,
            first_token_ms: percentiles(self.first_ms),
            per_token_ms: percentiles(self.per_token_ms),
            parameters_per_token: parameters
                .map(|(count, size)| *count as f64 * *size as f64)
                .sum::<f64>()
                / tokens,
            over_random: None,
        }
    }
}
