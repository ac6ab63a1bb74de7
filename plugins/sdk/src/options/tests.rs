use super::*;
use crate::testing::{number, text};

const SHARE: Number = Number {
    name: "share",
    summary: "a share",
    default: 0.5,
    min: 0.0,
    max: 1.0,
    per_request: true,
};
const MODE: Choice = Choice {
    name: "mode",
    summary: "a mode",
    default: "fast",
    choices: &["fast", "exact"],
    per_request: false,
};
const ON: Boolean = Boolean {
    name: "on",
    summary: "a switch",
    default: true,
    per_request: false,
};
const LABEL: Text = Text {
    name: "label",
    summary: "a label",
    default: "none",
    per_request: true,
};
const WEIGHTS: Numbers = Numbers {
    name: "weights",
    summary: "weights",
    default: &[0.5, 0.5],
    min: 0.0,
    max: 1.0,
    per_request: false,
};
const WORDS: Texts = Texts {
    name: "words",
    summary: "words",
    default: &["a"],
    per_request: false,
};
const ALL: &[&dyn Declared] = &[&SHARE, &MODE, &ON, &LABEL, &WEIGHTS, &WORDS];

fn setting(name: &str, value: Value) -> Setting {
    Setting {
        name: name.into(),
        value,
    }
}

fn refusal(settings: Vec<Setting>) -> String {
    Options::read(ALL, settings).unwrap_err()
}

#[test]
fn options_that_are_not_given_have_their_defaults() {
    let options = Options::read(ALL, vec![]).unwrap();
    assert_eq!(options.get(&SHARE), 0.5);
    assert_eq!(options.get(&MODE), "fast");
    assert!(options.get(&ON));
    assert_eq!(options.get(&LABEL), "none");
    assert_eq!(options.get(&WEIGHTS), [0.5, 0.5]);
    assert_eq!(options.get(&WORDS), ["a"]);
    assert_eq!(options.given(&SHARE), None);
}

#[test]
fn options_that_are_given_have_the_values_given() {
    let given = vec![
        number("share", 1.0),
        text("mode", "exact"),
        setting("on", Value::Boolean(false)),
        text("label", "x"),
        setting("weights", Value::Numbers(vec![0.25])),
        setting("words", Value::Texts(vec!["b".into(), "c".into()])),
    ];
    let options = Options::read(ALL, given).unwrap();
    assert_eq!(options.given(&SHARE), Some(1.0));
    assert_eq!(options.get(&MODE), "exact");
    assert!(!options.get(&ON));
    assert_eq!(options.get(&LABEL), "x");
    assert_eq!(options.get(&WEIGHTS), [0.25]);
    assert_eq!(options.get(&WORDS), ["b", "c"]);
}

/// The host cannot tell an empty list's type, so it may send either.
#[test]
fn an_empty_list_is_taken_for_either_type_of_list() {
    let given = vec![
        setting("weights", Value::Texts(vec![])),
        setting("words", Value::Numbers(vec![])),
    ];
    let options = Options::read(ALL, given).unwrap();
    assert!(options.get(&WEIGHTS).is_empty());
    assert!(options.get(&WORDS).is_empty());
}

#[test]
fn every_declared_default_passes_its_own_check() {
    for option in ALL {
        let info = option.info();
        assert_eq!(option.check(&info.default), Ok(()), "{}", info.name);
    }
}

#[test]
fn an_unknown_option_is_refused_with_the_known_ones() {
    assert_eq!(
        refusal(vec![number("shore", 0.5)]),
        "unknown option \"shore\"; this policy has: share, mode, on, label, weights, words"
    );
    assert_eq!(
        Options::read(&[], vec![number("x", 0.0)]).unwrap_err(),
        "unknown option \"x\"; this policy has: none"
    );
}

#[test]
fn a_request_knows_only_the_options_it_may_set() {
    let options = Options::read_request(ALL, vec![number("share", 0.25)]).unwrap();
    assert_eq!(options.given(&SHARE), Some(0.25));
    let refusal = Options::read_request(ALL, vec![text("mode", "exact")]).unwrap_err();
    assert_eq!(refusal, "unknown option \"mode\"; a request may set: share, label");
}

#[test]
fn an_option_given_twice_is_refused() {
    let refusal = refusal(vec![number("share", 0.1), number("share", 0.2)]);
    assert_eq!(refusal, "option \"share\" is given twice; give it once");
}

#[test]
fn an_option_that_the_choice_has_no_use_for_is_refused() {
    let exact = vec![text("mode", "exact"), text("label", "x")];
    let check = |given| Options::read(ALL, given).unwrap().only_for(&LABEL, &MODE, &["exact"]);
    assert_eq!(check(exact), Ok(()));
    assert_eq!(check(vec![]), Ok(()), "a default is no use of it");
    assert_eq!(
        check(vec![text("label", "x")]).unwrap_err(),
        "option \"label\" is for mode exact; mode is \"fast\", so leave it out"
    );
}

#[test]
fn a_wrong_type_is_refused_with_value_and_wanted_type() {
    for (given, expected) in [
        (
            text("share", "0.5"),
            "option \"share\" is \"0.5\", a text; it must be a number",
        ),
        (number("mode", 1.0), "option \"mode\" is 1, a number; it must be a text"),
        (
            number("on", 1.0),
            "option \"on\" is 1, a number; it must be true or false",
        ),
        (
            setting("label", Value::Boolean(true)),
            "option \"label\" is true, a boolean; it must be a text",
        ),
        (
            number("weights", 1.0),
            "option \"weights\" is 1, a number; it must be a list of numbers",
        ),
        (
            setting("words", Value::Numbers(vec![1.0])),
            "option \"words\" is a list of numbers; it must be a list of texts",
        ),
    ] {
        assert_eq!(refusal(vec![given]), expected);
    }
}

#[test]
fn a_value_out_of_range_is_refused_with_the_range() {
    for value in [-0.1, 1.5, f64::NAN, f64::INFINITY] {
        let expected = format!("option \"share\" is {value}; it must be between 0 and 1");
        assert_eq!(refusal(vec![number("share", value)]), expected);
    }
    assert_eq!(
        refusal(vec![setting("weights", Value::Numbers(vec![0.5, 2.0]))]),
        "option \"weights\" is 2; it must be between 0 and 1"
    );
    assert_eq!(
        refusal(vec![text("mode", "slow")]),
        "option \"mode\" is \"slow\"; it must be one of: fast, exact"
    );
}
