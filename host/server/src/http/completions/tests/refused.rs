//! What is refused, and in which words; and what is accepted without being served.

use serde_json::{Value, json};

use super::super::{Fields, read};
use super::{body, jobs, parse, parse_bytes, refused, with_served};
use crate::http::ApiError;

#[test]
fn wrong_types_and_ranges_name_the_field_what_is_expected_and_what_was_found() {
    for (fields, param, message) in [
        (
            json!({ "temperature": "hot" }),
            "temperature",
            "temperature must be a number, found a string",
        ),
        (
            json!({ "temperature": 3 }),
            "temperature",
            "temperature is 3; it must be 0 to 2",
        ),
        (
            json!({ "temperature": -0.1 }),
            "temperature",
            "temperature is -0.1; it must be 0 to 2",
        ),
        (json!({ "top_p": 1.5 }), "top_p", "top_p is 1.5; it must be 0 to 1"),
        (
            json!({ "top_k": -2 }),
            "top_k",
            "top_k is -2; it must be -1 to 4294967295",
        ),
        (
            json!({ "min_p": true }),
            "min_p",
            "min_p must be a number, found the boolean true",
        ),
        (
            json!({ "max_tokens": 0 }),
            "max_tokens",
            "max_tokens is 0; it must be 1 to 4294967295",
        ),
        (
            json!({ "max_tokens": 1.5 }),
            "max_tokens",
            "max_tokens must be an integer, found the number 1.5",
        ),
        (
            json!({ "max_tokens": u64::MAX }),
            "max_tokens",
            "max_tokens is 18446744073709551615; it must be 1 to 4294967295",
        ),
        (
            json!({ "stream": 1 }),
            "stream",
            "stream must be a boolean, found the number 1",
        ),
        (
            json!({ "stream_options": [] }),
            "stream_options",
            "stream_options must be an object, found an array",
        ),
        (
            json!({ "stream_options": { "include_usage": "yes" } }),
            "stream_options.include_usage",
            "stream_options.include_usage must be a boolean, found a string",
        ),
        (
            json!({ "stop": 1 }),
            "stop",
            "stop must be a string or an array of strings, found the number 1",
        ),
        (
            json!({ "stop": ["a", 1] }),
            "stop",
            "stop must be a string or an array of strings, found the number 1",
        ),
        (
            json!({ "stop": ["a", ""] }),
            "stop",
            "stop has an empty string, which would end every answer at once",
        ),
        (
            json!({ "stop": ["a", "b", "c", "d", "e"] }),
            "stop",
            "stop has 5 strings; at most 4 are possible",
        ),
        (
            json!({ "seed": "x" }),
            "seed",
            "seed must be an integer, found a string",
        ),
        (
            json!({ "prompt": "" }),
            "prompt",
            "prompt is empty; it needs at least one token",
        ),
        (
            json!({ "prompt": [] }),
            "prompt",
            "prompt is empty; it needs at least one token",
        ),
        (
            json!({ "prompt": ["a", []] }),
            "prompt",
            "prompt is empty; it needs at least one token",
        ),
        (
            json!({ "prompt": ["1", "1", "1", "1"] }),
            "prompt",
            "prompt has 4 prompts; at most 3 are possible",
        ),
        (
            json!({ "prompt": [1, -1] }),
            "prompt",
            "prompt must be token ids from 0 to 4294967295, found the number -1",
        ),
        (
            json!({ "prompt": [1, "a"] }),
            "prompt",
            "prompt must be token ids from 0 to 4294967295, found a string",
        ),
        (
            json!({ "prompt": {} }),
            "prompt",
            "prompt must be a string, an array of token ids, or an array of these, found an object",
        ),
        (
            json!({ "prompt": null }),
            "prompt",
            "prompt is missing; it is a string, an array of token ids, or an array of these",
        ),
        (
            json!({ "model": 1 }),
            "model",
            "model must be a string, found the number 1",
        ),
        (json!({ "n": 4 }), "n", "n is 4; it must be 1 to 3"),
        (
            json!({ "n": 2, "best_of": 3 }),
            "best_of",
            "best_of is 3; it must be n, 2: answers are not ranked here, so all are shown",
        ),
        (
            json!({ "max_tokens": 5, "max_completion_tokens": 6 }),
            "max_completion_tokens",
            "max_completion_tokens is 6, but max_tokens is 5; they mean the same, so give one of them",
        ),
        (
            json!({ "stream_options": { "include_usage": true } }),
            "stream_options",
            "stream_options is for streams; set stream to true or leave it out",
        ),
        (
            json!({ "logit_bias": { "21": 1 } }),
            "logit_bias",
            "logit_bias has the key \"21\"; keys are token ids from 0 to 20",
        ),
        (
            json!({ "logit_bias": { "5": 101 } }),
            "logit_bias",
            "logit_bias of token 5 is 101; it must be a number from -100 to 100",
        ),
        (
            json!({ "stop_token_ids": [21] }),
            "stop_token_ids",
            "stop_token_ids must be token ids from 0 to 20, found the number 21",
        ),
        (
            json!({ "echo": true, "logprobs": 1 }),
            "logprobs",
            "logprobs cannot be combined with echo: prompts are fed without computing their log-probabilities",
        ),
        (
            json!({ "tokenrouter": { "option": {} } }),
            "tokenrouter.option",
            "tokenrouter.option is not known; there are options, attribution, steps, prefix_cache, assumed",
        ),
        (
            json!({ "tokenrouter": { "options": { "threshold": [1, "a"] } } }),
            "tokenrouter.options.threshold",
            "tokenrouter.options.threshold must be a boolean, a number, a string, or an array of numbers or of strings, \
             found a list of mixed or nested values",
        ),
        (
            json!({ "model": "tiny/large", "tokenrouter": { "options": { "threshold": 1 } } }),
            "tokenrouter.options",
            "tokenrouter.options are for a routing policy, but \"tiny/large\" is served without one",
        ),
    ] {
        let expected = ApiError::Field {
            param: param.to_owned(),
            message: message.to_owned(),
        };
        assert_eq!(refused(&fields), expected, "{fields}");
    }
}

