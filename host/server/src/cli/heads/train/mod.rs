//! `heads train`: from prompts to a head. The large model answers them; the small one reads the answers and, at every
//! position, either agrees with the next token or not; the head learns to foresee where it does not.

mod args;
mod report;
mod store;
mod writer;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use serde_json::json;
use tokenrouter_core::{ModelIndex, TokenId};
use tokenrouter_engine::Engine;
use tokenrouter_host::deployment::DeploymentFile;
use tokenrouter_model::heads::train::{Checkpoint, Example, Examples, FitOptions, Observer, fit};
use tokenrouter_model::heads::{Activation, FORMAT, HeadFile, HeadHeader, HeadInput, HeadKind, HeadModel, Network};

pub(super) use self::args::TrainArgs;

use self::args::{Label, TrainKind};
use self::store::Store;
use self::writer::{Writer, progress};
use super::{Failure, check_out, write};
use crate::cli::logging;
use crate::cli::measure::{Problem, tell};

/// Logits that an R2R classifier reads, as the published ones.
const TOP_LOGITS: usize = 100;

/// A prompt and the large model's answer to it.
pub(super) struct Text {
    prompt: Vec<TokenId>,
    answer: Vec<TokenId>,
}

/// Trains, reports and writes the file.
pub(super) fn run(args: &TrainArgs) -> Result<(), Failure> {
    logging::start(&args.log, logging::Format::Text).map_err(Failure::Asked)?;
    let setup = Setup::new(args).map_err(Failure::Asked)?;
    let examples = setup.examples().map_err(Failure::Other)?;
    let head = setup.train(&examples).map_err(Failure::Other)?;
    write(&head, &args.out)
}

/// What the command line comes down to.
struct Setup<'a> {
    args: &'a TrainArgs,
    problems: Vec<Problem>,
    file: DeploymentFile,
    small: usize,
    large: usize,
    work: PathBuf,
}

impl<'a> Setup<'a> {
    fn new(args: &'a TrainArgs) -> anyhow::Result<Self> {
        for (name, share) in [("--held-out", args.held_out), ("--recall", args.recall)] {
            ensure!(
                share > 0.0 && share <= 1.0,
                "{name} is {share}; write a number above 0 and at most 1"
            );
        }
        if let Some(rate) = args.rate {
            ensure!(
                rate > 0.0 && rate < 1.0,
                "--rate is {rate}; write a number between 0 and 1"
            );
        }
        ensure!(
            args.dims.is_empty() || args.kind == TrainKind::R2r,
            "--dims is for --kind r2r; the others have no choice"
        );
        let mut problems = Problem::read(Some(&args.prompts)).context("--prompts")?;
        problems.truncate(args.limit.unwrap_or(usize::MAX));
        let mut file = match &args.config {
            Some(path) => DeploymentFile::read(path)?,
            None => DeploymentFile::built_in()?,
        };
        // Neither policy nor heads are needed, and heads may not be there yet.
        file.policy = Default::default();
        file.heads = Vec::new();
        let names: Vec<&str> = file.models.iter().map(|model| model.name.as_str()).collect();
        let find = |option: &str, name: &Option<String>, default: usize| match name {
            None => Ok(default),
            Some(name) => names
                .iter()
                .position(|known| known == name)
                .with_context(|| format!("{option} {name}: the deployment's models are {}", names.join(", "))),
        };
        let small = find("--model", &args.model, 0)?;
        let large = find("--large", &args.large, names.len() - 1)?;
        ensure!(
            small != large,
            "--model and --large are both \"{}\"; two models are compared",
            names[small]
        );
        ensure!(
            file.models[small].source.simulated().is_none(),
            "a simulated model computes nothing to learn from"
        );
        // Training takes minutes: a file that cannot be written is told before.
        check_out(&args.out)?;
        let work = args.work.clone().unwrap_or_else(|| {
            let mut name = args.out.clone().into_os_string();
            name.push(".work");
            name.into()
        });
        std::fs::create_dir_all(&work)
            .with_context(|| format!("--work {}: it is a folder, which cannot be made", work.display()))?;
        Ok(Self {
            args,
            problems,
            file,
            small,
            large,
            work,
        })
    }

