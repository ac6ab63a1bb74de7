//! From a body to a request and its jobs.

mod refused;

use serde_json::{Value, json};
use tokenrouter_core::ModelIndex;
use tokenrouter_engine::{Job, Target};
use tokenrouter_model::text::Tokenizer;
use tokenrouter_model::{Embedded, Penalties, Sampling, Source};
use tokenrouter_policy::{Setting, Value as OptionValue};

use super::shape::TextShape;
use super::{Asked, Fields, Served, completion_jobs, read};
use crate::deployment::RequestOptions;
use crate::http::{ApiError, ModelNames, answer};

const ANSWERS_MAX: usize = 3;

fn names() -> ModelNames {
    ModelNames {
        deployment: "tiny".to_owned(),
        policies: vec!["r-stitch".to_owned()],
        members: vec!["small".to_owned(), "large".to_owned()],
    }
}

fn tokenizer() -> Tokenizer {
    let source = Source::Embedded(Embedded::Small);
    let config = source.config().unwrap();
    Tokenizer::from_bytes(&source.tokenizer().unwrap(), config.bos_token_id, &config.eos_token_id).unwrap()
}

fn with_served<T>(use_it: impl FnOnce(Served<'_>) -> T) -> T {
    use_it(Served {
        names: &names(),
        tokenizer: &tokenizer(),
        grammars: &answer::Grammars::new(&tokenizer(), &[1]),
        template: None,
        request_options: &RequestOptions::default(),
        answers_max: ANSWERS_MAX,
        length_max: 512,
    })
}

fn parse_bytes(body: &[u8]) -> Result<Asked<TextShape>, ApiError> {
    let body = answer::parse(body)?;
    let fields = Fields::of_body(&body)?;
    with_served(|served| read(served, &fields))
}

fn body(fields: &Value) -> Value {
    let mut body = json!({ "model": "tiny", "prompt": "1+1=" });
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// A request with these fields beside a model and a prompt.
fn parse(fields: &Value) -> Result<Asked<TextShape>, ApiError> {
    parse_bytes(body(fields).to_string().as_bytes())
}

fn jobs(fields: &Value) -> Result<Vec<Job>, ApiError> {
    let body = body(fields).to_string();
    completion_jobs(body.as_bytes(), &names(), &tokenizer(), ANSWERS_MAX, 512)
}

fn refused(fields: &Value) -> ApiError {
    match parse(fields) {
        Err(error) => error,
        Ok(_) => panic!("{fields} is accepted"),
    }
}

/// The job of a request with a seed, which is drawn otherwise, as text: whatever differs, shows.
fn seeded_job(fields: &Value) -> String {
    let mut fields = fields.clone();
    fields["seed"] = 1.into();
    format!("{:?}", jobs(&fields).unwrap())
}

#[test]
fn without_a_model_the_deployment_answers() {
    for body in [json!({ "prompt": "1+1=" }), json!({ "model": null, "prompt": "1+1=" })] {
        let asked = parse_bytes(body.to_string().as_bytes()).unwrap();
        assert_eq!(asked.params, parse(&json!({ "model": "tiny" })).unwrap().params);
    }
}

#[test]
fn fields_that_are_absent_have_the_apis_defaults() {
    let job = jobs(&json!({})).unwrap().remove(0);
    assert_eq!(job.target, Target::Default);
    assert_eq!((job.max_tokens, job.min_tokens), (16, 0));
    let all = Sampling {
        temperature: 1.0,
        top_p: 1.0,
        top_k: 0,
        min_p: 0.0,
    };
    assert_eq!((job.sampling, job.penalties), (all, Penalties::NONE));
    assert!(job.logit_bias.is_empty() && job.stop.is_empty() && job.stop_tokens.is_empty() && job.options.is_empty());
    assert!(!job.include_stop && !job.ignore_eos && !job.attribution && job.logprobs.is_none());
    let asked = parse(&json!({})).unwrap();
    assert!(!asked.params.stream && asked.params.n == 1);
}

/// Every field changes its own part of the job and nothing else.
#[test]
fn every_field_reaches_the_job() {
    let default = jobs(&json!({ "seed": 1 })).unwrap().remove(0);
    type Change = fn(&mut Job);
    let cases: [(Value, Change); 19] = [
        (json!({ "model": "tiny/large" }), |job| {
            job.target = Target::Model(ModelIndex(1));
        }),
        (json!({ "max_tokens": 7 }), |job| job.max_tokens = 7),
        (json!({ "max_completion_tokens": 7 }), |job| job.max_tokens = 7),
        (json!({ "min_tokens": 3 }), |job| job.min_tokens = 3),
        (json!({ "temperature": 0.5 }), |job| job.sampling.temperature = 0.5),
        (json!({ "top_p": 0.9 }), |job| job.sampling.top_p = 0.9),
        (json!({ "top_k": 5 }), |job| job.sampling.top_k = 5),
        (json!({ "top_k": -1 }), |job| job.sampling.top_k = 0),
        (json!({ "min_p": 0.1 }), |job| job.sampling.min_p = 0.1),
        (json!({ "presence_penalty": 0.5 }), |job| job.penalties.presence = 0.5),
        (json!({ "frequency_penalty": -0.5 }), |job| {
            job.penalties.frequency = -0.5;
        }),
        (json!({ "repetition_penalty": 1.5 }), |job| {
            job.penalties.repetition = 1.5;
        }),
        (json!({ "logit_bias": { "20": -100, "3": 0.5 } }), |job| {
            job.logit_bias = vec![(20, -100.0), (3, 0.5)];
        }),
        (json!({ "stop": "A" }), |job| job.stop = vec!["A".to_owned()]),
        (json!({ "stop": ["A", ";"] }), |job| {
            job.stop = vec!["A".to_owned(), ";".to_owned()];
        }),
        (json!({ "stop_token_ids": [4, 5] }), |job| job.stop_tokens = vec![4, 5]),
        (json!({ "include_stop_str_in_output": true }), |job| {
            job.include_stop = true;
        }),
        (json!({ "ignore_eos": true }), |job| job.ignore_eos = true),
        (json!({ "logprobs": 3 }), |job| job.logprobs = Some(3)),
    ];
    for (fields, change) in cases {
        let mut expected = default.clone();
        change(&mut expected);
        assert_eq!(seeded_job(&fields), format!("{:?}", [expected]), "{fields}");
    }
    // BOS once, then a token for each of the four characters.
    assert_eq!((default.prompt[0], default.prompt.len()), (2, 5));
    let own = json!({ "tokenrouter": { "options": { "threshold": 0.1, "unit": null }, "attribution": true } });
    let job = jobs(&own).unwrap().remove(0);
    let threshold = Setting {
        name: "threshold".to_owned(),
        value: OptionValue::Number(0.1),
    };
    assert_eq!((job.options, job.attribution), (vec![threshold], true));
}

/// The first answer has the request's seed, the others seeds that a client can repeat; prompts do not share answers.
#[test]
fn choices_are_prompt_times_n_and_have_seeds_of_their_own() {
    let jobs = jobs(&json!({ "prompt": "1+1=", "n": 3, "seed": 42 })).unwrap();
    let seeds: Vec<u64> = jobs.iter().map(|job| job.seed).collect();
    assert_eq!((seeds.len(), seeds[0]), (3, 42));
    assert!(seeds[1] != 42 && seeds[2] != 42 && seeds[1] != seeds[2], "{seeds:?}");
    assert!(seeds.iter().all(|&seed| seed < 1 << 53), "{seeds:?}");
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
        assert_eq!(jobs(&json!({ "seed": seed })).unwrap()[0].seed, bits);
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