#[test]
fn a_body_that_is_no_json_object_is_told_where_it_breaks() {
    for (body, message) in [
        (
            b"".as_slice(),
            "the body is not valid JSON: EOF while parsing a value at line 1 column 0",
        ),
        (
            b"{\"model\":\n tiny}",
            "the body is not valid JSON: expected ident at line 2 column 3",
        ),
        (b"[]", "the body is not valid JSON: expected an object, found an array"),
        (b"{\"model\": \"\xff\"}", "the body is not UTF-8: byte 11 is wrong"),
        (
            b"{\"temperature\": NaN}",
            "the body is not valid JSON: expected value at line 1 column 17",
        ),
        (
            b"{\"temperature\": 1e999}",
            "the body is not valid JSON: number out of range at line 1 column 21",
        ),
    ] {
        let error = parse_bytes(body).err().expect("refused");
        assert_eq!((error.to_string().as_str(), error.status().as_u16()), (message, 400));
    }
}

#[test]
fn known_fields_that_are_not_served_are_accepted_when_neutral_and_refused_when_they_matter() {
    for (name, neutral, matters) in [
        ("suffix", json!(""), json!("end")),
        ("tools", json!([]), json!([{ "type": "function" }])),
        ("tool_choice", json!("none"), json!("auto")),
        ("allowed_token_ids", json!([]), json!([1])),
        ("length_penalty", json!(1), json!(1.5)),
        ("use_beam_search", json!(false), json!(true)),
    ] {
        assert!(parse(&json!({ name: neutral })).is_ok(), "{name}");
        match refused(&json!({ name: matters })) {
            ApiError::Unsupported { param, .. } => assert_eq!(param, name),
            other => panic!("{name}: {other}"),
        }
    }
}

/// Of the fields that a request may have, those that nobody reads are unknown; null is absent.
#[test]
fn fields_that_nobody_knows_are_told_apart() {
    let body =
        body(&json!({ "user": "me", "unheard_of": [1], "zzz": null, "n": 1, "suffix": "", "stop": null, "top": 0 }));
    let fields = Fields::of_body(&body).unwrap();
    with_served(|served| read(served, &fields)).map(drop).unwrap();
    let mut unread: Vec<_> = fields.unread().collect();
    unread.sort_unstable();
    assert_eq!(unread, ["top", "unheard_of"]);
}

/// The bounds of an answer that were not given count too.
#[test]
fn fewer_tokens_than_the_fewest_are_refused() {
    for (fields, max) in [
        (json!({ "min_tokens": 6, "max_tokens": 5 }), 5),
        (json!({ "min_tokens": 17 }), 16),
    ] {
        let message = jobs(&fields).unwrap_err().to_string();
        let expected = format!(
            "min_tokens is {}; it must be at most max_tokens, {max}",
            fields["min_tokens"]
        );
        assert_eq!(message, expected);
    }
}

#[test]
fn a_character_without_a_token_names_the_prompt_that_has_it() {
    let message = |prompt: Value| jobs(&json!({ "prompt": prompt })).unwrap_err().to_string();
    assert!(
        message(json!("1x")).starts_with("character 'x' (U+0078) at index 1"),
        "{}",
        message(json!("1x"))
    );
    assert!(
        message(json!(["1", "1x"])).starts_with("prompt 1: character 'x'"),
        "{}",
        message(json!(["1", "1x"]))
    );
}
