//! `tokenrouter-host bench`: a load generator, for deployments in this process and for OpenAI servers.

mod args;
mod load;
mod report;
mod standard;

use anyhow::{Context as _, ensure};
use tokenrouter_engine::Engine;
use tokenrouter_host::deployment::{DeploymentError, DeploymentFile};

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
    let lines = lines?;
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
        if let Some(file) = &load.plot {
            file.check()?;
        }
        Ok(Self {
            load,
            prompts: Problem::read(load.prompts.as_deref()).context("--prompts")?,
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build()?,
        })
    }

    fn single(&self, args: &SingleArgs) -> Result<Vec<Line>, Failure> {
        if let (Some(url), Some(model)) = (&args.url, &args.model) {
            let remote = Remote::new(url, model, std::env::var(&args.key_variable).ok());
            let remote = remote.map_err(Failure::Asked)?;
            return self.measure(model, &Service::Remote(remote));
        }
        let variant = Variant {
            policy: args.policy.clone(),
            options: self.load.policy_options.clone(),
            launch: args.launch.clone(),
            optimistic: args.optimistic,
        };
        let (name, service) = self.engine(&variant, &[]).map_err(Failure::Other)?;
        self.measure(&name, &service)
    }

    fn compare(&self, args: &CompareArgs) -> Result<Vec<Line>, Failure> {
        let variants = self.variants(args);
        // Measuring takes minutes: a policy that is not there is told before, and one that does not fit as soon as models are loaded.
        for variant in &variants {
            let file = self.file(variant).map_err(Failure::asked)?;
            file.plugin().map_err(Failure::asked)?;
        }
        let mut lines = Vec::new();
        if args.baseline == Some(Baseline::StandardServing) {
            let dispatcher = self.dispatcher(args).map_err(Failure::Asked)?;
            lines.extend(self.measure("standard-serving", &dispatcher)?);
        }
        for (index, variant) in variants.iter().enumerate() {
            let unchecked = if index == 0 { &variants[1..] } else { &[] };
            let (name, service) = self.engine(variant, unchecked).map_err(Failure::Other)?;
            lines.extend(self.measure(&name, &service)?);
        }
        Ok(lines)
    }

    /// Every combination of what is to be compared.
    fn variants(&self, args: &CompareArgs) -> Vec<Variant> {
        let mut variants = Vec::new();
        for policy in or_the_deployments(&args.policies) {
            for launch in or_the_deployments(&args.launch) {
                for optimistic in or_the_deployments(&args.optimistic) {
                    variants.push(Variant {
                        policy: policy.clone(),
                        options: self.load.policy_options.clone(),
                        launch: launch.clone(),
                        optimistic,
                    });
                }
            }
        }
        variants
    }

    /// The baseline: what routes outside of ordinary servers.
    fn dispatcher(&self, args: &CompareArgs) -> anyhow::Result<Dispatcher> {
        let [policy] = args.policies.as_slice() else {
            anyhow::bail!("--baseline standard-serving needs one --policy to route by, random or r-stitch");
        };
        let routing = Routing::of(policy, &self.load.policy_options).context("--baseline standard-serving")?;
        match args.servers.as_slice() {
            [] => Dispatcher::serving(&Variant::default().deployment(self.load.config.as_deref())?, routing),
            servers => Dispatcher::to(servers, std::env::var("OPENAI_API_KEY").ok().as_deref(), routing),
        }
    }

    fn file(&self, variant: &Variant) -> Result<DeploymentFile, DeploymentError> {
        variant.deployment(self.load.config.as_deref())
    }

    /// The deployment in this process, and what to call it. Policies of `others` are checked before it starts.
    fn engine(&self, variant: &Variant, others: &[Variant]) -> anyhow::Result<(String, Service)> {
        let file = self.file(variant)?;
        let mut name = format!("{} {}", file.policy.plugin, file.launch.rule);
        if let Some(optimistic) = variant.optimistic {
            name = format!("{name} optimistic={optimistic}");
        }
        let loaded = file.load()?;
        let (checker, mut checked) = (loaded.checker(), &variant.policy);
        for other in others {
            if other.policy != *checked {
                checker.check(&self.file(other)?)?;
                checked = &other.policy;
            }
        }
        Ok((name, Service::Engine(Box::new(Engine::start(loaded.parts)?))))
    }

    /// One line for every load.
    fn measure(&self, name: &str, service: &impl Answers) -> Result<Vec<Line>, Failure> {
        let loads: Vec<Arrivals> = match self.load.rate.as_slice() {
            [] => self.load.concurrency.iter().copied().map(Arrivals::Closed).collect(),
            rates => rates.iter().copied().map(Arrivals::Rate).collect(),
        };
        let mut lines = Vec::new();
        for arrivals in loads {
            let measured = self
                .runtime
                .block_on(load::run(service, &self.prompts, self.load, arrivals))
                .map_err(Failure::Other)?;
            let line = Line::new(name, arrivals, &measured, self.load.speed_min);
            let load = match arrivals {
                Arrivals::Closed(clients) => format!("{clients} clients"),
                Arrivals::Rate(rate) => format!("{rate} requests/s"),
            };
            tell(&format!(
                "{name}, {load}: {:.0} tokens/s, {} answers",
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
