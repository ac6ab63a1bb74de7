//! Checks of single calls.

use std::collections::BTreeSet;

use tokenrouter_core::ModelIndex;
use tokenrouter_core::policy::{Admission, Admitting, Decisions, LeavingRow, RouteBatch};

use super::Effort;
use super::report::Outcome;
use super::vectors::{Flavour, Vectors, flavours};
use crate::live::Live;
use crate::{Call, Generation, OptionInfo, PolicyError, PolicyInstance, Setting, Value, convert};

/// Rows of the batches that are routed.
const SIZES: [usize; 4] = [0, 1, 8, 64];

/// Lengths of the prompts that are admitted.
const PROMPTS: [usize; 3] = [1, 7, 300];

/// The policy that is looked at.
pub(super) struct Subject<'a> {
    pub(super) generation: &'a Generation,
    pub(super) vectors: Vectors<'a>,
    pub(super) rounds: u64,
}

pub(super) fn passed(text: impl Into<String>) -> Outcome {
    Outcome::Passed(text.into())
}

pub(super) fn failed(reason: impl Into<String>) -> Outcome {
    Outcome::Failed(reason.into())
}

impl<'a> Subject<'a> {
    pub(super) fn new(generation: &'a Generation, effort: Effort) -> Self {
        Self {
            generation,
            vectors: Vectors::new(generation, effort.seed),
            rounds: u64::from(effort.rounds.max(1)),
        }
    }

    pub(super) fn models(&self) -> impl Iterator<Item = ModelIndex> + use<> {
        (0..self.generation.deployment().models.len() as u32).map(ModelIndex)
    }

    /// Admits request number `index`.
    pub(super) fn admit(
        &self,
        instance: &mut PolicyInstance,
        index: u64,
        options: &[Setting],
    ) -> Result<Admission, PolicyError> {
        let vocabulary = self
            .generation
            .deployment()
            .models
            .iter()
            .map(|model| model.vocabulary)
            .min();
        let vocabulary = u64::from(vocabulary.unwrap_or(1));
        let length = PROMPTS[index as usize % PROMPTS.len()] as u64;
        let prompt: Vec<u32> = (0..length)
            .map(|i| self.vectors.below(index << 16 | i, 0, vocabulary) as u32)
            .collect();
        let request = Admitting {
            seed: self.vectors.request_seed(index),
            prompt: &prompt,
            max_tokens: 1 + self.vectors.below(index, 1, 4_096) as u32,
            temperature: [0.0, 0.6, 1.0][index as usize % 3],
        };
        instance.admit(&request, options)
    }

    /// States as the policy itself makes them at admission, one after the other for so many rows.
    pub(super) fn states(
        &self,
        instance: &mut PolicyInstance,
        rows: usize,
        index: u64,
    ) -> Result<Vec<u64>, PolicyError> {
        let words = self.generation.plan().state_words;
        let mut states = Vec::with_capacity(rows * words);
        for row in 0..rows as u64 {
            match self.admit(instance, index << 8 | row, &[]) {
                Ok(admission) => states.extend_from_slice(admission.state.words()),
                // What it refuses it will not be asked to route; `admit` tells of it.
                Err(error) if error.is_request_error() => states.extend(std::iter::repeat_n(0, words)),
                Err(error) => return Err(error),
            }
        }
        Ok(states)
    }

    /// Calls `look` with a batch of every size, flavour and model, in every round.
    fn for_each_batch(
        &self,
        mut look: impl FnMut(&mut PolicyInstance, ModelIndex, &RouteBatch, &Decisions) -> Result<(), String>,
    ) -> Outcome {
        let mut instance = self.generation.instance();
        let (mut decisions, mut index) = (Decisions::default(), 0);
        for round in 0..self.rounds {
            for at in self.models() {
                for rows in SIZES {
                    let states = match self.states(&mut instance, rows, round) {
                        Ok(states) => states,
                        Err(error) => return failed(format!("{error}")),
                    };
                    for flavour in flavours() {
                        index += 1;
                        let batch = self.vectors.batch(at, rows, flavour, index, &states);
                        let described = || format!("{rows} rows at model {}, signals {}", at.0, name(flavour));
                        if let Err(error) = instance.route(at, &batch, &mut decisions) {
                            return failed(format!("{}: {error}", described()));
                        }
                        if let Err(reason) = look(&mut instance, at, &batch, &decisions) {
                            return failed(format!("{}: {reason}", described()));
                        }
                    }
                }
            }
        }
        passed(format!("{index} batches of 0 to 64 rows, extreme signals among them"))
    }
}

fn name(flavour: Flavour) -> String {
    match flavour {
        Flavour::Plausible => "as a model gives them".to_owned(),
        Flavour::All(value) => format!("all {value:?}"),
        Flavour::Mixed => "extreme".to_owned(),
    }
}

/// `describe` says the same in every instance, and its defaults are values that can be written.
pub(super) fn description(subject: &Subject<'_>) -> Outcome {
    let known = subject.generation.description();
    let described = Live::new(subject.generation.code().code())
        .and_then(|mut live| live.call(Call::Describe, |exports, store| exports.call_describe(store)));
    match described.map(convert::description) {
        Ok(now) if now == *known => {}
        Ok(_) => return failed("`describe` of another instance says something else"),
        Err(error) => return failed(format!("{error}")),
    }
    let not_a_number = |value: &Value| match value {
        Value::Number(number) => !number.is_finite(),
        Value::Numbers(numbers) => numbers.iter().any(|number| !number.is_finite()),
        Value::Boolean(_) | Value::Text(_) | Value::Texts(_) => false,
    };
    match known.options.iter().find(|option| not_a_number(&option.default)) {
        Some(option) => failed(format!(
            "the default of option \"{}\" is {:?}, which no configuration can write; make it finite",
            option.name, option.default
        )),
        None => passed(format!(
            "{} {}, {} options",
            known.name,
            known.version,
            known.options.len()
        )),
    }
}

