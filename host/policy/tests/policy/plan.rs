//! Plans and configurations: what the host promises is what it can give.

use tokenrouter_core::ModelIndex;
use tokenrouter_core::signal::Signal;
use tokenrouter_policy::{Deployment, HeadFacts, PolicyError, Setting, Value};

use crate::component::{Plan, Policy, configured, deployment, host};

const TOP_K_LOGITS: u8 = 4;
const HEAD_SCORE: u8 = 6;

fn setting(name: &str) -> Setting {
    Setting {
        name: name.to_owned(),
        value: Value::Number(1.0),
    }
}

#[test]
fn a_plan_within_bounds_is_kept() {
    let plan = Plan {
        entry: 1,
        state_words: 16,
        signals: vec![vec![(0, 0), (TOP_K_LOGITS, 1000)], vec![(9, 0)]],
    };
    let generation = configured(&host(), &Policy::new().plan(&plan)).expect("configures");
    let kept = generation.plan();
    assert_eq!((kept.entry, kept.state_words, kept.texts), (ModelIndex(1), 16, false));
    assert_eq!(
        kept.signals,
        [vec![Signal::Entropy, Signal::TopKLogits(1000)], vec![Signal::Newlines]]
    );
}

#[test]
fn a_plan_out_of_bounds_is_refused() {
    let host = host();
    let signals = |list: Vec<(u8, u32)>| Plan {
        signals: vec![list, Vec::new()],
        ..Plan::default()
    };
    for (what, plan, named) in [
        (
            "entry",
            Plan {
                entry: 2,
                ..Plan::default()
            },
            "models 0 to 1",
        ),
        (
            "state",
            Plan {
                state_words: 17,
                ..Plan::default()
            },
            "at most 16",
        ),
        (
            "too few lists",
            Plan {
                signals: vec![Vec::new()],
                ..Plan::default()
            },
            "1 lists of signals for 2 models",
        ),
        ("k = 0", signals(vec![(TOP_K_LOGITS, 0)]), "1 to 1000"),
        (
            "k above the vocabulary",
            signals(vec![(TOP_K_LOGITS, 1001)]),
            "1 to 1000",
        ),
        (
            "columns",
            signals(vec![(TOP_K_LOGITS, 600), (TOP_K_LOGITS, 600)]),
            "1200 columns",
        ),
        ("head", signals(vec![(HEAD_SCORE, 0)]), "the deployment has none"),
    ] {
        let error = configured(&host, &Policy::new().plan(&plan)).err();
        let Some(PolicyError::Plan { reason }) = error else {
            panic!("{what}: {error:?}")
        };
        assert!(reason.contains(named), "{what}: {reason}");
    }
}

/// The hand-written plan calls every head `limit`.
#[test]
fn a_head_may_be_asked_for_if_it_is_loaded() {
    let plan = Plan {
        signals: vec![vec![(HEAD_SCORE, 0)], Vec::new()],
        ..Plan::default()
    };
    let code = host().load(&Policy::new().plan(&plan).bytes()).expect("loads");
    let with = |head: &str| Deployment {
        heads: vec![HeadFacts {
            name: head.to_owned(),
            model: ModelIndex(0),
        }],
        ..deployment()
    };
    let error = code.configure(&with("other"), &[]).err();
    let reason = "the score of head `limit`; the deployment has other".to_owned();
    assert_eq!(error, Some(PolicyError::Plan { reason }));
    let generation = code.configure(&with("limit"), &[]).expect("configures");
    assert_eq!(generation.plan().signals[0], [Signal::HeadScore("limit".to_owned())]);
}

/// The hidden states of one model mean nothing to a head that was trained on another's.
#[test]
fn a_head_is_evaluated_at_its_own_model_only() {
    let plan = Plan {
        signals: vec![vec![(HEAD_SCORE, 0)], Vec::new()],
        ..Plan::default()
    };
    let code = host().load(&Policy::new().plan(&plan).bytes()).expect("loads");
    let at = |model| Deployment {
        heads: vec![HeadFacts {
            name: "limit".to_owned(),
            model: ModelIndex(model),
        }],
        ..deployment()
    };
    let names: Vec<String> = deployment().models.iter().map(|model| model.name.clone()).collect();
    let reason = format!(
        "the score of head `limit` at model `{}`; it is evaluated at model `{}` only",
        names[0], names[1]
    );
    assert_eq!(code.configure(&at(1), &[]).err(), Some(PolicyError::Plan { reason }));
    let error = code.configure(&at(2), &[]).err();
    assert!(matches!(error, Some(PolicyError::Deployment { .. })), "{error:?}");
}

#[test]
fn the_refusal_of_a_configuration_is_passed_on() {
    // Case 1 of the `result`, and the first of the texts.
    let refuse = "(i32.store8 (i32.const 3072) (i32.const 1))
                  (i32.store (i32.const 3076) (i32.const 1024))
                  (i32.store (i32.const 3080) (i32.const 8))";
    let error = configured(&host(), &Policy::new().with("init", refuse)).err();
    assert_eq!(
        error,
        Some(PolicyError::ConfigRefused {
            text: "a number".to_owned()
        })
    );
}

#[test]
fn options_must_be_the_policys() {
    let code = host().load(&Policy::new().bytes()).expect("loads");
    let refusal = |config: &[Setting]| code.configure(&deployment(), config).err();
    let allowed = vec!["limit".to_owned(), "fixed".to_owned()];
    assert_eq!(
        refusal(&[setting("limits")]),
        Some(PolicyError::OptionUnknown {
            name: "limits".to_owned(),
            allowed
        })
    );
    let twice = refusal(&[setting("limit"), setting("limit")]);
    assert_eq!(
        twice,
        Some(PolicyError::OptionTwice {
            name: "limit".to_owned()
        })
    );
    assert_eq!(refusal(&[setting("limit"), setting("fixed")]), None);
}

#[test]
fn a_deployment_without_models_or_with_too_many_is_refused() {
    let code = host().load(&Policy::new().bytes()).expect("loads");
    for count in [0, 9] {
        let models = vec![deployment().models[0].clone(); count];
        let error = code.configure(&Deployment { models, ..deployment() }, &[]).err();
        assert!(
            matches!(error, Some(PolicyError::Deployment { .. })),
            "{count} models: {error:?}"
        );
    }
}
