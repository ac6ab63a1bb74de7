//! What can be asked of a [`Manager`], one function each. All are audited, whatever comes of them.

use super::*;

/// A component that is brought in.
#[derive(Clone, Debug)]
pub struct Upload {
    /// The name it is to be served by.
    pub name: String,
    /// The component.
    pub bytes: Vec<u8>,
    /// What it is configured with.
    pub options: BTreeMap<String, OptionValue>,
    /// What the client believes the component's digest to be.
    pub sha256: Option<Digest>,
    /// A detached ed25519 signature of the component.
    pub signature: Option<[u8; 64]>,
    /// What the client believes to be the newest generation of this name; 0 for none.
    pub expected: Option<u32>,
    /// Whether it is to serve at once.
    pub activate: Option<Activation>,
}

/// How a generation is to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activation {
    /// Also for requests that name no policy.
    pub as_default: bool,
}

/// A change to the traffic.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Route new requests by it.
    Activate {
        /// Which; the newest of the name without a number.
        generation: Option<u32>,
        /// Other options than it was uploaded with, which makes it a new generation.
        options: Option<BTreeMap<String, OptionValue>>,
        /// How.
        activation: Activation,
    },
    /// Route a share of the default's new requests by it; 0 ends the trial.
    Canary {
        /// Which; the newest of the name without a number.
        generation: Option<u32>,
        /// From 0 to 1.
        share: f64,
    },
    /// Let it watch a share of the default's requests; 0 ends the trial.
    Shadow {
        /// Which; the newest of the name without a number.
        generation: Option<u32>,
        /// From 0 to 1.
        share: f64,
    },
    /// Go back.
    Rollback {
        /// To which; the one before without a number.
        to: Option<u32>,
    },
    /// Take all generations of the name out.
    Delete,
}

/// What came of a change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Done {
    /// The generation that was made or chosen; `None` when a policy was deleted or a trial ended.
    pub generation: Option<u32>,
    /// Whether all was as asked for already.
    pub unchanged: bool,
    /// How long the component took to compile; zero if its code was at hand.
    pub compile_time: Duration,
}

impl Manager {
    /// Checks a component and adds it as a new generation, which serves at once if the upload says so. The same component with the
    /// same options as the newest of its name is no new generation.
    ///
    /// # Errors
    /// [`SwapError`]; nothing has changed then.
    pub fn upload(&self, who: &str, upload: Upload) -> Result<Done, SwapError> {
        let (name, digest) = (upload.name.clone(), Digest::of(&upload.bytes));
        let action = if upload.activate.is_some() {
            "upload and activate"
        } else {
            "upload"
        };
        let result = self.try_upload(upload, digest);
        self.note(who, action, &name, Some(digest.to_string()), &result);
        result
    }

    fn try_upload(&self, upload: Upload, digest: Digest) -> Result<Done, SwapError> {
        let bytes_max = self.component_bytes_max();
        if upload.bytes.len() > bytes_max {
            let bytes = upload.bytes.len();
            return Err(tokenrouter_policy::PolicyError::TooLarge { bytes, bytes_max }.into());
        }
        if let Some(expected) = upload.sha256.filter(|expected| *expected != digest) {
            return Err(SwapError::Digest {
                expected,
                found: digest,
            });
        }
        let signed_by = signature::check(
            &upload.bytes,
            upload.signature.as_ref(),
            &self.settings.keys,
            self.settings.require_signature,
        )?;
        let _turn = self.uploads.lock().unwrap_or_else(PoisonError::into_inner);
        let code = {
            let state = self.state();
            expect_newest(&state.set, &upload.name, upload.expected)?;
            code_at_hand(&state.served, digest)
        };
        let mut record = Record {
            id: 0,
            name: upload.name,
            digest: digest.to_string(),
            options: upload.options,
            signed_by,
            created_s: now_ms() / 1000,
            withdrawn: None,
        };
        // A name that cannot be one is not worth compiling for.
        PolicySet::default().add(record.clone())?;
        let prepared = self.workshop.prepare(&upload.bytes, &record.options, code)?;

        let _change = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.state();
        expect_newest(&state.set, &record.name, upload.expected)?;
        let same = state
            .set
            .newest_of(&record.name)
            .filter(|newest| is_same(newest, &record))
            .map(|newest| newest.id);
        if let Some(id) = same {
            let (name, compile_time) = (record.name, prepared.compile_time);
            drop(state);
            let done = match upload.activate {
                Some(activation) => self.activate(&name, id, activation)?,
                None => Done {
                    generation: Some(id),
                    unchanged: true,
                    ..Done::default()
                },
            };
            return Ok(Done { compile_time, ..done });
        }
        self.add(
            &mut state,
            &mut record,
            prepared,
            Some(upload.bytes.into()),
            upload.activate,
        )
    }

