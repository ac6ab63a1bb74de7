//! Conformance of the policies that come with the host: each component in the real engine, against decisions worked out
//! by hand from its publication.

mod all;
mod glimprouter;
mod me;
mod one_token;
mod r_stitch;
mod request_level;

use std::sync::LazyLock;

use tokenrouter_core::ModelIndex;
use tokenrouter_core::policy::{Admission, Decisions, LeavingRow, Parcel, PolicyState, RouteBatch};
use tokenrouter_core::texts::Texts;
use tokenrouter_policy::{Deployment, Generation, HeadFacts, ModelFacts, PolicyCode, PolicyInstance, Setting, Value};

use crate::component::{admitting, host};

const SMALL: ModelIndex = ModelIndex(0);
const LARGE: ModelIndex = ModelIndex(1);

/// Names of the components, which are the policies' own names.
const NAMES: [&str; 8] = [
    "citer",
    "co-llm",
    "glimprouter",
    "me",
    "r-stitch",
    "r2r",
    "random",
    "request-level",
];

fn bytes(name: &str) -> Vec<u8> {
    let path = format!("{}/../../plugins/dist/{name}.wasm", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The policy of this name, compiled once for all tests.
fn load(name: &str) -> &'static PolicyCode {
    static SHIPPED: LazyLock<Vec<PolicyCode>> = LazyLock::new(|| {
        let host = host();
        let load = |name| {
            host.load(&bytes(name))
                .unwrap_or_else(|error| panic!("{name}: {error}"))
        };
        NAMES.into_iter().map(load).collect()
    });
    let named = SHIPPED.iter().find(|code| code.description().name == name);
    named.unwrap_or_else(|| panic!("no policy calls itself {name}"))
}

/// Models of 1,000 tokens, and every head that a policy asks for by default.
fn deployment(models: &[&str]) -> Deployment {
    let facts = |name: &&str| ModelFacts {
        name: (*name).to_owned(),
        parameters: 1,
        vocabulary: 1000,
    };
    Deployment {
        name: "test".to_owned(),
        models: models.iter().map(facts).collect(),
        heads: ["citer", "co-llm", "r2r", "request-level"]
            .map(|name| HeadFacts {
                name: name.to_owned(),
                model: ModelIndex(0),
            })
            .to_vec(),
    }
}

fn configure(name: &str, config: &[Setting]) -> Generation {
    load(name)
        .configure(&deployment(&["small", "large"]), config)
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn number(name: &str, value: f64) -> Setting {
    Setting {
        name: name.to_owned(),
        value: Value::Number(value),
    }
}

fn text(name: &str, value: &str) -> Setting {
    Setting {
        name: name.to_owned(),
        value: Value::Text(value.to_owned()),
    }
}

fn admit(policy: &mut PolicyInstance, options: &[Setting]) -> Admission {
    policy.admit(&admitting(&[1]), options).expect("admits")
}

/// A step of `at` with these rows of signals, all in the same state. Destinations, and the states after it.
fn route(
    policy: &mut PolicyInstance,
    at: ModelIndex,
    rows: &[&[f32]],
    state: &PolicyState,
) -> (Vec<u32>, Vec<PolicyState>) {
    let batch = RouteBatch {
        candidates: vec![1; rows.len()],
        signals: rows.concat(),
        state: state.words().repeat(rows.len()),
        texts: Texts::default(),
    };
    let mut decisions = Decisions::default();
    policy.route(at, &batch, &mut decisions).expect("routes");
    let states = decisions
        .state
        .chunks(state.words().len().max(1))
        .map(PolicyState::new)
        .collect();
    (decisions.destinations.iter().map(|model| model.0).collect(), states)
}

/// One request on its way through a policy.
struct Journey<'a> {
    policy: &'a mut PolicyInstance,
    at: ModelIndex,
    state: PolicyState,
}

impl<'a> Journey<'a> {
    fn begin(policy: &'a mut PolicyInstance, options: &[Setting]) -> Self {
        let Admission { model: at, state } = admit(policy, options);
        Self { policy, at, state }
    }

    /// A step: its signals and the candidate's text. Who goes on, and whether the candidate was committed.
    fn step(&mut self, signals: &[f32], text: &str) -> (ModelIndex, bool) {
        let batch = RouteBatch {
            candidates: vec![1],
            signals: signals.to_vec(),
            state: self.state.words().to_vec(),
            texts: if self.policy.generation().plan().texts {
                [text].iter().collect()
            } else {
                Texts::default()
            },
        };
        let mut decisions = Decisions::default();
        self.policy.route(self.at, &batch, &mut decisions).expect("routes");
        let to = decisions.destinations[0];
        let mut parcel = Parcel {
            keep_candidate: true,
            state: PolicyState::new(&decisions.state),
        };
        if to != self.at {
            let row = LeavingRow {
                candidate: 1,
                signals,
                state: &decisions.state,
                text,
            };
            parcel = self.policy.send(self.at, to, row).expect("sends");
            parcel.state = self.policy.receive(to, self.at, &parcel).expect("receives");
        }
        (self.at, self.state) = (to, parcel.state);
        (to, parcel.keep_candidate)
    }
}
