//! `policy replay`.

mod report;
mod walk;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use tokenrouter_core::ModelIndex;
use tokenrouter_core::policy::Admitting;
use tokenrouter_core::signal::Signal;
use tokenrouter_host::deployment::{NO_PLUGIN, OptionValue, Plugin, configure, parse_setting};
use tokenrouter_host::trace::{Columns, RecordedRequest, Trace, parse_signal};
use tokenrouter_policy::{Deployment, Generation, HeadFacts, ModelFacts, PolicyError, Setting};

use self::report::{Counts, Report};
use self::walk::{Replay, Tally};
use crate::cli::{Failure, output};

/// Shown below the options.
pub(super) const EXAMPLES: &str = "\
Example: how often would r-stitch ask the large model at another threshold?
  $ tokenrouter-host serve --record trace.jsonl     and let clients work; then
  $ tokenrouter-host policy replay r-stitch --option threshold=0.1 --option unit=nats --trace trace.jsonl

A trace knows what each model wrote only where it ran. Where the replayed policy goes to a model that did not run, or writes
another token than the recorded one, what follows is an estimate; the output says how many steps that is. Record under a
policy that asks the large model often to have rows of both.";

/// Options of `policy replay`.
#[derive(Debug, Args)]
pub(super) struct ReplayArgs {
    /// A policy: a .wasm file, or the name of one of this binary
    #[arg(value_name = "FILE")]
    plugin: String,
    /// The trace, as `serve --record` writes it
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// An option of the policy; give it once for each option
    #[arg(long = "option", value_name = "NAME=VALUE", value_parser = parse_setting)]
    options: Vec<Setting>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &ReplayArgs) -> Result<(), Failure> {
    let trace = Trace::read(&args.trace).map_err(Failure::asked)?;
    let generation = load(args, &trace).map_err(Failure::Asked)?;
    let columns = Columns::new(&trace, generation.plan()).map_err(Failure::asked)?;
    let report = replay(&generation, &trace, &columns).map_err(Failure::Other)?;
    if args.json {
        let text = serde_json::to_string_pretty(&report).map_err(Failure::other)?;
        return output::print(&format!("{text}\n"));
    }
    output::print(&report.text())
}

/// The policy, configured for the deployment that was recorded.
fn load(args: &ReplayArgs, trace: &Trace) -> anyhow::Result<Generation> {
    let Plugin::Component { given, bytes } = Plugin::find(&args.plugin, Path::new(""))? else {
        anyhow::bail!("\"{NO_PLUGIN}\" stands for serving without a policy; name one");
    };
    let options: BTreeMap<String, OptionValue> = args
        .options
        .iter()
        .map(|setting| (setting.name.clone(), (&setting.value).into()))
        .collect();
    Ok(configure(given, &bytes, &deployment(trace), &options)?)
}

/// What the header says of the deployment, and the heads whose scores were recorded.
fn deployment(trace: &Trace) -> Deployment {
    let mut heads: Vec<HeadFacts> = Vec::new();
    for generation in &trace.generations {
        for (model, signals) in (0..).map(ModelIndex).zip(&generation.signals) {
            for signal in signals {
                if let Some(Signal::HeadScore(name)) = parse_signal(signal)
                    && heads.iter().all(|head| head.name != name)
                {
                    heads.push(HeadFacts { name, model });
                }
            }
        }
    }
    Deployment {
        name: trace.header.deployment.clone(),
        models: trace
            .header
            .models
            .iter()
            .map(|model| ModelFacts {
                name: model.name.clone(),
                parameters: model.parameters,
                vocabulary: model.vocabulary,
            })
            .collect(),
        heads,
    }
}

fn replay(generation: &Generation, trace: &Trace, columns: &Columns) -> anyhow::Result<Report> {
    let mut replay = Replay {
        instance: generation.instance(),
        columns,
        tally: Tally {
            tokens: vec![0; trace.header.models.len()],
            ..Tally::default()
        },
    };
    let mut counts = Counts {
        requests: 0,
        unrouted: 0,
        refused: 0,
    };
    for recorded in &trace.requests {
        if recorded.request.generation.is_none() {
            counts.unrouted += 1;
            continue;
        }
        let request = &recorded.request;
        let admitting = Admitting {
            seed: request.seed,
            prompt: &request.prompt,
            max_tokens: request.max_tokens,
            temperature: request.temperature,
        };
        match replay.instance.admit(&admitting, &own_options(generation, recorded)) {
            Ok(admission) => {
                counts.requests += 1;
                replay.walk(recorded, admission.model, admission.state)?;
            }
            Err(PolicyError::Refused { .. }) => counts.refused += 1,
            Err(error) => return Err(error).with_context(|| format!("request {}", request.id)),
        }
    }
    let description = generation.description();
    let policy = format!("{} {}", description.name, description.version);
    Ok(Report::new(policy, trace, &counts, replay.tally))
}

/// The options that the recorded client set, as far as this policy has them too.
fn own_options(generation: &Generation, recorded: &RecordedRequest) -> Vec<Setting> {
    let known = |name: &str| {
        let mut options = generation.description().options.iter();
        options.any(|option| option.name == name && option.per_request)
    };
    let given = recorded.request.options.iter().filter(|(name, _)| known(name));
    given
        .filter_map(|(name, value)| {
            Some(Setting {
                name: name.clone(),
                value: OptionValue::from_json(value).ok()?.into(),
            })
        })
        .collect()
}