    /// Every position of every answer, with what the small model computed there and the label.
    fn examples(&self) -> anyhow::Result<Vec<Example>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let engine = Engine::start(self.file.load()?.parts)?;
        let writer = Writer {
            engine: &engine,
            large: ModelIndex(self.large as u32),
            max_tokens: self.args.max_tokens,
            concurrency: self.args.concurrency as usize,
            runtime: &runtime,
        };
        let texts = writer.answers(&self.problems, self.store("answers")?)?;
        let source = self.file.models[self.small].resolve(&self.file.base)?;
        let mut observer = Observer::load(&source).context("the model that the head belongs to")?;
        let top = TOP_LOGITS.min(observer.vocabulary());
        let (mut observations, mut others) = (Vec::new(), Vec::new());
        for (index, text) in texts.iter().enumerate() {
            let observed = observer.observe(&text.prompt, &text.answer, top)?;
            let differs = observed.iter().zip(&text.answer);
            others.push(
                differs
                    .map(|(seen, token)| (seen.candidate != *token).then_some(seen.candidate))
                    .collect::<Vec<_>>(),
            );
            observations.push(observed);
            progress("answers read by the small model", index + 1, texts.len());
        }
        let asks = match self.args.label {
            Label::Token => others
                .iter()
                .map(|text| text.iter().map(Option::is_some).collect())
                .collect(),
            Label::Rollout => writer.rollouts(&self.problems, &texts, &others, self.store("rollouts")?)?,
        };
        let texts = observations.into_iter().zip(asks).enumerate();
        let examples = texts.flat_map(|(text, (observed, asks))| {
            observed.into_iter().zip(asks).map(move |(observation, asks)| Example {
                text,
                observation,
                // CITER's score says how good the small model is.
                positive: asks != (self.args.kind == TrainKind::Citer),
            })
        });
        Ok(examples.collect())
    }

    /// A file of the work folder, for these models and prompts.
    fn store<T: serde::de::DeserializeOwned>(&self, name: &str) -> anyhow::Result<(Store, Vec<T>)> {
        let models = [self.small, self.large].map(|model| self.file.models[model].source.to_string());
        let mut subject = json!({
            "large": models[1], "prompts": self.digest(), "max_tokens": self.args.max_tokens,
        });
        if name == "rollouts" {
            subject["small"] = models[0].as_str().into();
        }
        Store::open(&self.work.join(format!("{name}.jsonl")), &subject.to_string())
    }

    /// Tells files of prompts apart. A longer file of the same beginning is another.
    fn digest(&self) -> String {
        let prompts: Vec<&str> = self.problems.iter().map(|problem| problem.prompt.as_str()).collect();
        tokenrouter_policy::Digest::of(prompts.join("\n").as_bytes()).to_string()
    }

    fn train(&self, examples: &[Example]) -> anyhow::Result<HeadFile> {
        let Some(width) = examples.first().map(|example| &example.observation) else {
            bail!("the answers have no tokens");
        };
        let header = self.header(width.hidden.len(), width.top_logits.len())?;
        let (training, held_out) = Examples::divide(&header, examples, self.args.held_out, self.args.seed)?;
        tell(&format!(
            "{} positions to learn from, {} held out; {:.2} % ask for the large model",
            training.len(),
            held_out.len(),
            100.0 * self.asking(&training)
        ));
        let options = FitOptions {
            epochs: self.args.epochs as usize,
            rate: self.args.rate.unwrap_or(match self.args.kind {
                TrainKind::R2r | TrainKind::Citer => 2e-3,
                TrainKind::CoLlm => 2e-2,
            }),
            seed: self.args.seed,
            ..FitOptions::default()
        };
        let path = self.work.join(format!("{}.json", header.kind));
        let subject = serde_json::to_value((
            &header,
            self.digest(),
            format!(
                "{:?}",
                (options, self.args.label, self.args.held_out, self.args.max_tokens)
            ),
        ))?;
        let fitted = fit::<anyhow::Error>(
            &header,
            (&training, &held_out),
            &options,
            resume(&path, &subject)?,
            |at| {
                if let Some(epoch) = at.epochs.last() {
                    tell(&format!(
                        "epoch {} of {}: loss {:.4}, held out {:.4} nats",
                        epoch.number, options.epochs, epoch.loss, epoch.held_out
                    ));
                }
                keep(&path, &subject, at)
            },
        )?;
        let found = match self.args.kind {
            TrainKind::Citer => fitted.held_out.complement(),
            TrainKind::R2r | TrainKind::CoLlm => fitted.held_out,
        };
        let chosen = match self.args.share {
            Some(share) => found.for_share(share),
            None => found.for_recall(self.args.recall),
        };
        tell(&report::text(
            &found,
            chosen.as_ref(),
            self.args.kind == TrainKind::Citer,
        ));
        let threshold = chosen.map(|chosen| report::threshold(&chosen, self.args.kind == TrainKind::Citer));
        Ok(fitted.head.with_threshold(threshold))
    }

    /// The part of examples that ask for the large model.
    fn asking(&self, examples: &Examples) -> f64 {
        let positive = examples.positives() as f64 / examples.len().max(1) as f64;
        match self.args.kind {
            TrainKind::Citer => 1.0 - positive,
            TrainKind::R2r | TrainKind::CoLlm => positive,
        }
    }

    fn header(&self, hidden: usize, top: usize) -> anyhow::Result<HeadHeader> {
        let vocabulary = self.file.models[self.small]
            .resolve(&self.file.base)?
            .config()?
            .vocab_size;
        let (kind, network) = match self.args.kind {
            TrainKind::R2r => {
                let dims = match self.args.dims.as_slice() {
                    [] => vec![(hidden / 2).max(1); 2],
                    dims => dims.to_vec(),
                };
                let network = Network::Classifier {
                    dims,
                    expansion: 4,
                    classes: 1,
                    normalize_input: true,
                };
                (HeadKind::R2r, network)
            }
            TrainKind::Citer => {
                let network = Network::Mlp {
                    dims: vec![2 * hidden],
                    activation: Some(Activation::Relu),
                };
                (HeadKind::Citer, network)
            }
            TrainKind::CoLlm => {
                let network = Network::Mlp {
                    dims: Vec::new(),
                    activation: None,
                };
                (HeadKind::CoLlm, network)
            }
        };
        let all = kind == HeadKind::R2r;
        let [small, large] = [self.small, self.large].map(|model| &self.file.models[model]);
        Ok(HeadHeader {
            format: FORMAT,
            kind,
            model: HeadModel {
                name: Some(small.source.to_string()),
                hidden_size: Some(hidden),
                vocabulary: Some(vocabulary),
            },
            inputs: match all {
                true => vec![HeadInput::Hidden, HeadInput::Token, HeadInput::Logits],
                false => vec![HeadInput::Hidden],
            },
            top_logits: all.then_some(top),
            network,
            threshold: None,
            trained: true,
            source: format!(
                "trained on {} answers of {}, labels by {}, seed {}",
                self.problems.len(),
                large.source,
                match self.args.label {
                    Label::Token => "token",
                    Label::Rollout => "rollout",
                },
                self.args.seed
            ),
        })
    }
}

/// The state of an earlier run of the same training, if there is one.
fn resume(path: &Path, subject: &serde_json::Value) -> anyhow::Result<Option<Checkpoint>> {
    let Ok(text) = std::fs::read_to_string(path) else {
        return Ok(None);
    };
    let shown = path.display();
    let (of, checkpoint): (serde_json::Value, Checkpoint) =
        serde_json::from_str(&text).with_context(|| format!("{shown} is damaged; remove it to begin anew"))?;
    if of != *subject {
        tell(&format!("{shown} is of another training; this one begins anew"));
        return Ok(None);
    }
    tell(&format!("going on after epoch {} of {shown}", checkpoint.epochs.len()));
    Ok(Some(checkpoint))
}

/// Writes the state under another name and renames it, so that the file is whole at any moment.
fn keep(path: &Path, subject: &serde_json::Value, checkpoint: &Checkpoint) -> anyhow::Result<()> {
    let text = serde_json::to_string(&(subject, checkpoint))?;
    let new = path.with_extension("new");
    std::fs::write(&new, text).with_context(|| format!("cannot write {}", new.display()))?;
    std::fs::rename(&new, path).with_context(|| format!("cannot write {}", path.display()))
}
