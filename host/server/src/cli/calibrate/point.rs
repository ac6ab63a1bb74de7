//! One point of a curve: all prompts through an engine in this process, at one value of the parameter.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Serialize};
use tokenrouter_engine::stream::{AnswerStream, Event};
use tokenrouter_engine::{Engine, Finish, Job};
use tokenrouter_host::deployment::{DeploymentFile, OptionValue};
use tokenrouter_model::Sampling;
use tokenrouter_policy::{Description, OptionInfo, Setting, Value};

use super::args::CalibrateArgs;

/// Requests at a time.
const CONCURRENCY: usize = 32;

/// What thresholds are called, the likelier first.
const THRESHOLDS: [&str; 7] = ["threshold", "tau", "eta", "rho", "limit", "share", "strong_share"];

/// A prompt, and its answer if that is known.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Prompt {
    prompt: String,
    #[serde(default)]
    answer: Option<String>,
}

impl Prompt {
    /// Reads a file of one object a line.
    ///
    /// # Errors
    /// Names the line.
    pub(super) fn read(path: &Path) -> anyhow::Result<Vec<Self>> {
        let text = std::fs::read_to_string(path).with_context(|| format!("--prompts {}", path.display()))?;
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let prompts: Vec<Self> = lines
            .map(|(index, line)| {
                serde_json::from_str(line).with_context(|| {
                    let place = format!("--prompts {}:{}", path.display(), index + 1);
                    format!("{place}: a line is {{\"prompt\": \"...\"}}, perhaps with an \"answer\"")
                })
            })
            .collect::<anyhow::Result<_>>()?;
        ensure!(!prompts.is_empty(), "--prompts {}: the file is empty", path.display());
        Ok(prompts)
    }
}

/// What all prompts brought at one value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Point {
    /// The parameter.
    pub(super) value: f64,
    /// Share of the model that is looked at.
    pub(super) share: f64,
    /// Mean handoffs.
    pub(super) handoffs_per_answer: f64,
    /// Mean tokens.
    pub(super) tokens_per_answer: f64,
    /// Share of the prompts with an answer whose text ends with it; absent if no prompt has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) right: Option<f64>,
}

/// Asks the prompts.
pub(super) struct Asker {
    file: DeploymentFile,
    engine: Engine,
    prompts: Vec<Prompt>,
    policy: String,
    parameter: OptionInfo,
    model: usize,
    max_tokens: u32,
    sampling: Sampling,
}

impl Asker {
    /// Loads the deployment with the policy, and finds the parameter and the model.
    ///
    /// # Errors
    /// All for whoever wrote the command line.
    pub(super) fn new(args: &CalibrateArgs, prompts: Vec<Prompt>) -> anyhow::Result<Self> {
        let mut file = match &args.config {
            Some(path) => DeploymentFile::read(path)?,
            None => DeploymentFile::built_in()?,
        };
        file.policy.plugin.clone_from(&args.policy);
        // A path on the command line counts from the working directory.
        file.policy.base = Some(PathBuf::new());
        file.policy.options = args
            .options
            .iter()
            .map(|setting| (setting.name.clone(), OptionValue::from(&setting.value)))
            .collect();
        let loaded = file.load()?;
        let Some((_, generation)) = loaded.parts.policies.first() else {
            bail!(
                "--policy {}: a deployment without a policy has nothing to calibrate",
                args.policy
            );
        };
        let parameter = parameter(generation.description(), args.parameter.as_deref())?.clone();
        let policy = generation.description().name.clone();
        let names: Vec<&str> = loaded.models.iter().map(|model| model.name.as_str()).collect();
        let model = match &args.model {
            None => names.len() - 1,
            Some(name) => names
                .iter()
                .position(|known| known == name)
                .with_context(|| format!("--model {name}: the deployment's models are {}", names.join(", ")))?,
        };
        Ok(Self {
            engine: Engine::start(loaded.parts)?,
            file,
            prompts,
            policy,
            parameter,
            model,
            max_tokens: args.max_tokens,
            sampling: Sampling {
                temperature: args.temperature,
                ..Sampling::GREEDY
            },
        })
    }

    pub(super) fn policy(&self) -> &str {
        &self.policy
    }

    pub(super) fn parameter(&self) -> &str {
        &self.parameter.name
    }

    pub(super) fn model(&self) -> &str {
        &self.engine.model_names()[self.model]
    }

    pub(super) fn prompts(&self) -> usize {
        self.prompts.len()
    }

