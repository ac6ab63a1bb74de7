//! Which generations there are and what each is for: plain data, changed by one function for each thing an operator can ask.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::SwapError;
use crate::deployment::OptionValue;

/// Former defaults that can be rolled back to.
pub const FORMER_MAX: usize = 8;

/// Names that policies may be stored under.
pub const NAMES_MAX: usize = 32;

/// Longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// One component with one configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Its number. Numbers grow and are never used twice.
    pub id: u32,
    /// The name it is served by, as in `deployment@name`.
    pub name: String,
    /// SHA-256 of the component, in hexadecimal.
    pub digest: String,
    /// What it was configured with.
    pub options: BTreeMap<String, OptionValue>,
    /// The name of the key that its upload was signed with.
    pub signed_by: Option<String>,
    /// When it was made, in seconds since 1970.
    pub created_s: u64,
    /// Why it was taken out, if it failed too often.
    pub withdrawn: Option<String>,
}

/// A generation that gets a share of the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// Which.
    pub generation: u32,
    /// From 0 to 1.
    pub share: f64,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicySet {
    /// Number of the newest generation there has been.
    pub newest: u32,
    /// The generations, the oldest first.
    pub generations: Vec<Record>,
    /// The generation that answers to each name.
    pub active: BTreeMap<String, u32>,
    /// The name that requests which name no policy go to.
    pub default: Option<String>,
    /// Routes a share of the default's new requests.
    pub canary: Option<Trial>,
    /// Watches a share of the default's requests.
    pub shadow: Option<Trial>,
    /// Generations that were the default, the latest last.
    pub former: Vec<u32>,
}

/// What came of taking a generation out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawn {
    /// Another one has its place.
    Replaced(u32),
    /// It was on trial, and the trial is over.
    TrialEnded,
    /// There is none to take its place: it stays, and the failure mode applies.
    NothingBefore,
}

impl PolicySet {
    /// A generation by its number.
    pub fn get(&self, id: u32) -> Option<&Record> {
        self.generations.iter().find(|record| record.id == id)
    }

    /// The newest generation of a name.
    pub fn newest_of(&self, name: &str) -> Option<&Record> {
        self.generations.iter().rev().find(|record| record.name == name)
    }

    /// The generation that routes requests which name no policy.
    pub fn default_generation(&self) -> Option<u32> {
        self.default.as_ref().and_then(|name| self.active.get(name)).copied()
    }

    /// The names there are.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.generations.iter().map(|record| record.name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The newest generation of a name, or an error that lists the names.
    ///
    /// # Errors
    /// [`SwapError::NoSuchPolicy`].
    pub fn require(&self, name: &str) -> Result<&Record, SwapError> {
        self.newest_of(name).ok_or_else(|| SwapError::NoSuchPolicy {
            name: name.to_owned(),
            known: self.names(),
        })
    }

    /// A generation of a name by its number; the newest without one.
    ///
    /// # Errors
    /// No such name, or no such generation of it.
    pub fn pick(&self, name: &str, id: Option<u32>) -> Result<&Record, SwapError> {
        let newest = self.require(name)?;
        let Some(id) = id else { return Ok(newest) };
        let of_name = self.get(id).filter(|record| record.name == name);
        of_name.ok_or_else(|| SwapError::NoSuchGeneration {
            name: name.to_owned(),
            generation: id,
            known: self
                .generations
                .iter()
                .filter(|record| record.name == name)
                .map(|record| record.id)
                .collect(),
        })
    }

    /// Adds a generation, which routes nothing yet. Its number is in [`PolicySet::newest`].
    ///
    /// # Errors
    /// A name that cannot be one, or too many of them.
    pub fn add(&mut self, record: Record) -> Result<(), SwapError> {
        check_name(&record.name)?;
        if self.newest_of(&record.name).is_none() && self.names().len() >= NAMES_MAX {
            return Err(SwapError::TooManyNames { max: NAMES_MAX });
        }
        self.newest = record.id;
        self.generations.push(record);
        Ok(())
    }

    /// Routes new requests by a generation: those that ask for its name and, `as_default`, those that name no policy. A new
    /// default ends the trials, which were against the old one.
    pub fn activate(&mut self, id: u32, as_default: bool) {
        let Some(record) = self.get(id) else { return };
        let name = record.name.clone();
        let before = self.default_generation();
        self.active.insert(name.clone(), id);
        if as_default || self.default.is_none() {
            self.default = Some(name);
        }
        let trials_of = |trial: Option<Trial>| trial.filter(|trial| trial.generation != id);
        (self.canary, self.shadow) = (trials_of(self.canary), trials_of(self.shadow));
        let now = self.default_generation();
        if let Some(before) = before.filter(|before| Some(*before) != now) {
            (self.canary, self.shadow) = (None, None);
            self.former.retain(|former| *former != before && Some(*former) != now);
            self.former.push(before);
        }
        self.forget();
    }