    /// Adds a prepared generation to the set, and saves and serves what follows from it.
    fn add(
        &self,
        state: &mut State,
        record: &mut Record,
        prepared: Prepared,
        bytes: Option<Arc<[u8]>>,
        activate: Option<Activation>,
    ) -> Result<Done, SwapError> {
        let live = self.engine.generations().len();
        if live >= self.live_max {
            return Err(SwapError::TooManyLive { live });
        }
        let digest = prepared.generation.digest();
        record.id = state.set.newest + 1;
        let id = record.id;
        let mut set = state.set.clone();
        set.add(record.clone())?;
        if let Some(activation) = activate {
            set.activate(id, activation.as_default);
        }
        let served = self.install(id, &record.name, prepared.generation)?;
        let had_component = state.components.contains_key(&digest);
        if let Some(bytes) = bytes {
            state.components.entry(digest).or_insert(bytes);
        }
        state.served.insert(id, served);
        let staged_before = std::mem::replace(&mut state.staged, activate.is_none().then_some(id));
        if let Err(error) = self.commit(state, set) {
            state.served.remove(&id);
            state.staged = staged_before;
            if !had_component {
                state.components.remove(&digest);
            }
            return Err(error);
        }
        Ok(Done {
            generation: Some(id),
            unchanged: false,
            compile_time: prepared.compile_time,
        })
    }

    /// Changes the traffic. `expected` is what the client believes to be the default's generation; 0 for none.
    ///
    /// # Errors
    /// [`SwapError`]; nothing has changed then.
    pub fn change(&self, who: &str, name: &str, change: &Change, expected: Option<u32>) -> Result<Done, SwapError> {
        let (action, result) = {
            let _change = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
            let found = self.state().set.default_generation().unwrap_or(0);
            let checked = expect(expected, found, || "the default".to_owned());
            let change = checked.map(|()| change);
            match change {
                Err(error) => ("change", Err(error)),
                Ok(Change::Activate {
                    generation,
                    options,
                    activation,
                }) => (
                    "activate",
                    self.try_activate(name, *generation, options.as_ref(), *activation),
                ),
                Ok(Change::Canary { generation, share }) => ("canary", self.try_out(name, *generation, *share, true)),
                Ok(Change::Shadow { generation, share }) => ("shadow", self.try_out(name, *generation, *share, false)),
                Ok(Change::Rollback { to }) => ("roll back", self.try_rollback(name, *to)),
                Ok(Change::Delete) => ("delete", self.try_delete(name)),
            }
        };
        let generation = result.as_ref().ok().and_then(|done| done.generation);
        let digest = generation.and_then(|id| self.state().set.get(id).map(|record| record.digest.clone()));
        self.note(who, action, name, digest, &result);
        result
    }

    fn try_activate(
        &self,
        name: &str,
        generation: Option<u32>,
        options: Option<&BTreeMap<String, OptionValue>>,
        activation: Activation,
    ) -> Result<Done, SwapError> {
        let state = self.state();
        let picked = state.set.pick(name, generation)?.clone();
        let Some(options) = options.filter(|options| **options != picked.options) else {
            drop(state);
            return self.activate(name, picked.id, activation);
        };
        let mut record = Record {
            options: options.clone(),
            created_s: now_ms() / 1000,
            withdrawn: None,
            ..picked
        };
        let of_name = state.set.generations.iter().rev().filter(|record| record.name == name);
        if let Some(id) = of_name
            .clone()
            .find(|found| is_same(found, &record))
            .map(|found| found.id)
        {
            drop(state);
            return self.activate(name, id, activation);
        }
        let digest = record.digest.parse::<Digest>().ok();
        let bytes = digest
            .and_then(|digest| state.components.get(&digest))
            .cloned()
            .unwrap_or_default();
        let code = digest.and_then(|digest| code_at_hand(&state.served, digest));
        drop(state);
        let prepared = self.workshop.prepare(&bytes, &record.options, code)?;
        self.add(&mut self.state(), &mut record, prepared, None, Some(activation))
    }

    /// Makes a generation that there is serve.
    fn activate(&self, name: &str, id: u32, activation: Activation) -> Result<Done, SwapError> {
        self.replace(|set| {
            let is_default = set.default.as_deref() == Some(name);
            let unchanged = set.active.get(name) == Some(&id) && (is_default || !activation.as_default);
            set.activate(id, activation.as_default);
            if let Some(record) = set.generations.iter_mut().find(|record| record.id == id) {
                record.withdrawn = None;
            }
            Ok((Some(id), unchanged))
        })
    }

