//! Builds the components of these tests: a well-behaved policy with code put into one of its functions.

use std::collections::BTreeMap;

use tokenrouter_core::policy::{Admitting, Decisions, RouteBatch};
use tokenrouter_core::texts::Texts;
use tokenrouter_core::{ModelIndex, TokenId};
use tokenrouter_policy::{
    CONTRACT_VERSION, Deployment, Generation, ModelFacts, PolicyError, PolicyHost, PolicyInstance, PolicyLimits,
};

/// A candidate that makes a hostile `route` misbehave; all others are routed well.
pub const TRIGGER: TokenId = 66;

/// The parts of a policy. Unset ones do nothing.
pub struct Policy {
    parts: BTreeMap<&'static str, String>,
    /// Exports and the function each gives out instead of its own; none: it is left out.
    instead: Vec<(&'static str, Option<&'static str>)>,
}

impl Policy {
    pub fn new() -> Self {
        let mut parts = BTreeMap::new();
        for part in [
            "imports",
            "declarations",
            "describe",
            "init",
            "admit",
            "route",
            "send",
            "receive",
        ] {
            parts.insert(part, String::new());
        }
        parts.insert("version", CONTRACT_VERSION.to_owned());
        parts.insert("memory pages", "1".to_owned());
        parts.insert("data", data(&Plan::default()));
        Self {
            parts,
            instead: Vec::new(),
        }
    }

    pub fn with(mut self, part: &'static str, text: &str) -> Self {
        assert!(self.parts.insert(part, text.to_owned()).is_some(), "no part {part}");
        self
    }

    pub fn plan(self, plan: &Plan) -> Self {
        self.with("data", &data(plan))
    }

    /// Misbehaves in `route` when the first candidate is [`TRIGGER`].
    pub fn hostile_route(self, code: &str) -> Self {
        let code = format!("(if (i32.eq (i32.load (local.get $candidates)) (i32.const {TRIGGER})) (then {code}))");
        self.with("route", &code)
    }

    pub fn without(mut self, export: &'static str) -> Self {
        self.instead.push((export, None));
        self
    }

    /// Exports another of the functions under this name.
    pub fn exporting(mut self, export: &'static str, function: &'static str) -> Self {
        self.instead.push((export, Some(function)));
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut text = include_str!("component.wat").to_owned();
        for (part, code) in &self.parts {
            text = text.replace(&format!("{{{{{part}}}}}"), code);
        }
        for (export, function) in &self.instead {
            let line = |function: &str| format!("(export \"{export}\" (func ${function}))");
            text = text.replace(&line(export), &function.map(line).unwrap_or_default());
        }
        wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// What `init` returns. Signals are pairs of a case of the contract's variant and its number.
pub struct Plan {
    pub entry: u32,
    pub state_words: u32,
    pub signals: Vec<Vec<(u8, u32)>>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            entry: 0,
            state_words: 1,
            signals: vec![vec![(0, 0)], Vec::new()],
        }
    }
}

/// The answers of `describe` and `init`, laid out as the canonical ABI wants them.
fn data(plan: &Plan) -> String {
    let mut texts = Vec::new();
    let mut text = |text: &str| {
        let at = 1024 + texts.len() as u32;
        texts.extend(text.as_bytes());
        [at, text.len() as u32]
    };
    let option = |name: [u32; 2], summary: [u32; 2], per_request: u32| {
        // name, summary, default (case 1: the number 0), per-request
        [&name[..], &summary, &[1, 0, 0, 0], &[per_request, 0]].concat()
    };
    let summary = text("a number");
    let options = [option(text("limit"), summary, 1), option(text("fixed"), summary, 0)].concat();
    let description = [text("hand-written"), text("1.0.0"), text("made for a test"), [2304, 2]].concat();

    let mut lists = Vec::new();
    let mut signals = Vec::new();
    for list in &plan.signals {
        lists.extend([3328 + 4 * signals.len() as u32, list.len() as u32]);
        for &(case, number) in list {
            // A head's name is a text: all heads are called "limit", as the option above.
            signals.extend([u32::from(case), if case == 6 { 1032 } else { number }, 5]);
        }
    }
    let init = [0, plan.entry, plan.state_words, 3200, plan.signals.len() as u32, 0];
    [
        (2048, description),
        (2304, options),
        (3072, init.to_vec()),
        (3200, lists),
        (3328, signals),
    ]
    .iter()
    .map(|(at, words)| {
        segment(
            *at,
            &words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>(),
        )
    })
    .chain([segment(1024, &texts)])
    .collect()
}

fn segment(at: u32, bytes: &[u8]) -> String {
    let bytes: String = bytes.iter().map(|byte| format!("\\{byte:02x}")).collect();
    format!("(data (i32.const {at}) \"{bytes}\")\n")
}

/// Deadlines are longer than the defaults: these tests compete with each other for few cores, and a good call must not
/// fail because its thread had to wait.
pub fn limits() -> PolicyLimits {
    PolicyLimits {
        instances_max: 8,
        call_ms_max: 300,
        init_ms_max: 1000,
        ..PolicyLimits::default()
    }
}

pub fn host() -> PolicyHost {
    PolicyHost::new(limits()).expect("the engine starts")
}

pub fn deployment() -> Deployment {
    let model = |name: &str, parameters| ModelFacts {
        name: name.to_owned(),
        parameters,
        vocabulary: 1000,
    };
    Deployment {
        name: "test".to_owned(),
        models: vec![model("small", 1), model("large", 10)],
        heads: Vec::new(),
    }
}

pub fn configured(host: &PolicyHost, policy: &Policy) -> Result<Generation, PolicyError> {
    host.load(&policy.bytes())?.configure(&deployment(), &[])
}

/// One row a candidate; its state is its place.
pub fn batch(candidates: &[TokenId]) -> RouteBatch {
    RouteBatch {
        candidates: candidates.to_vec(),
        signals: vec![0.5; candidates.len()],
        state: (0..candidates.len() as u64).collect(),
        texts: Texts::default(),
    }
}

pub fn route(instance: &mut PolicyInstance, candidates: &[TokenId]) -> Result<Decisions, PolicyError> {
    let mut decisions = Decisions::default();
    instance
        .route(ModelIndex(0), &batch(candidates), &mut decisions)
        .map(|()| decisions)
}

/// That `instance` routes as the hand-written policy should.
pub fn assert_routes_well(instance: &mut PolicyInstance) {
    let decisions = route(instance, &[0, 1, 1, 0]).expect("a good call is answered");
    let destinations: Vec<u32> = decisions.destinations.iter().map(|model| model.0).collect();
    assert_eq!(destinations, [0, 1, 1, 0]);
    assert_eq!(decisions.state, [0, 1, 2, 3]);
}

pub fn admitting(prompt: &[TokenId]) -> Admitting<'_> {
    Admitting {
        seed: 7,
        prompt,
        max_tokens: 16,
        temperature: 0.0,
    }
}
