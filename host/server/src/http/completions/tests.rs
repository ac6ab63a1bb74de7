//! From a body to a request and its jobs: what is read, and what is refused in which words.

use serde_json::{Value, json};
use tokenrouter_core::ModelIndex;
use tokenrouter_engine::{Job, Target};
use tokenrouter_model::text::Tokenizer;
use tokenrouter_model::{Embedded, Sampling, Source};
use tokenrouter_policy::{Setting, Value as OptionValue};

use super::request::{CompletionRequest, Prompt};
use crate::http::{ApiError, ModelNames};

const PROMPTS_MAX: usize = 3;

fn names() -> ModelNames {
    ModelNames {
        deployment: "tiny".to_owned(),
        policies: vec!["r-stitch".to_owned()],
        members: vec!["small".to_owned(), "large".to_owned()],
    }
}

fn parse_bytes(body: &[u8]) -> Result<CompletionRequest, ApiError> {
    CompletionRequest::parse(body, &names(), PROMPTS_MAX)
}

/// A request with these fields beside a model and a prompt.
fn parse(fields: &Value) -> Result<CompletionRequest, ApiError> {
    let mut body = json!({ "model": "tiny", "prompt": "1+1=" });
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    parse_bytes(body.to_string().as_bytes())
}

fn tokenizer() -> Tokenizer {
    let source = Source::Embedded(Embedded::Small);
    let config = source.config().unwrap();
    Tokenizer::from_bytes(&source.tokenizer().unwrap(), config.bos_token_id, &config.eos_token_id).unwrap()
}

fn jobs(fields: &Value) -> Result<Vec<Job>, ApiError> {
    parse(fields)?.jobs(&tokenizer())
}

#[test]
fn without_a_model_the_deployment_answers() {
    for body in [json!({ "prompt": "1+1=" }), json!({ "model": null, "prompt": "1+1=" })] {
        assert_eq!(
            parse_bytes(body.to_string().as_bytes()),
            parse(&json!({ "model": "tiny" }))
        );
    }
}

#[test]
fn fields_that_are_absent_or_null_have_the_apis_defaults() {
    let absent = parse(&json!({})).unwrap();
    assert_eq!(
        absent,
        CompletionRequest {
            model: "tiny".to_owned(),
            target: Target::Default,
            prompts: vec![Prompt::Text("1+1=".to_owned())],
            max_tokens: 16,
            sampling: Sampling {
                temperature: 1.0,
                top_p: 1.0,
                top_k: 0,
                min_p: 0.0
            },
            seed: None,
            stop: vec![],
            stream: false,
            include_usage: false,
            options: vec![],
            attribution: false,
        }
    );
    let all_null = [
        "max_tokens",
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "seed",
        "stop",
        "stream",
        "stream_options",
        "tokenrouter",
        "n",
        "best_of",
        "echo",
        "logprobs",
        "logit_bias",
        "suffix",
        "presence_penalty",
        "frequency_penalty",
        "user",
        "tools",
    ];
    let null: serde_json::Map<String, Value> = all_null.iter().map(|name| ((*name).to_owned(), Value::Null)).collect();
    assert_eq!(parse(&null.into()).unwrap(), absent);
}

#[test]
fn every_field_reaches_the_job() {
    let fields = json!({
        "model": "tiny/large", "max_tokens": 7, "temperature": 0.5, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "seed": 42,
        "stop": ["A", ";"],
    });
    let job = jobs(&fields).unwrap().remove(0);
    assert_eq!(job.target, Target::Model(ModelIndex(1)));
    assert_eq!(
        (job.max_tokens, job.seed, job.stop),
        (7, 42, vec!["A".to_owned(), ";".to_owned()])
    );
    assert_eq!(
        job.sampling,
        Sampling {
            temperature: 0.5,
            top_p: 0.9,
            top_k: 5,
            min_p: 0.1
        }
    );
    // BOS once, then a token for each of the four characters.
    assert_eq!((job.prompt[0], job.prompt.len()), (2, 5));
    let own = json!({ "tokenrouter": { "options": { "threshold": 0.1, "unit": null }, "attribution": true } });
    let request = parse(&own).unwrap();
    let threshold = Setting {
        name: "threshold".to_owned(),
        value: OptionValue::Number(0.1),
    };
    assert_eq!((request.options, request.attribution), (vec![threshold], true));
    let streamed = parse(&json!({ "stream": true, "stream_options": { "include_usage": true }, "stop": "A" })).unwrap();
    assert!(streamed.stream && streamed.include_usage);
    assert_eq!(streamed.stop, ["A"]);
}

