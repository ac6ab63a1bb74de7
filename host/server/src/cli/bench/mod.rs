//! `tokenrouter-host bench`: a load generator, for deployments in this process and for OpenAI servers.

mod args;
mod load;
mod report;
mod standard;

use anyhow::{Context as _, ensure};
use tokenrouter_engine::Engine;

pub(super) use self::args::{BENCH_EXAMPLES, BenchArgs};

use self::args::{Baseline, BenchCommand, CompareArgs, LoadArgs, SingleArgs};
use self::load::{Answers, Arrivals};
use self::report::Line;
use self::standard::{Dispatcher, Routing};
use super::measure::{Problem, Remote, Service, Variant, tell};
use super::{Failure, logging, output};

/// Measures, and prints.
pub(super) fn run(args: &BenchArgs) -> Result<(), Failure> {
    let load = match &args.command {
        None => &args.single.load,
        Some(BenchCommand::Compare(compare)) => &compare.load,
    };
    logging::start(&load.log, logging::Format::Text).map_err(Failure::Asked)?;
    let bench = Bench::new(load).map_err(Failure::Asked)?;
    let lines = match &args.command {
        None => bench.single(&args.single),
        Some(BenchCommand::Compare(compare)) => bench.compare(compare),
    };
    let lines = lines.map_err(Failure::Other)?;
    if let Some(file) = &load.plot {
        file.write(&report::picture(&lines)).map_err(Failure::Asked)?;
    }
    if load.json {
        return output::print_json(&lines);
    }
    output::print(&report::table(&lines).to_string())?;
    match lines.iter().find_map(|line| line.failure.as_ref()) {
        None => Ok(()),
        Some(why) => Err(Failure::Other(anyhow::anyhow!("some answers failed; the first: {why}"))),
    }
}

/// A load on the prompts of a file.
struct Bench<'a> {
    load: &'a LoadArgs,
    prompts: Vec<Problem>,
    runtime: tokio::runtime::Runtime,
}

impl<'a> Bench<'a> {
    fn new(load: &'a LoadArgs) -> anyhow::Result<Self> {
        ensure!(
            load.plot.is_none() || load.concurrency.len() >= 2 || load.rate.len() >= 2,
            "--plot draws a curve over loads; give --concurrency or --rate more than one number, as in --concurrency 1,4,8"
        );
        Ok(Self {
            load,
            prompts: Problem::read(load.prompts.as_deref()).context("--prompts")?,
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build()?,
        })
    }

    fn single(&self, args: &SingleArgs) -> anyhow::Result<Vec<Line>> {
        if let (Some(url), Some(model)) = (&args.url, &args.model) {
            let remote = Remote::new(url, model, std::env::var(&args.key_variable).ok())?;
            return self.measure(model, &Service::Remote(remote));
        }
        let variant = Variant {
            policy: args.policy.clone(),
            options: self.load.policy_options.clone(),
            launch: args.launch.clone(),
            optimistic: args.optimistic,
        };
        let (name, service) = self.engine(&variant)?;
        self.measure(&name, &service)
    }

    fn compare(&self, args: &CompareArgs) -> anyhow::Result<Vec<Line>> {
        let mut lines = Vec::new();
        if args.baseline == Some(Baseline::StandardServing) {
            let [policy] = args.policies.as_slice() else {
                anyhow::bail!("--baseline standard-serving needs one --policy to route by, random or r-stitch");
            };
            let routing = Routing::of(policy, &self.load.policy_options).context("--baseline standard-serving")?;
            let dispatcher = match args.servers.as_slice() {
                [] => Dispatcher::serving(&Variant::default().deployment(self.load.config.as_deref())?, routing)?,
                servers => Dispatcher::to(servers, std::env::var("OPENAI_API_KEY").ok().as_deref(), routing)?,
            };
            lines.extend(self.measure("standard-serving", &dispatcher)?);
        }
        for policy in or_the_deployments(&args.policies) {
            for launch in or_the_deployments(&args.launch) {
                for optimistic in or_the_deployments(&args.optimistic) {
                    let variant = Variant {
                        policy: policy.clone(),
                        options: self.load.policy_options.clone(),
                        launch: launch.clone(),
                        optimistic,
                    };
                    let (name, service) = self.engine(&variant)?;
                    lines.extend(self.measure(&name, &service)?);
                }
            }
        }
        Ok(lines)
    }

    /// The deployment in this process, and what to call it.
    fn engine(&self, variant: &Variant) -> anyhow::Result<(String, Service)> {
        let file = variant.deployment(self.load.config.as_deref())?;
        let mut name = format!("{} {}", file.policy.plugin, file.launch.rule);
        if let Some(optimistic) = variant.optimistic {
            name = format!("{name} optimistic={optimistic}");
        }
        let engine = Engine::start(file.load()?.parts)?;
        Ok((name, Service::Engine(Box::new(engine))))
    }

    /// One line for every load.
    fn measure(&self, name: &str, service: &impl Answers) -> anyhow::Result<Vec<Line>> {
        let loads: Vec<Arrivals> = match self.load.rate.as_slice() {
            [] => self.load.concurrency.iter().copied().map(Arrivals::Closed).collect(),
            rates => rates.iter().copied().map(Arrivals::Rate).collect(),
        };
        let mut lines = Vec::new();
        for arrivals in loads {
            let measured = self
                .runtime
                .block_on(load::run(service, &self.prompts, self.load, arrivals))?;
            let line = Line::new(name, arrivals, &measured, self.load.speed_min);
            tell(&format!(
                "{name}, {arrivals:?}: {:.0} tokens/s, {} answers",
                line.tokens_per_s, line.answers
            ));
            lines.push(line);
        }
        Ok(lines)
    }
}

/// What was asked for, each in turn; nothing means what the deployment says.
fn or_the_deployments<T: Clone>(asked: &[T]) -> Vec<Option<T>> {
    match asked {
        [] => vec![None],
        asked => asked.iter().cloned().map(Some).collect(),
    }
}