    fn try_out(&self, name: &str, generation: Option<u32>, share: f64, canary: bool) -> Result<Done, SwapError> {
        if !(0.0..=1.0).contains(&share) {
            return Err(SwapError::Share { share });
        }
        self.replace(|set| {
            let id = set.pick(name, generation)?.id;
            let trial = Trial { generation: id, share };
            if share > 0.0 {
                match set.default_generation() {
                    None => return Err(SwapError::NoDefault { name: name.to_owned() }),
                    Some(default) if default == id => return Err(SwapError::IsDefault { generation: id }),
                    Some(_) => {}
                }
            }
            let place = if canary { &mut set.canary } else { &mut set.shadow };
            let before = *place;
            *place = (share > 0.0).then_some(trial);
            let unchanged = *place == before;
            Ok((place.map(|trial| trial.generation), unchanged))
        })
    }

    fn try_rollback(&self, name: &str, to: Option<u32>) -> Result<Done, SwapError> {
        self.replace(|set| {
            let target = set.rollback_target(name, to)?;
            let current = set.active.get(name).copied();
            let is_default = set.default.as_deref() == Some(name);
            set.activate(target, is_default);
            // What was left is not what one goes back to next.
            set.former.retain(|id| Some(*id) != current);
            if let Some(record) = set.generations.iter_mut().find(|record| record.id == target) {
                record.withdrawn = None;
            }
            Ok((Some(target), Some(target) == current))
        })
    }

    fn try_delete(&self, name: &str) -> Result<Done, SwapError> {
        self.replace(|set| set.delete(name).map(|()| (None, false)))
    }

    /// Takes a generation out that failed too often.
    pub(in crate::policies) fn withdraw(&self, id: u32, why: &str) {
        let _change = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let name = self
            .state()
            .set
            .get(id)
            .map_or_else(String::new, |record| record.name.clone());
        let mut came_of_it = None;
        let result = self.replace(|set| {
            came_of_it = set.withdraw(id, why);
            let now = match came_of_it {
                Some(Withdrawn::Replaced(now)) => Some(now),
                _ => None,
            };
            Ok((now, came_of_it.is_none()))
        });
        tracing::error!(policy = name, generation = id, why, came_of_it = ?came_of_it, "a policy failed too often");
        let digest = self.state().set.get(id).map(|record| record.digest.clone());
        self.note("circuit breaker", "take out", &name, digest, &result);
    }

    /// Works a change out on a copy of the set, loads what it needs, and makes it the one in force.
    fn replace(
        &self,
        change: impl FnOnce(&mut PolicySet) -> Result<(Option<u32>, bool), SwapError>,
    ) -> Result<Done, SwapError> {
        let mut state = self.state();
        let mut set = state.set.clone();
        let (generation, unchanged) = change(&mut set)?;
        if set == state.set {
            return Ok(Done {
                generation,
                unchanged,
                ..Done::default()
            });
        }
        let loaded = self.load_missing(&state, &set)?;
        state.served.extend(loaded);
        if state.staged == generation {
            state.staged = None;
        }
        self.commit(&mut state, set)?;
        Ok(Done {
            generation,
            unchanged,
            ..Done::default()
        })
    }

    /// Notes in the audit log that the host takes no more requests.
    pub fn note_drain(&self, who: &str) {
        self.note(who, "drain", "", None, &Ok(Done::default()));
    }

    fn note(&self, who: &str, action: &str, policy: &str, sha256: Option<String>, result: &Result<Done, SwapError>) {
        let (generation, text) = match result {
            Ok(done) if done.unchanged => (done.generation, "unchanged".to_owned()),
            Ok(done) => (done.generation, "ok".to_owned()),
            Err(error) => (None, error.to_string()),
        };
        let time_ms = now_ms();
        self.audit.add(&Entry {
            time_ms,
            who,
            action,
            policy,
            generation,
            sha256,
            result: &text,
        });
    }
}

fn is_same(found: &Record, wanted: &Record) -> bool {
    found.digest == wanted.digest && found.options == wanted.options && found.withdrawn.is_none()
}

fn expect_newest(set: &PolicySet, name: &str, expected: Option<u32>) -> Result<(), SwapError> {
    let found = set.newest_of(name).map_or(0, |record| record.id);
    expect(expected, found, || format!("the newest of \"{name}\""))
}

fn expect(expected: Option<u32>, found: u32, what: impl FnOnce() -> String) -> Result<(), SwapError> {
    match expected {
        Some(expected) if expected != found => Err(SwapError::Expectation {
            what: what(),
            expected,
            found,
        }),
        _ => Ok(()),
    }
}