#[test]
fn all_four_forms_of_a_prompt_give_one_job_each_in_order() {
    let prompts = |prompt: Value| -> Vec<Vec<u32>> {
        jobs(&json!({ "prompt": prompt }))
            .unwrap()
            .into_iter()
            .map(|job| job.prompt)
            .collect()
    };
    let encoded = |text: &str| tokenizer().encode_prompt(text).unwrap();
    assert_eq!(prompts(json!("1+1=")), [encoded("1+1=")]);
    assert_eq!(prompts(json!(["1+1=", "2+2="])), [encoded("1+1="), encoded("2+2=")]);
    assert_eq!(prompts(json!([2, 4, 5])), [[2, 4, 5]]);
    assert_eq!(prompts(json!([[2, 4], [5]])), [vec![2, 4], vec![5]]);
}

#[test]
fn a_seed_is_kept_to_its_last_bit_and_drawn_anew_when_there_is_none() {
    for (seed, bits) in [
        (json!(u64::MAX), u64::MAX),
        (json!(-1), u64::MAX),
        (json!(i64::MIN), 1 << 63),
        (json!(0), 0),
    ] {
        assert_eq!(parse(&json!({ "seed": seed })).unwrap().seed, Some(bits));
    }
    let seeds: Vec<u64> = jobs(&json!({ "prompt": ["1", "1", "1"] }))
        .unwrap()
        .iter()
        .map(|job| job.seed)
        .collect();
    assert!(seeds[0] != seeds[1] && seeds[1] != seeds[2], "{seeds:?}");
    assert!(
        seeds.iter().all(|&seed| seed < 1 << 53),
        "a client must be able to repeat them: {seeds:?}"
    );
}

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
        (
            json!({ "tokenrouter": { "option": {} } }),
            "tokenrouter.option",
            "tokenrouter.option is not known; there are options, attribution",
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
        assert_eq!(parse(&fields).unwrap_err(), expected, "{fields}");
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
        assert_eq!(parse_bytes(body).unwrap_err().to_string(), message);
        assert_eq!(parse_bytes(body).unwrap_err().status().as_u16(), 400);
    }
}

#[test]
fn known_fields_that_are_not_served_are_accepted_when_neutral_and_refused_when_they_matter() {
    for (name, neutral, matters) in [
        ("n", json!(1), json!(2)),
        ("best_of", json!(1), json!(3)),
        ("echo", json!(false), json!(true)),
        ("logprobs", json!(null), json!(0)),
        ("suffix", json!(""), json!("end")),
        ("logit_bias", json!({}), json!({ "5": 1 })),
        ("presence_penalty", json!(0), json!(0.5)),
        ("frequency_penalty", json!(0.0), json!(-1)),
        ("repetition_penalty", json!(1.0), json!(1.1)),
        ("tools", json!([]), json!([{ "type": "function" }])),
        ("tool_choice", json!("none"), json!("auto")),
        (
            "response_format",
            json!({ "type": "text" }),
            json!({ "type": "json_object" }),
        ),
    ] {
        assert!(parse(&json!({ name: neutral })).is_ok(), "{name}");
        match parse(&json!({ name: matters })).unwrap_err() {
            ApiError::Unsupported { param, .. } => assert_eq!(param, name),
            other => panic!("{name}: {other}"),
        }
    }
    assert!(
        parse(&json!({ "user": "me", "unheard_of": [1] })).is_ok(),
        "fields nobody knows are accepted"
    );
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