    /// Asks all prompts with the parameter at this value. A request sets it for itself if it may; else the deployment is loaded
    /// anew.
    ///
    /// # Errors
    /// A value that the policy refuses, or an answer that fails.
    pub(super) fn measure(&mut self, value: f64) -> anyhow::Result<Point> {
        let name = &self.parameter.name;
        let mut options = Vec::new();
        if self.parameter.per_request {
            options.push(Setting {
                name: name.clone(),
                value: Value::Number(value),
            });
        } else {
            self.file
                .policy
                .options
                .insert(name.clone(), OptionValue::Number(value));
            self.engine = Engine::start(self.file.load()?.parts)?;
        }
        let (mut sum, mut running) = (Sum::default(), VecDeque::new());
        for (index, prompt) in self.prompts.iter().enumerate() {
            if running.len() == CONCURRENCY {
                self.finish(&mut running, &mut sum)?;
            }
            let stream = self.submit(index, prompt, &options);
            running.push_back((index, stream.with_context(|| format!("prompt {}", index + 1))?));
        }
        while !running.is_empty() {
            self.finish(&mut running, &mut sum)?;
        }
        let answers = self.prompts.len() as f64;
        Ok(Point {
            value,
            share: sum.tokens_of_model as f64 / sum.tokens.max(1) as f64,
            handoffs_per_answer: sum.handoffs as f64 / answers,
            tokens_per_answer: sum.tokens as f64 / answers,
            right: (sum.known > 0).then(|| sum.right as f64 / sum.known as f64),
        })
    }

    fn submit(&self, index: usize, prompt: &Prompt, options: &[Setting]) -> anyhow::Result<AnswerStream> {
        let tokens = self.engine.tokenizer().encode_prompt(&prompt.prompt)?;
        let room = self.engine.context_max().saturating_sub(tokens.len() as u32);
        let job = Job {
            prompt: tokens,
            max_tokens: self.max_tokens.min(room),
            sampling: self.sampling,
            // The same draws at every value, so that points differ by the value alone.
            seed: index as u64,
            options: options.to_vec(),
            ..Job::default()
        };
        Ok(self.engine.submit(&job)?)
    }

    /// Waits for the oldest answer.
    fn finish(&self, running: &mut VecDeque<(usize, AnswerStream)>, sum: &mut Sum) -> anyhow::Result<()> {
        let Some((index, mut stream)) = running.pop_front() else {
            return Ok(());
        };
        let mut answer = String::new();
        while let Some(event) = stream.next_blocking() {
            match event {
                Event::Piece { text, .. } => answer += &text,
                Event::End(ended) => {
                    if let Finish::Failed(why) = ended.finish {
                        bail!("prompt {}: {why}", index + 1);
                    }
                    sum.tokens += u64::from(ended.answer_tokens);
                    sum.tokens_of_model += u64::from(ended.tokens_by_model[self.model]);
                    sum.handoffs += u64::from(ended.handoffs);
                }
            }
        }
        if let Some(known) = &self.prompts[index].answer {
            sum.known += 1;
            sum.right += u64::from(answer.trim_end().ends_with(known.trim()));
        }
        Ok(())
    }
}

/// Over all prompts.
#[derive(Default)]
struct Sum {
    tokens: u64,
    tokens_of_model: u64,
    handoffs: u64,
    known: u64,
    right: u64,
}

/// The option of this name, or the one that is plainly the threshold.
fn parameter<'a>(description: &'a Description, name: Option<&str>) -> anyhow::Result<&'a OptionInfo> {
    let is_number = |option: &&OptionInfo| matches!(option.default, Value::Number(_));
    let numbers: Vec<&OptionInfo> = description.options.iter().filter(is_number).collect();
    let names: Vec<&str> = numbers.iter().map(|option| option.name.as_str()).collect();
    let names = if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    };
    let find = |name: &str| numbers.iter().find(|option| option.name == name).copied();
    if let Some(name) = name {
        return find(name).with_context(|| {
            format!(
                "--parameter {name}: {} has no such number; its options that are numbers: {names}",
                description.name
            )
        });
    }
    if let [only] = numbers.as_slice() {
        return Ok(only);
    }
    THRESHOLDS.into_iter().find_map(find).with_context(|| {
        format!(
            "which option of {} is to be varied? Say it with --parameter; the numbers are: {names}",
            description.name
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description(options: &[(&str, Value)]) -> Description {
        let option = |(name, default): &(&str, Value)| OptionInfo {
            name: (*name).to_owned(),
            summary: String::new(),
            default: default.clone(),
            per_request: false,
        };
        Description {
            name: "test".to_owned(),
            version: "1".to_owned(),
            summary: String::new(),
            options: options.iter().map(option).collect(),
        }
    }

    #[test]
    fn the_parameter_is_found_where_it_is_plain() {
        let number = Value::Number(0.5);
        let text = Value::Text(String::new());
        let several = description(&[
            ("window", number.clone()),
            ("tau", number.clone()),
            ("unit", text.clone()),
        ]);
        assert_eq!(parameter(&several, None).unwrap().name, "tau");
        assert_eq!(parameter(&several, Some("window")).unwrap().name, "window");
        let only = description(&[("mine", number.clone()), ("unit", text)]);
        assert_eq!(parameter(&only, None).unwrap().name, "mine");

        let unclear = description(&[("a", number.clone()), ("b", number)]);
        assert!(
            parameter(&unclear, None)
                .unwrap_err()
                .to_string()
                .ends_with("the numbers are: a, b")
        );
        let refusal = parameter(&several, Some("unit")).unwrap_err().to_string();
        assert!(
            refusal.starts_with("--parameter unit") && refusal.ends_with("window, tau"),
            "{refusal}"
        );
        assert!(
            parameter(&description(&[]), None)
                .unwrap_err()
                .to_string()
                .ends_with("none")
        );
    }
}