/// A fresh instance returns the plan that the generation has.
pub(super) fn init(subject: &Subject<'_>) -> Outcome {
    for _ in 0..=subject.rounds {
        if let Err(error) = subject.generation.start() {
            return failed(format!("{error}"));
        }
    }
    passed(format!("the same plan {} times", subject.rounds + 2))
}

/// Requests are admitted, alike by every instance. That a per-request option at its declared default changes something is
/// told: it may hang on the configuration.
pub(super) fn admit(subject: &Subject<'_>) -> Outcome {
    let generation = subject.generation;
    let mut kept = generation.instance();
    let (mut refused, mut entries, mut changing) = (0, BTreeSet::new(), BTreeSet::new());
    let requests = 12 * subject.rounds;
    for index in 0..requests {
        let admitted = subject.admit(&mut kept, index, &[]);
        if subject.admit(&mut generation.instance(), index, &[]) != admitted {
            return failed(format!(
                "a fresh instance admits request {index} differently: {admitted:?} before"
            ));
        }
        match &admitted {
            Ok(admission) => drop(entries.insert(admission.model.0)),
            Err(error) if error.is_request_error() => refused += 1,
            Err(error) => return failed(format!("{error}")),
        }
        for setting in values_in_force(generation) {
            match subject.admit(&mut kept, index, std::slice::from_ref(&setting)) {
                Ok(written) => {
                    if admitted.as_ref().is_ok_and(|admitted| *admitted != written) {
                        changing.insert(setting.name);
                    }
                }
                Err(error) if error.is_request_error() => {}
                Err(error) => return failed(format!("option \"{}\" in a request: {error}", setting.name)),
            }
        }
    }
    if refused == requests {
        return Outcome::Noted(format!("all {requests} requests without options are refused"));
    }
    if !changing.is_empty() {
        let names: Vec<String> = changing.into_iter().collect();
        return Outcome::Noted(format!(
            "a request that sets {} to the value in force is treated differently from one that does not",
            names.join(" or ")
        ));
    }
    let entries: Vec<String> = entries.iter().map(u32::to_string).collect();
    passed(format!(
        "{requests} requests, {refused} refused, first model {}",
        entries.join(" or ")
    ))
}

/// The options that a request may set, at the values that hold without it: those the configuration gives, and else the
/// declared defaults.
fn values_in_force(generation: &Generation) -> Vec<Setting> {
    let given = generation.config();
    let options = generation
        .description()
        .options
        .iter()
        .filter(|option| option.per_request);
    let setting = |option: &OptionInfo| {
        let configured = given.iter().find(|setting| setting.name == option.name);
        configured.cloned().unwrap_or_else(|| Setting {
            name: option.name.clone(),
            value: option.default.clone(),
        })
    };
    options.map(setting).collect()
}

/// Every batch is answered in the right shape, and so is the departure of every row that leaves.
pub(super) fn route(subject: &Subject<'_>) -> Outcome {
    let columns = |at: ModelIndex| subject.generation.plan().columns(at);
    let words = subject.generation.plan().state_words;
    subject.for_each_batch(|instance, at, batch, decisions| {
        for (row, &to) in decisions.destinations.iter().enumerate() {
            // One departure to each model is enough to see what the policy makes of it.
            if to == at || decisions.destinations[..row].contains(&to) {
                continue;
            }
            let leaving = LeavingRow {
                candidate: batch.candidates[row],
                signals: &batch.signals[row * columns(at)..][..columns(at)],
                state: &decisions.state[row * words..][..words],
                text: batch.texts.get(row),
            };
            let parcel = instance.send(at, to, leaving).map_err(|error| error.to_string())?;
            instance.receive(to, at, &parcel).map_err(|error| error.to_string())?;
        }
        Ok(())
    })
}

/// A fresh instance decides every batch like one that has decided others before.
pub(super) fn purity(subject: &Subject<'_>) -> Outcome {
    let mut again = Decisions::default();
    subject.for_each_batch(|_, at, batch, decisions| {
        subject
            .generation
            .instance()
            .route(at, batch, &mut again)
            .map_err(|error| error.to_string())?;
        if again == *decisions {
            return Ok(());
        }
        Err("a fresh instance decides differently; keep nothing between calls but what `init` computed".to_owned())
    })
}

/// A row is decided alike alone and in company. Not in the contract's words, but an answer then depends on its seed alone.
pub(super) fn rows(subject: &Subject<'_>) -> Outcome {
    let words = subject.generation.plan().state_words;
    let mut alone = Decisions::default();
    let found = subject.for_each_batch(|instance, at, batch, decisions| {
        let columns = subject.generation.plan().columns(at);
        for row in 0..batch.rows().min(8) {
            let one = RouteBatch {
                candidates: vec![batch.candidates[row]],
                signals: batch.signals[row * columns..][..columns].to_vec(),
                state: batch.state[row * words..][..words].to_vec(),
                texts: (row < batch.texts.len())
                    .then(|| batch.texts.get(row))
                    .into_iter()
                    .collect(),
            };
            instance
                .route(at, &one, &mut alone)
                .map_err(|error| error.to_string())?;
            if alone.destinations[0] != decisions.destinations[row]
                || alone.state[..] != decisions.state[row * words..][..words]
            {
                return Err("a row alone is decided differently than in company".to_owned());
            }
        }
        Ok(())
    });
    match found {
        Outcome::Failed(reason) => Outcome::Noted(format!("{reason}: answers will depend on the load")),
        Outcome::Passed(_) | Outcome::Noted(_) => passed("decided alike alone and in company"),
    }
}