    /// The generation that a policy is rolled back to: of the default, the default before it; of another, the one before
    /// it under the same name; or the given one.
    ///
    /// # Errors
    /// There is none, or the given one is not kept.
    pub fn rollback_target(&self, name: &str, to: Option<u32>) -> Result<u32, SwapError> {
        self.require(name)?;
        let nothing = || SwapError::NothingBefore { name: name.to_owned() };
        let current = *self.active.get(name).ok_or_else(nothing)?;
        if let Some(to) = to {
            // The default goes back to whatever was the default; a name goes back to its own.
            let is_default = self.default.as_deref() == Some(name);
            let possible = |record: &&Record| is_default || record.name == name;
            let known = || self.generations.iter().filter(possible).map(|record| record.id);
            return known().find(|id| *id == to).ok_or_else(|| SwapError::NoSuchGeneration {
                name: name.to_owned(),
                generation: to,
                known: known().collect(),
            });
        }
        self.before(name, current).ok_or_else(nothing)
    }

    /// What a generation in force under a name took the place of, if that has not failed itself.
    fn before(&self, name: &str, current: u32) -> Option<u32> {
        let sound = |id: u32| self.get(id).is_some_and(|record| record.withdrawn.is_none());
        if self.default.as_deref() == Some(name) {
            return self.former.iter().rev().copied().find(|&id| id != current && sound(id));
        }
        let of_name = self
            .generations
            .iter()
            .rev()
            .filter(|record| record.name == name && record.id < current);
        of_name.map(|record| record.id).find(|&id| sound(id))
    }

    /// Takes a generation out that failed too often.
    pub fn withdraw(&mut self, id: u32, why: &str) -> Option<Withdrawn> {
        let record = self.generations.iter_mut().find(|record| record.id == id)?;
        record.withdrawn = Some(why.to_owned());
        let name = record.name.clone();
        let is_trial = |trial: Option<Trial>| trial.is_some_and(|trial| trial.generation == id);
        let on_trial = is_trial(self.canary) || is_trial(self.shadow);
        self.canary = self.canary.filter(|trial| trial.generation != id);
        self.shadow = self.shadow.filter(|trial| trial.generation != id);
        if self.active.get(&name) != Some(&id) {
            return on_trial.then_some(Withdrawn::TrialEnded);
        }
        let is_default = self.default.as_ref() == Some(&name);
        let Some(before) = self.before(&name, id) else {
            return Some(Withdrawn::NothingBefore);
        };
        self.activate(before, is_default);
        self.former.retain(|former| *former != id);
        // The name of a failed default goes back to what it was, or nowhere.
        if self.active.get(&name) == Some(&id) {
            match self.before(&name, id) {
                Some(own) => self.active.insert(name, own),
                None => self.active.remove(&name),
            };
        }
        Some(Withdrawn::Replaced(before))
    }

    /// Takes all generations of a name out.
    ///
    /// # Errors
    /// No such name, or one that routes requests which did not ask for it.
    pub fn delete(&mut self, name: &str) -> Result<(), SwapError> {
        self.require(name)?;
        let of_name = |trial: &Trial| self.get(trial.generation).is_some_and(|record| record.name == name);
        let role = if self.default.as_deref() == Some(name) {
            "the default"
        } else if self.canary.as_ref().is_some_and(of_name) {
            "the canary"
        } else if self.shadow.as_ref().is_some_and(of_name) {
            "the shadow"
        } else {
            self.active.remove(name);
            self.generations.retain(|record| record.name != name);
            let kept: Vec<u32> = self.generations.iter().map(|record| record.id).collect();
            self.former.retain(|id| kept.contains(id));
            return Ok(());
        };
        Err(SwapError::InUse {
            name: name.to_owned(),
            role,
        })
    }

    /// Drops generations that nothing leads to any more.
    pub fn forget(&mut self) {
        let surplus = self.former.len().saturating_sub(FORMER_MAX);
        self.former.drain(..surplus);
        let newest: Vec<u32> = self
            .names()
            .iter()
            .filter_map(|name| Some(self.newest_of(name)?.id))
            .collect();
        let in_use: Vec<u32> = self
            .in_force()
            .chain(self.former.iter().copied())
            .chain(newest)
            .collect();
        self.generations.retain(|record| in_use.contains(&record.id));
    }

    /// The generations that new requests may be routed or watched by.
    pub fn in_force(&self) -> impl Iterator<Item = u32> + '_ {
        let trials = self.canary.iter().chain(&self.shadow).map(|trial| trial.generation);
        self.active.values().copied().chain(trials)
    }

    /// Whether everything it names is there.
    pub fn is_consistent(&self) -> bool {
        let known = |id: u32| self.get(id).is_some();
        self.in_force().all(known)
            && self.former.iter().copied().all(known)
            && self.default.as_ref().is_none_or(|name| self.active.contains_key(name))
            && self
                .active
                .iter()
                .all(|(name, &id)| self.get(id).is_some_and(|record| record.name == *name))
            && self
                .generations
                .iter()
                .all(|record| record.id <= self.newest && check_name(&record.name).is_ok())
    }
}

/// Names become parts of what clients write in `model`, so `@` and `/` are taken.
fn check_name(name: &str) -> Result<(), SwapError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(plain) {
        return Ok(());
    }
    Err(SwapError::Name {
        name: name.chars().take(100).collect(),
    })
}
